"""Encode and top m (§3.3) of a block of test queries, chunk by chunk: the first half of stage 3.

One chunk's weights are in use at a time, and they are its mapped files: nothing is copied. Two
batches are in work at a time: while one core brings one down to its top buckets, the other cores
do the matrix products of the next. A thread beside them maps and verifies the weights of the next
chunk and writes the files of the last one.
"""

import collections
import itertools
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.encoder import STREAMS, TensorFlowEncoder
from solar_tf.run.files import new_map, read_arrays, write_arrays
from solar_tf.runtime.console import progress
from solar_tf.training.batches import damage_explained, read_batches

BATCH_SIZE = TensorFlowEncoder.batch_size


def query_batches(run, chunk, start, stop, batch_size=BATCH_SIZE, targets=False):
    """Yield the batches of the test queries start to stop; start is a multiple of the size."""
    sources, skip = run.sources("test", chunk), start // batch_size
    with damage_explained(**sources):
        batches = read_batches(batch_size=batch_size, skip=skip, targets=targets, **sources)
        yield from itertools.islice(batches, math.ceil((stop - start) / batch_size))


def in_streams(work, batches, pool):
    """Yield `work(batch)` of all batches, in order, by the threads of `pool`, STREAMS of them."""
    pending = collections.deque()
    for batch in batches:
        pending.append(pool.submit(work, batch))
        if len(pending) > STREAMS:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def timed_pass(network, batch, m):
    """A batch's probabilities, its top m buckets and their values, and the seconds of both steps.

    The forward pass is timed by the clock of its stream, the top m in seconds of one core.
    """
    began, top = time.perf_counter(), (None, None)
    probabilities = network(batch)
    forward, began = time.perf_counter() - began, time.thread_time()
    if m:
        top = ranking.top_buckets(probabilities, m)
    return probabilities, *top, {"forward": forward, "top_m": time.thread_time() - began}


def add_costs(spent):
    """The costs of all batches; forward passes of different streams overlap."""
    total = {name: sum(costs[name] for costs in spent) for name in ("forward", "top_m")}
    return total | {"forward": total["forward"] / max(1, min(STREAMS, len(spent)))}


class BlockForward:
    """All chunks' forward passes of the queries start to stop; what is there is not done again.

    Leaves the top `max_m` buckets of each chunk in its file `paths.topm` and, for the rankers, in
    `files`; with `full`, also all probabilities. `folder_of(chunk)` has a chunk's weights.
    """

    def __init__(
        self, encoder, run, folder_of, files, block, queries, max_m, full, batch_size=BATCH_SIZE
    ):
        self.encoder, self.run, self.folder_of, self.files = encoder, run, folder_of, files
        self.block, (self.start, self.stop) = block, queries
        self.max_m, self.full, self.batch_size = max_m, full, batch_size

    def do(self, keys):
        """Do the chunks of `keys`, whose values identify their results.

        Returns the seconds of all forward passes, and the seconds of one core for the top m.
        """
        costs = {chunk: self._saved(chunk, key) for chunk, key in keys.items()}
        self.missing = missing = [chunk for chunk, cost in costs.items() if cost is None]
        with ThreadPoolExecutor(STREAMS) as pool, ThreadPoolExecutor(1) as aside:
            if missing and self.max_m:  # compiles, or loads what was compiled before
                pool.submit(ranking.top_buckets, np.zeros((1, self.max_m), "f4"), self.max_m)
            loads = (aside.submit(self._load, chunk) for chunk in missing)
            ahead, writing = next(loads, None), []
            for chunk in missing:
                network, ahead = ahead.result(), next(loads, None)
                arrays, costs[chunk] = self._do_chunk(chunk, network, pool)
                writing.append(aside.submit(self._save, chunk, keys[chunk], arrays, costs[chunk]))
                for future in writing:
                    if future.done():
                        future.result()  # raises what went wrong there, such as a full disk
            for future in writing:
                future.result()
        return {name: sum(cost[name] for cost in costs.values()) for name in ("forward", "top_m")}

    def _load(self, chunk):
        return self.encoder.load(self.folder_of(chunk))

    def _saved(self, chunk, key):
        """Lay out a chunk's saved top buckets for the rankers; returns the costs, or None."""
        path = self.run.paths.topm(self.block, chunk)
        if self.full or not path.exists():
            return None
        saved = read_arrays(path, "infer.py")
        if str(saved["key"]) != key:
            return None
        for name in ("buckets", "values"):
            array = saved[name]
            new_map(self.files.queries(name, chunk), array.dtype, array.shape)[:] = array
        return json.loads(str(saved["costs"]))

    def _do_chunk(self, chunk, network, pool):
        """Returns the chunk's buckets and values, both maps, and the costs."""
        num_queries = self.stop - self.start
        shape = num_queries, self.max_m
        buckets = new_map(self.files.queries("buckets", chunk), np.int32, shape)
        values = new_map(self.files.queries("values", chunk), np.float32, shape)
        kept = None
        if self.full:
            shape = num_queries, self.run.config.num_buckets
            kept = new_map(self.files.queries("probabilities", chunk), np.float32, shape)

        def work(batch):
            number, inputs = batch
            probabilities, *top, costs = timed_pass(network, inputs, self.max_m)
            first = number * self.batch_size
            rows = slice(first, first + len(probabilities))
            if self.max_m:
                buckets[rows], values[rows] = top
            if kept is not None:
                kept[rows] = probabilities
            return len(probabilities), costs

        done, spent = 0, []
        batches = query_batches(self.run, chunk, self.start, self.stop, self.batch_size)
        with progress(num_queries, f"chunk {chunk}: forward", "query") as bar:
            for count, costs in in_streams(work, enumerate(batches), pool):
                done += count
                spent.append(costs)
                bar.update(count)
        if done != num_queries:
            raise UserError(
                f"{self.run.paths.location}: the test records of chunk {chunk} hold other rows "
                "than the summary says: delete them and run preprocess.py again"
            )
        return (buckets, values), add_costs(spent)

    def _save(self, chunk, key, arrays, costs):
        """Save a chunk's top buckets for the next evaluation."""
        path = self.run.paths.topm(self.block, chunk)
        arrays = dict(zip(("buckets", "values"), arrays, strict=True))
        facts = {"key": np.array(key), "costs": np.array(json.dumps(costs))}
        write_arrays(path, facts | arrays)
