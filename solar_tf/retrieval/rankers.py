"""Ranking of many queries by processes (§3.3): the part of stage 3 without TensorFlow.

Everything large that they read is a file that they map: the stacked inverted indexes, the top
buckets and, for SOLAR-full, all probabilities of each chunk. A task is a few numbers. The labels
may be split into shards, each ranked by itself, as if it were on a machine of its own.
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

    def starts(setting):
        return range(0, num_queries, queries_per_task(setting.m))

    def tasks():
        yield from [None] * workers
        prepare()
        for setting, shard in itertools.product(settings, shards):
            for start in starts(setting):
                yield setting, shard, start, min(start + starts(setting).step, num_queries)

    results = run_tasks(_rank_task, tasks(), workers, _start_worker, (files,))
    with contextlib.ExitStack() as stack:
        bar = None
        for _ in range(workers):
            next(results)
        for setting in settings:
            parts, spent = [], 0.0
            for _ in shards:
                pieces = []
                for _ in starts(setting):
                    found, seconds = next(results)
                    if bar is None:  # `prepare` has one of its own
                        total = len(settings) * len(shards) * num_queries
                        bar = stack.enter_context(progress(total, "ranking", "query"))
                    bar.update(len(found[0]))
                    pieces.append(found)
                    spent += seconds
                parts.append([np.concatenate(arrays) for arrays in zip(*pieces, strict=True)])
            yield setting, *merge_shards(parts, files.ranges), spent


class Ranker:
    """Ranks the queries of a block, from its files."""

    def __init__(self, files):
        self.files, self.maps = files, {}

    def map(self, path):
        """An array in a file, or None if there is no such file."""
        # Copy-on-write maps count as writable: numba compiles read-only arrays anew.
        if path not in self.maps:
            if not path.exists():
                return None
            self.maps[path] = np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
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


_ranker = None  # of this process


def _start_worker(files):
    global _ranker
    keep_freed()
    _ranker = Ranker(files)


def _rank_task(task):
    """What `Ranker.rank` returns, and the seconds that it took."""
    if task is None:  # no query is charged for loading
        names = ("allowed", "label_buckets")
        allowed, of = (_ranker.map(_ranker.files.stacked(name, 0)) for name in names)
        return _load_kernels(allowed is not None, of if of is None else of.dtype)
    setting, shard, start, stop = task
    started = time.perf_counter()
    return _ranker.rank(setting, shard, slice(start, stop)), time.perf_counter() - started
