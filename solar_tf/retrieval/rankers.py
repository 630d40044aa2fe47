"""Ranking of many queries by processes (§3.3): the part of stage 3 without TensorFlow.

Everything large is a file that the processes map: the stacked inverted indexes, the top buckets
and, for SOLAR-full, all probabilities of each chunk. A task is a few numbers. The labels may be
split into shards, each ranked by itself, as if it were on a machine of its own.
"""

import contextlib
import itertools
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar_tf.retrieval.label_table import LabelTable, read_index, shard_index
from solar_tf.retrieval.ranking import LabelFilter, merge_shards, score_weights
from solar_tf.run.files import new_map
from solar_tf.runtime.console import progress
from solar_tf.runtime.memory import keep_freed
from solar_tf.runtime.workers import run_tasks

RESULTS = {"ids": np.int32, "scores": np.float32, "candidates": np.int64}


def queries_per_task(m):
    """How many queries a task ranks."""
    return 16 if m is None else 256


@dataclass(frozen=True)
class RankFiles:
    """The files of one block of queries; small and picklable."""

    folder: Path
    chunks: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]  # of the labels of each shard
    block: int = 0

    def stacked(self, name, shard):
        """A shard's array of a LabelTable: offsets, labels, label_buckets or allowed."""
        return self.folder / f"{name}_of_shard_{shard:03d}.npy"

    def queries(self, name, chunk):
        """buckets and values [Q, m] of a chunk's top m, probabilities [Q, B]."""
        return self.folder / f"{name}_{self.block:04d}_{chunk:02d}.npy"

    def result(self, options, shard, name):
        """ids [Q, k], scores [Q, k] and candidates [Q] of a setting, in one shard."""
        return self.folder / f"{options.key}_{shard:03d}_{name}.npy"

    def new_array(self, shard):
        """What makes the arrays of a LabelTable as the files of a shard."""
        return lambda name, *kind: new_map(self.stacked(name, shard), *kind)


def stack_indexes(run, delta, files, full, shards):
    """Lay out the LabelTables of the shards for the processes."""
    files.folder.mkdir(parents=True, exist_ok=True)
    allowed = delta.allowed()
    for shard in shards:
        low, high = files.ranges[shard]
        indexes = (shard_index(read_index(run, delta, chunk), low, high) for chunk in files.chunks)
        table = LabelTable.stack(indexes, len(files.chunks), files.new_array(shard))
        for array in (table.offsets, table.labels, *([table.label_buckets] if full else [])):
            array.flush()
        if allowed is not None:
            np.save(files.stacked("allowed", shard), allowed[low:high])


def rank_block(files, settings, num_queries, workers, prepare=lambda: None):
    """Rank the queries of a block in every setting, which are SearchOptions.

    `prepare()` makes the files of the queries; the processes start up meanwhile. Yields per
    setting: the setting, ids [Q, k], scores [Q, k], candidates [Q] and the seconds of one core
    that it took.
    """
    shards = range(len(files.ranges))
    with contextlib.ExitStack() as stack:
        bar = None

        def tasks():
            nonlocal bar
            yield from [None] * workers
            prepare()
            # Results go through files, too: a worker that is killed cannot break off a message.
            for setting, shard in itertools.product(settings, shards):
                for name, dtype in RESULTS.items():
                    shape = (num_queries,) if name == "candidates" else (num_queries, setting.k)
                    new_map(files.result(setting, shard, name), dtype, shape)
            total = len(settings) * len(shards) * num_queries
            bar = stack.enter_context(progress(total, "ranking", "query"))
            for setting, shard in itertools.product(settings, shards):
                step = queries_per_task(setting.m)
                for start in range(0, num_queries, step):
                    yield setting, shard, start, min(start + step, num_queries)

        spent = 0.0
        for task, cost in run_tasks(_rank_task, tasks(), workers, _start_worker, (files,)):
            if task is None:
                continue
            setting, shard, start, stop = task
            spent += cost
            bar.update(stop - start)
            if stop == num_queries and shard == shards[-1]:
                parts = [
                    [np.load(files.result(setting, part, name)) for name in RESULTS]
                    for part in shards
                ]
                yield setting, *merge_shards(parts, files.ranges), spent
                spent = 0.0


class Ranker:
    """Ranks the queries of a block, from its files."""

    def __init__(self, files):
        self.files, self.maps = files, {}

    def map(self, path, mode="c"):
        """An array in a file, or None if there is no such file."""
        # Copy-on-write maps count as writable: numba compiles read-only arrays anew.
        if path not in self.maps:
            if not path.exists():
                return None
            self.maps[path] = np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False))
        return self.maps[path]

    def table(self, shard):
        """The LabelTable of a shard, with the arrays that are here."""
        names = ("offsets", "labels", "allowed", "label_buckets")
        return LabelTable(*(self.map(self.files.stacked(name, shard)) for name in names))

    def files_of(self, options, shard):
        """What `rank` maps; only catalogues with labels removed have `allowed`."""
        stacked = ("label_buckets",) if options.m is None else ("offsets", "labels")
        queries = ("probabilities",) if options.m is None else ("buckets", "values")
        yield from (self.files.stacked(name, shard) for name in (*stacked, "allowed"))
        for name in queries:
            yield from (self.files.queries(name, chunk) for chunk in self.files.chunks)

    def rank(self, options, shard, rows):
        """Ids [Q, k], scores [Q, k] and candidates [Q]; labels are numbered from the shard's."""

        def stack(name):
            """[rows, K, m] from the chunks' files."""
            paths = (self.files.queries(name, chunk) for chunk in self.files.chunks)
            return np.stack([self.map(path)[rows, : options.m] for path in paths], axis=1)

        buckets = None if options.m is None else stack("buckets")
        values = stack("probabilities" if buckets is None else "values")
        weights, table = score_weights(values, options.score, options.floor), self.table(shard)
        return table.rank(buckets, weights, options.k, table.filter(options))


# In the processes.

_worker = None  # the Ranker of this process


def get_ready():
    """Load what a process needs to rank, before it knows the files: this module and its kernels."""
    _load_kernels()


def _load_kernels(filtered=False, full_type=None):
    """Load the machine code, that of full ranking for a type of label_buckets [K, N]."""
    label_buckets = np.zeros((1, 1), full_type or np.uint16)
    offsets, labels = np.array([[0, 1]], np.uint32), np.zeros((1, 1), np.int32)
    table = LabelTable(offsets, labels, label_buckets=label_buckets)
    label_filter = LabelFilter(np.ones(1, bool)) if filtered else None
    for buckets in (np.zeros((1, 1, 1), np.int32), *([None] if full_type else [])):
        table.rank(buckets, np.ones((1, 1, 1), np.float32), 1, label_filter)


def _start_worker(files):
    global _worker
    keep_freed()
    _worker = Ranker(files)


def _rank_task(task):
    if task is None:  # no query is charged for loading
        paths = (_worker.files.stacked(name, 0) for name in ("allowed", "label_buckets"))
        allowed, label_buckets = map(_worker.map, paths)
        _load_kernels(allowed is not None, getattr(label_buckets, "dtype", None))
        return None, 0.0
    setting, shard, start, stop = task
    rows = slice(start, stop)
    started = time.perf_counter()
    results = _worker.rank(setting, shard, rows)
    spent = time.perf_counter() - started
    for name, result in zip(RESULTS, results, strict=True):
        _worker.map(_worker.files.result(setting, shard, name), "r+")[rows] = result
    return task, spent
