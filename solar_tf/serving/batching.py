"""Micro-batches: queries that arrive together are answered together.

One thread searches. Its kernels release the GIL, so the event loop goes on reading and writing.
Queries that arrive during a search form the next batch. A lone query is answered at once; after a
batch of several, the next one waits for the window, about a millisecond, as more are likely.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from solar_tf.serving.refusals import Refusal


@dataclass
class Query:
    """A text that waits for its answer."""

    text: str
    k: int
    options: Any  # hashable: queries with equal options are searched together
    future: asyncio.Future
    arrived: float = field(default_factory=time.perf_counter)


class Batcher:
    """Collects queries and answers them by `search(texts, k, options)` in a thread of its own."""

    def __init__(self, search, counters, window=0.001, most=64, most_waiting=1024):
        self.search, self.counters = search, counters
        self.window, self.most, self.most_waiting = window, most, most_waiting
        self.waiting, self.arrival = [], asyncio.Event()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self.task = None

    def start(self):
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self):
        """Call it when no query waits any more."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.thread.shutdown()

    async def ask(self, texts, k, options):
        """The answers to some texts, which may go into several batches."""
        if len(self.waiting) + len(texts) > self.most_waiting:
            raise Refusal(503, "overloaded", "too many queries are waiting", retry_after=1)
        loop = asyncio.get_running_loop()
        queries = [Query(text, k, options, loop.create_future()) for text in texts]
        self.waiting += queries
        self.arrival.set()
        return await asyncio.gather(*(query.future for query in queries))

    async def _run(self):
        loop = asyncio.get_running_loop()
        busy = False  # whether the last batch had several queries
        while True:
            await self.arrival.wait()
            if busy and len(self.waiting) < self.most:
                await asyncio.sleep(self.window)
            batch, self.waiting = self.waiting[: self.most], self.waiting[self.most :]
            if not self.waiting:
                self.arrival.clear()
            batch = [query for query in batch if not query.future.done()]  # else its client left
            if batch:
                await self._answer(loop, batch)
            busy = len(batch) > 1

    async def _answer(self, loop, batch):
        started = time.perf_counter()
        outcomes = await loop.run_in_executor(self.thread, self._search, batch)
        spent = time.perf_counter() - started
        self.counters.queries.inc(len(batch))
        self.counters.batch_sizes.observe(len(batch))
        self.counters.batch_seconds.observe(spent)
        for query, outcome in zip(batch, outcomes, strict=True):
            waited = started - query.arrived
            self.counters.waited.observe(waited)
            if query.future.done():
                continue
            if isinstance(outcome, Exception):
                query.future.set_exception(outcome)
            else:
                times = {"waited": waited, "searched": spent, "batch": len(batch)}
                query.future.set_result((outcome, times))

    def _search(self, batch):
        """An answer or an exception for every query; runs in the thread."""
        groups, outcomes = {}, [None] * len(batch)
        for place, query in enumerate(batch):
            groups.setdefault(query.options, []).append(place)
        for options, places in groups.items():
            queries = [batch[place] for place in places]
            most = max(query.k for query in queries)
            try:
                answers = self.search([query.text for query in queries], most, options)
            except Exception as error:
                answers = [error] * len(queries)
            for place, query, answer in zip(places, queries, answers, strict=True):
                # A query's k best are the first k of any longer list.
                outcomes[place] = answer if isinstance(answer, Exception) else answer.first(query.k)
        return outcomes
