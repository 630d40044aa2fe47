"""A real server in a process of its own, over the small trained run."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time

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

    def search(self, q, **parameters):
        """The answer to a text."""
        answer = self.get("/search", q=q, **parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["answers"][0]

    def found(self, q, **parameters):
        """The labels of the answer."""
        return [label["label"] for label in self.search(q, **parameters)["labels"]]

    @contextlib.contextmanager
    def hammered(self, clients, ask):
        """Clients that call `ask(their httpx client)` all the time; a list of its results."""
        stop, outcomes = threading.Event(), []

        def hammer():
            with httpx.Client(base_url=self.url, timeout=60) as client:
                while not stop.is_set():
                    outcomes.append(ask(client))

        threads = [threading.Thread(target=hammer) for _ in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield outcomes
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


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
