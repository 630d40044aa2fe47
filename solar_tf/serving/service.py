"""A run behind the batcher: queries, changes, verification, and reloads without a gap."""

import asyncio
import hmac
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from solar_tf.serving.batching import Batcher
from solar_tf.serving.engine import Engine
from solar_tf.serving.refusals import Refusal

log = logging.getLogger("solar.serve")
WATCH_SECONDS = 1.0  # between checks for labels changed by another process


class Service:
    """What the routes call. The engine is replaced as a whole: a batch sees one or the other."""

    def __init__(self, root, counters, num_chunks=None, token=None, window=0.001, attributes=None):
        self.root, self.token = root, token
        self.open = partial(Engine, root, num_chunks, attributes)
        self.counters, self.window = counters, window
        self.engine, self.generation, self.started = self.open(), 1, time.monotonic()
        self.reloading = None  # a lock, once there is an event loop
        counters.gauge("labels", "Labels in the catalogue.", lambda: self.engine.num_labels)
        counters.gauge("generation", "Rises with every reload.", lambda: self.generation)
        counters.gauge("waiting_queries", "Queries that wait.", lambda: len(self.batcher.waiting))
        counters.gauge(
            "verified",
            "1 once all weights match their checksums, 0 before, -1 if they do not.",
            lambda: {"ok": 1, "verifying": 0, "damaged": -1}[self.engine.health],
        )

    # Start and stop.

    async def start(self):
        self.reloading = asyncio.Lock()
        self.changes = ThreadPoolExecutor(1, thread_name_prefix="change")
        self.batcher = Batcher(self._search, self.counters, self.window)
        self.batcher.start()
        self.watcher = asyncio.get_running_loop().create_task(self._watch())
        self._verify(self.engine)

    async def stop(self):
        """Call it after the last request."""
        self.watcher.cancel()
        await asyncio.gather(self.watcher, return_exceptions=True)
        await self.batcher.stop()
        self.changes.shutdown()
        self.engine.close()

    def _verify(self, engine):
        """Verify in the background: it may read gigabytes. /health tells the outcome."""

        def verify():
            engine.warm_up()
            engine.verify()
            (log.error if engine.health == "damaged" else log.info)("%s", engine.detail)

        threading.Thread(target=verify, name="verify", daemon=True).start()

    async def _watch(self):
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                if await self._change("refresh"):
                    self._count("labels")
            except Exception as error:
                log.error("the changed labels cannot be read (%s); the old ones are served", error)

    async def reload(self):
        """Open the run again, which may be a link to a newer one; the old one serves meanwhile."""
        async with self.reloading:
            loop = asyncio.get_running_loop()
            try:
                engine = await loop.run_in_executor(None, self.open)
            except Exception as error:
                self.counters.reloads.labels("failed").inc()
                log.error("%s cannot be opened (%s); the old run is served", self.root, error)
                raise Refusal(409, "not_reloaded", str(error)) from error
            old, self.engine = self.engine, engine
            old.close()
            self._count("run")
            self._verify(engine)
            log.info("reloaded %s, generation %d", self.root, self.generation)

    # Answers.

    def _search(self, texts, k, options):
        return self.engine.search(texts, k, options)

    async def search(self, texts, k, options):
        return await self.batcher.ask(texts, k, options)

    async def add(self, titles, how, attributes=None):
        labels = await self._change("add", titles, how, attributes)
        self._count("labels")
        return labels

    async def remove(self, labels):
        removed = await self._change("remove", labels)
        self._count("labels")
        return removed

    async def _change(self, name, *arguments):
        """Run a method of the engine in the thread of changes: one at a time, beside searches."""
        loop = asyncio.get_running_loop()
        method = getattr(self.engine, name)
        return await loop.run_in_executor(self.changes, method, *arguments)

    def _count(self, outcome):
        self.generation += 1
        self.counters.reloads.labels(outcome).inc()

    def health(self):
        return {
            "status": self.engine.health,
            "detail": self.engine.detail,
            "run": self.engine.facts()["run"],
            "generation": self.generation,
            "uptime_seconds": round(time.monotonic() - self.started, 3),
        }

    def facts(self):
        return self.engine.facts() | {
            "generation": self.generation,
            "editable": self.token is not None,
        }

    def check_token(self, given):
        """Refuse a client without the token."""
        if self.token is None:
            raise Refusal(
                403, "read_only", "the server was started without a token: nothing can be changed"
            )
        if not given or not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Refusal(401, "wrong_token", "give the token: Authorization: Bearer TOKEN")
