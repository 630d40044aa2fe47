"""A real server in a process of its own, over the small trained run."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import httpx
from conftest import ROOT

TOKEN = "0123456789abcdef"
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


class Running:
    """A started server: its process, its address, and a client for it."""

    def __init__(self, process, url):
        self.process, self.url = process, url
        self.client = httpx.Client(base_url=url, timeout=60)

    def get(self, path, **parameters):
        return self.client.get(path, params=parameters or None)

    def stop(self, number=signal.SIGTERM):
        """Ask it to end; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextlib.contextmanager
def serving(root, *flags, rate=0):
    """`solar serve` on a free port, killed at the end of the block if it still runs."""
    command = [sys.executable, "-m", "solar_tf", "serve", root, "--port", "0"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "SOLAR_TOKEN": TOKEN}
    process = subprocess.Popen(
        [str(word) for word in (*command, "--rate", rate, *flags)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        url = re.search(r"http://\S+", line)
        assert url, f"{line}{process.stderr.read()}"
        running = Running(process, url[0])
        with running.client:
            yield running
    finally:
        process.kill()
        process.communicate()
