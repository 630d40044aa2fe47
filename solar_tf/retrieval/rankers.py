"""Ranking of many queries over processes (§3.3): the part of stage 3 without TensorFlow.

Everything large is a file that the workers map: the stacked inverted indexes, the top
buckets and, for SOLAR-full, all probabilities of each chunk. A task is a few numbers.
The labels may be split into shards, as if each were on a machine of its own.
"""

import contextlib
import itertools
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar_tf.retrieval import label_shards, ranking
from solar_tf.run.files import new_map
from solar_tf.run.index import open_index
from solar_tf.runtime.console import progress
from solar_tf.runtime.memory import keep_freed
from solar_tf.runtime.workers import run_tasks

FULL = 0  # in the place of m: all buckets, no shortlist
QUERIES_PER_TASK = {True: 16, False: 256}  # by whether the ranking is full
RESULTS = {"ids": np.int32, "scores": np.float32, "candidates": np.int64}


@dataclass(frozen=True)
class Setting:
    """A row of the results: how queries are sparsified and labels scored."""

    m: int
    score: str

    @property
    def name(self):
        return "full" if self.m == FULL else f"m={self.m}"

    @property
    def key(self):
        return f"{self.name}_{self.score}"


@dataclass(frozen=True)
class RankFiles:
    """The files of one block of queries; small and picklable."""

    folder: Path
    chunks: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]  # of the labels of each shard
    block: int = 0

    def stacked(self, name, shard):
        """Of a shard: offsets [K, B+1], labels and label_buckets [K, N], allowed [N]."""
        return self.folder / f"{name}_of_shard_{shard:03d}.npy"

    def queries(self, name, chunk):
        """buckets and values [Q, m] of a chunk's top m, probabilities [Q, B]."""
        return self.folder / f"{name}_{self.block:04d}_{chunk:02d}.npy"

    def result(self, setting, shard, name):
        """ids [Q, k], scores [Q, k] and candidates [Q] of a setting, in one shard."""
        return self.folder / f"{setting.key}_{shard:03d}_{name}.npy"


def stack_indexes(run, delta, files, full, shards):
    """Load the run's pickled indexes once and lay out those of the shards for the workers."""
    config = run.config
    files.folder.mkdir(parents=True, exist_ok=True)
    stacks = {shard: new_stacks(config, files, full, shard) for shard in shards}
    for i, chunk in enumerate(files.chunks):
        whole = open_index(run, chunk)
        whole = delta.extend(whole, chunk)
        for shard, stack in stacks.items():
            index = whole
            if len(files.ranges) > 1:
                index = label_shards.shard_index(whole, *files.ranges[shard])
            stack["offsets"][i], stack["labels"][i] = index.offsets, index.labels
            if full:
                stack["label_buckets"][i] = index.label_buckets()
    for stack in stacks.values():
        for array in stack.values():
            array.flush()
    allowed = delta.allowed()
    if allowed is not None:
        for shard in stacks:
            np.save(files.stacked("allowed", shard), allowed[slice(*files.ranges[shard])])


def new_stacks(config, files, full, shard):
    """The maps of a shard's stacked indexes, by name, to be filled chunk by chunk."""
    low, high = files.ranges[shard]
    shapes = {"offsets": (config.num_buckets + 1, np.uint32), "labels": (high - low, np.int32)}
    if full:
        narrow = np.uint16 if config.num_buckets <= 2**16 else np.int32
        shapes["label_buckets"] = high - low, narrow
    return {
        name: new_map(files.stacked(name, shard), dtype, (len(files.chunks), length))
        for name, (length, dtype) in shapes.items()
    }


def rank_block(files, settings, num_queries, k, floor, workers, prepare=lambda: None):
    """Rank the queries of a block in every setting.

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
                    shape = (num_queries,) if name == "candidates" else (num_queries, k)
                    new_map(files.result(setting, shard, name), dtype, shape)
            total = len(settings) * len(shards) * num_queries
            bar = stack.enter_context(progress(total, "ranking", "query"))
            for setting, shard in itertools.product(settings, shards):
                step = QUERIES_PER_TASK[setting.m == FULL]
                for start in range(0, num_queries, step):
                    yield setting, shard, start, min(start + step, num_queries)

        spent = 0.0
        for task, cost in run_tasks(_rank_task, tasks(), workers, _start_worker, (files, k, floor)):
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


def merge_shards(parts, ranges):
    """Ids, scores and candidates of each shard -> those of all labels."""
    if len(parts) == 1:
        return parts[0]
    lows = [low for low, _ in ranges]
    merged = label_shards.merge([(ids, scores) for ids, scores, _ in parts], lows)
    return *merged, np.sum([candidates for *_, candidates in parts], axis=0)


def get_ready():
    """What a process needs to rank, before it knows the files: this module and its kernels."""
    ranking.warm_up()


_worker = None  # the Ranker of this process


class Ranker:
    """Ranks the queries of a block, from its files."""

    def __init__(self, files, k, floor):
        self.files, self.k, self.floor = files, k, floor
        self.maps = {}

    def map(self, path, mode="c"):
        # Copy-on-write maps count as writable: numba compiles read-only arrays anew.
        if path not in self.maps:
            self.maps[path] = np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False))
        return self.maps[path]

    def queries(self, name, rows, m=None):
        """[rows, K, m] from the chunks' files."""
        return np.stack(
            [self.map(self.files.queries(name, chunk))[rows, :m] for chunk in self.files.chunks],
            axis=1,
        )

    def files_of(self, setting, shard):
        """What `rank` maps; only catalogues with labels removed have `allowed`."""
        stacked = ("label_buckets",) if setting.m == FULL else ("offsets", "labels")
        queries = ("probabilities",) if setting.m == FULL else ("buckets", "values")
        yield from (self.files.stacked(name, shard) for name in (*stacked, "allowed"))
        for name in queries:
            yield from (self.files.queries(name, chunk) for chunk in self.files.chunks)

    def limits(self, shard):
        """Without the labels that were removed from the catalogue, if any were."""
        allowed = self.files.stacked("allowed", shard)
        return ranking.Limits(self.map(allowed)) if allowed.exists() else None

    def rank(self, setting, shard, rows):
        """Ids [Q, k], scores [Q, k] and candidates [Q]; labels are numbered from the shard's."""
        if setting.m == FULL:
            weights = self.queries("probabilities", rows)
            weights = ranking.score_weights(weights, setting.score, self.floor)
            label_buckets = self.map(self.files.stacked("label_buckets", shard))
            return ranking.rank_full(weights, label_buckets, self.k, self.limits(shard))
        weights = self.queries("values", rows, setting.m)
        return ranking.rank(
            self.queries("buckets", rows, setting.m),
            ranking.score_weights(weights, setting.score, self.floor),
            self.map(self.files.stacked("offsets", shard)),
            self.map(self.files.stacked("labels", shard)),
            self.k,
            self.limits(shard),
        )


def _start_worker(files, k, floor):
    global _worker
    keep_freed()
    _worker = Ranker(files, k, floor)


def _rank_task(task):
    if task is None:
        _load_kernels()
        return None, 0.0
    setting, shard, start, stop = task
    rows = slice(start, stop)
    started = time.perf_counter()
    results = _worker.rank(setting, shard, rows)
    spent = time.perf_counter() - started
    for name, result in zip(RESULTS, results, strict=True):
        _worker.map(_worker.files.result(setting, shard, name), "r+")[rows] = result
    return task, spent


def _load_kernels():
    """No query should be charged for it."""
    label_buckets = _worker.files.stacked("label_buckets", 0)
    full = _worker.map(label_buckets).dtype if label_buckets.exists() else None
    ranking.warm_up(_worker.limits(0), full)
