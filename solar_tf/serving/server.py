"""The process: a socket, uvicorn, signals."""

import asyncio
import contextlib
import logging
import signal
import socket

import uvicorn

from solar_tf.errors import UserError
from solar_tf.runtime.console import say
from solar_tf.serving.app import create_app
from solar_tf.serving.connection import Connection
from solar_tf.serving.counters import Counters
from solar_tf.serving.gate import hosts_for
from solar_tf.serving.refusals import Refusal
from solar_tf.serving.service import Service

GRACE_SECONDS = 30  # for requests in progress at SIGTERM
log = logging.getLogger("solar.serve")


class Server(uvicorn.Server):
    """uvicorn's server that prints its address once it listens, and reloads the run at SIGHUP."""

    def __init__(self, config, service, url):
        super().__init__(config)
        self.service, self.url = service, url

    async def startup(self, sockets=None):
        await super().startup(sockets)
        if not self.started:
            return
        facts = self.service.facts()
        names = facts["attributes"]
        say(
            f"serving {facts['run']}: {facts['labels']:,} labels, {facts['chunks']} chunks"
            f"{', by ' if names else ''}{', '.join(names)} at {self.url}"
        )

    @contextlib.contextmanager
    def capture_signals(self):
        """Exit with code 0 after a clean stop: uvicorn's own handler ends with the signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, self._start_reload)
        yield

    def _start_reload(self):
        self.reloading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self):
        with contextlib.suppress(Refusal):  # the log has it, and the old run is served
            await self.service.reload()


def serve(
    root, host, port, limits, token=None, num_chunks=None, window=0.001, hosts=(), attributes=None
):
    """Serve a run until SIGTERM or Ctrl-C; requests in progress are answered first."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    listener = _listen(host, port)
    with listener:
        counters = Counters()
        service = Service(root, counters, num_chunks, token, window, attributes)
        app = create_app(service, limits, counters, hosts_for(host, hosts))
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="warning",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client could fake its address to escape the rate limit
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        name = f"[{host}]" if ":" in host else host
        url = f"http://{name}:{listener.getsockname()[1]}/"
        server = Server(config, service, url)
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server.serve(sockets=[listener]))


def _listen(host, port):
    """A bound socket: a port in use must be an error before the run is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(f"{host} port {port}: {error.strerror}: choose another with --port")
    return listener
