"""The forward passes of a block of queries (§3.3), chunk by chunk, down to top buckets.

The weights of one chunk are in use at a time, and those are its mapped files: nothing is copied.
A thread beside the forward pass takes the top buckets of the last batch and writes the files of
the last chunk; another maps and verifies the weights of the next chunk.
"""

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from solar_tf import retrieval
from solar_tf.batches import damage_explained, read_batches
from solar_tf.console import progress
from solar_tf.errors import UserError
from solar_tf.model import probability_function
from solar_tf.rundir import read_arrays, write_arrays
from solar_tf.storage import new_map
from solar_tf.weights import load_weights, weight_shapes

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
        self.run.paths.fetch(self.folder_of(chunk))
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
    with damage_explained(*sources["paths"], *sources.get("dense_paths", ())):
        skip = start // batch_size
        batches = read_batches(batch_size=batch_size, skip=skip, targets=targets, **sources)
        yield from batches.take(math.ceil((stop - start) / batch_size))


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
        missing = [chunk for chunk, cost in costs.items() if cost is None]
        with ThreadPoolExecutor(1) as aside, ThreadPoolExecutor(1) as loader:
            if missing and self.max_m:  # compiles, or loads what was compiled before
                aside.submit(retrieval.top_buckets, np.zeros((1, self.max_m), "f4"), self.max_m)
            loads = (loader.submit(self.forward.load, chunk) for chunk in missing)
            ahead, pending = next(loads, None), []
            for chunk in missing:
                scores, ahead = ahead.result(), next(loads, None)
                pending.append(self._do_chunk(chunk, keys[chunk], scores, aside))
                for future in pending:
                    if future.done():
                        future.result()  # raises what went wrong beside, a full disk say
            done = dict(zip(missing, (future.result() for future in pending), strict=True))
        costs |= done
        return {name: sum(cost[name] for cost in costs.values()) for name in ("forward", "top_m")}

    def _saved(self, chunk, key):
        """The costs of a chunk whose top buckets are there, laid out for the rankers, or None."""
        path = self.run.paths.topm(self.block, chunk)
        if not self.full:
            self.run.paths.fetch(path, fresh=True)
        if self.full or not path.exists():
            return None
        saved = read_arrays(path, "infer.py")
        if str(saved["key"]) != key:
            return None
        for name in ("buckets", "values"):
            array = saved[name]
            new_map(self.files.queries(name, chunk), array.dtype, array.shape)[:] = array
        return json.loads(str(saved["costs"]))

    def _do_chunk(self, chunk, key, scores, aside):
        """Forward passes here, the rest by the thread `aside`; returns a future of the costs."""
        num_queries = self.stop - self.start
        shape = num_queries, self.max_m
        buckets = new_map(self.files.queries("buckets", chunk), np.int32, shape)
        values = new_map(self.files.queries("values", chunk), np.float32, shape)
        kept = None
        if self.full:
            shape = num_queries, self.run.config.num_buckets
            kept = new_map(self.files.queries("probabilities", chunk), np.float32, shape)

        def keep(rows, probabilities):
            """Top m of a batch, beside the forward pass of the next; returns the core's seconds."""
            began = time.thread_time()
            if self.max_m:
                buckets[rows], values[rows] = retrieval.top_buckets(probabilities, self.max_m)
            spent = time.thread_time() - began
            if kept is not None:
                kept[rows] = probabilities
            return spent

        def finish(forward, pending):
            costs = {"forward": forward, "top_m": sum(future.result() for future in pending)}
            arrays = {"buckets": buckets, "values": values, "costs": np.array(json.dumps(costs))}
            path = self.run.paths.topm(self.block, chunk)
            write_arrays(path, {"key": np.array(key), **arrays})
            self.run.paths.publish(path, replace=True)
            return costs

        forward, pending, done = 0.0, [], 0
        with progress(num_queries, f"chunk {chunk}: forward", "query") as bar:
            for inputs in query_batches(self.run, chunk, self.start, self.stop, self.batch_size):
                began = time.perf_counter()
                probabilities = scores(inputs)
                forward += time.perf_counter() - began
                rows = slice(done, done + len(probabilities))
                if len(pending) > 1:
                    pending[-2].result()  # at most two batches wait in memory
                pending.append(aside.submit(keep, rows, probabilities))
                done = rows.stop
                bar.update(len(probabilities))
        if done != num_queries:
            raise UserError(
                f"{self.run.paths.location}: the test records of chunk {chunk} hold other rows "
                "than the summary says: delete them and run preprocess.py again"
            )
        return aside.submit(finish, forward, pending)
