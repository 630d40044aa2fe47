"""Micro-batches: who is answered with whom, and that everybody gets an answer of their own."""

import asyncio
import threading
import time
from dataclasses import dataclass

from solar_tf.serving.batching import Batcher
from solar_tf.serving.counters import Counters
from solar_tf.serving.refusals import Refusal


@dataclass
class Echo:
    text: str
    k: int

    def first(self, k):
        return Echo(self.text, k)


class Search:
    """Echoes every text, and notes the batches."""

    def __init__(self, seconds=0.0):
        self.calls, self.seconds, self.threads = [], seconds, set()

    def __call__(self, texts, k, options):
        self.calls.append((tuple(texts), k, options))
        self.threads.add(threading.current_thread().name)
        time.sleep(self.seconds)
        if options == "bad":
            raise ValueError("bad")
        return [Echo(text, k) for text in texts]


def run(search, work, **settings):
    async def main():
        batcher = Batcher(search, Counters(), **settings)
        batcher.start()
        try:
            return await work(batcher)
        finally:
            await batcher.stop()

    return asyncio.run(main())


def test_queries_that_arrive_while_others_are_in_work_are_answered_together():
    search = Search(seconds=0.05)

    async def work(batcher):
        first = asyncio.create_task(batcher.ask(["first"], 1, "a"))
        await asyncio.sleep(0.01)
        rest = [asyncio.create_task(batcher.ask([f"q{i}"], i, "a")) for i in range(1, 21)]
        return [outcome for task in (first, *rest) for outcome in await task]

    answers, times = zip(*run(search, work), strict=True)
    assert [spent["batch"] for spent in times] == [1] + [20] * 20
    assert [(answer.text, answer.k) for answer in answers] == [
        ("first", 1),
        *((f"q{i}", i) for i in range(1, 21)),
    ]
    assert [len(texts) for texts, _, _ in search.calls] == [1, 20]
    assert search.calls[1][1] == 20  # the largest k of the batch, cut for each
    assert len(search.threads) == 1 and "MainThread" not in search.threads


def test_different_options_are_searched_apart_and_fail_apart():
    search = Search()

    async def work(batcher):
        asked = (batcher.ask(["x"], 1, options) for options in ("a", "bad", "a"))
        return await asyncio.gather(*asked, return_exceptions=True)

    good, bad, other = run(search, work)
    assert good[0][0].text == other[0][0].text == "x"
    assert isinstance(bad, ValueError)
    assert sorted(options for _, _, options in search.calls) == ["a", "bad"]


def test_a_batch_is_never_larger_than_the_most():
    search = Search()
    texts = [str(i) for i in range(50)]

    async def work(batcher):
        return await batcher.ask(texts, 1, "a")

    answers = run(search, work, most=16)
    assert [answer.text for answer, _ in answers] == texts
    assert [len(texts) for texts, _, _ in search.calls] == [16, 16, 16, 2]


def test_too_many_waiting_queries_are_refused_with_503():
    async def work(batcher):
        asked = [asyncio.create_task(batcher.ask(["x"] * 4, 1, "a")) for _ in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = run(Search(0.05), work, most_waiting=8)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
    assert len(refused) == 1 and refused[0].status_code == 503


def test_a_query_whose_client_has_left_is_not_searched_for():
    search = Search(seconds=0.05)

    async def work(batcher):
        first = asyncio.create_task(batcher.ask(["first"], 1, "a"))
        await asyncio.sleep(0.01)
        gone = asyncio.create_task(batcher.ask(["gone"], 1, "a"))
        await asyncio.sleep(0.01)
        gone.cancel()
        await first
        return await batcher.ask(["last"], 1, "a")

    run(search, work)
    assert [texts for texts, _, _ in search.calls] == [("first",), ("last",)]


def test_a_query_alone_does_not_wait_for_the_window():
    async def work(batcher):
        return [(await batcher.ask(["x"], 1, "a"))[0][1]["waited"] for _ in range(5)]

    assert min(run(Search(), work, window=0.5)) < 0.4
