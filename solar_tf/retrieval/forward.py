"""The forward passes of a block of queries (§3.3), chunk by chunk, down to top buckets.

The weights of one chunk are in use at a time, and those are its mapped files: nothing is copied.
Two batches are in work at a time: while one is brought down to its top buckets, by one core, the
other's matrix products have the rest. A thread beside them maps and verifies the weights of the
next chunk and writes the files of the last one.
"""

import collections
import itertools
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.plan import STREAMS
from solar_tf.run.files import new_map, read_arrays, write_arrays
from solar_tf.run.weights import load_weights, weight_shapes
from solar_tf.runtime.console import progress
from solar_tf.training.batches import read_batches
from solar_tf.training.model import probability_function

BATCH_SIZE = 1000  # queries of a forward pass


class Forward:
    """The scores of any chunk's buckets, by one traced function."""

    def __init__(self, run, folder_of=None):
        """`folder_of` says where a chunk's weights are, if not where they were trained."""
        self.run, self.folder_of = run, folder_of or run.paths.chunk
        self.shapes = weight_shapes(run.config, run.input_dim)
        dense = run.dataset["kind"] == "dense"
        self.function = probability_function(run.config, run.input_dim, dense)

    def load(self, chunk):
        """A trained chunk's scores as a function of a batch's inputs: [batch, B] float32."""
        weights = load_weights(self.folder_of(chunk), self.shapes, mapped=True)
        weights = {name: _borrow(array) for name, array in weights.items()}
        return lambda inputs: self.function(inputs, weights).numpy()


def _borrow(array):
    """An array as a tensor that shares its memory; TensorFlow's have a certain alignment."""
    if array.ctypes.data % 64:  # restored from a smaller precision, and not mapped
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(np.asarray(array).__dlpack__())


def query_batches(run, chunk, start, stop, batch_size=BATCH_SIZE, targets=False):
    """The inputs of the test queries start to stop, in order; start is a multiple of the size."""
    sources = run.sources("test", chunk)
    skip = start // batch_size
    batches = read_batches(batch_size=batch_size, skip=skip, targets=targets, **sources)
    return itertools.islice(batches, math.ceil((stop - start) / batch_size))


def in_streams(work, batches, pool):
    """Yield `work(batch)` of all batches, in order, by the STREAMS threads of `pool`."""
    pending = collections.deque()
    for batch in batches:
        pending.append(pool.submit(work, batch))
        if len(pending) > STREAMS:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def timed_pass(scores, inputs, m):
    """A batch's probabilities, top m buckets and their values, and the seconds of both steps.

    Those of the forward pass are a stream's, and those of the top m one core's.
    """
    began, top = time.perf_counter(), (None, None)
    probabilities = scores(inputs)
    forward, began = time.perf_counter() - began, time.thread_time()
    if m:
        top = ranking.top_buckets(probabilities, m)
    return probabilities, *top, {"forward": forward, "top_m": time.thread_time() - began}


def add_costs(spent):
    """The costs of all batches: streams pass side by side."""
    total = {name: sum(costs[name] for costs in spent) for name in ("forward", "top_m")}
    return total | {"forward": total["forward"] / max(1, min(STREAMS, len(spent)))}


class BlockForward:
    """All chunks' forward passes of the queries start to stop; what is there is not done again.

    Leaves the top `max_m` buckets of each chunk in its file `paths.topm` and, for the rankers,
    in `files`; for SOLAR-full also all probabilities.
    """

    def __init__(self, forward, files, block, queries, max_m, full, batch_size=BATCH_SIZE):
        self.forward, self.run, self.files = forward, forward.run, files
        self.block, (self.start, self.stop) = block, queries
        self.max_m, self.full, self.batch_size = max_m, full, batch_size

    def do(self, keys):
        """Do the chunks of `keys`, which says what identifies the results of each.

        Returns the seconds of all forward passes, and those of one core for the top m.
        """
        costs = {chunk: self._saved(chunk, key) for chunk, key in keys.items()}
        self.missing = missing = [chunk for chunk, cost in costs.items() if cost is None]
        with ThreadPoolExecutor(STREAMS) as pool, ThreadPoolExecutor(1) as aside:
            if missing and self.max_m:  # compiles, or loads what was compiled before
                pool.submit(ranking.top_buckets, np.zeros((1, self.max_m), "f4"), self.max_m)
            loads = (aside.submit(self.forward.load, chunk) for chunk in missing)
            ahead, writing = next(loads, None), []
            for chunk in missing:
                scores, ahead = ahead.result(), next(loads, None)
                arrays, costs[chunk] = self._do_chunk(chunk, scores, pool)
                writing.append(aside.submit(self._save, chunk, keys[chunk], arrays, costs[chunk]))
                for future in writing:
                    if future.done():
                        future.result()  # raises what went wrong beside, a full disk say
            for future in writing:
                future.result()
        return {name: sum(cost[name] for cost in costs.values()) for name in ("forward", "top_m")}

    def _saved(self, chunk, key):
        """The costs of a chunk whose top buckets are there, laid out for the rankers, or None."""
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

    def _do_chunk(self, chunk, scores, pool):
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
            probabilities, *top, costs = timed_pass(scores, inputs, self.max_m)
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
        """Leave a chunk's top buckets for another time."""
        path = self.run.paths.topm(self.block, chunk)
        arrays = dict(zip(("buckets", "values"), arrays, strict=True))
        facts = {"key": np.array(key), "costs": np.array(json.dumps(costs))}
        write_arrays(path, facts | arrays)
