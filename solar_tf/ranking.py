"""Ranking of many queries over processes (§3.3): the part of stage 3 without TensorFlow.

Everything large is a file that the workers map: the stacked inverted indexes, the top
buckets and, for SOLAR-full, all probabilities of each chunk. A task is a few numbers.
"""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar_tf import retrieval
from solar_tf.console import progress
from solar_tf.index import load_index
from solar_tf.storage import new_map
from solar_tf.workers import run_tasks

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

    def stacked(self, name):
        """offsets [K, B+1] and labels [K, N] of the indexes, label_buckets [K, N], allowed [N]."""
        return self.folder / f"{name}.npy"

    def queries(self, name, chunk):
        """buckets and values [Q, m] of a chunk's top m, probabilities [Q, B]."""
        return self.folder / f"{name}_{chunk:02d}.npy"

    def result(self, setting, name):
        """ids [Q, k], scores [Q, k] and candidates [Q] of a setting."""
        return self.folder / f"{setting.key}_{name}.npy"


def stack_indexes(run, delta, files, full):
    """Load the run's pickled indexes once and lay them out for the workers to share."""
    num_labels, config = delta.num_labels, run.config
    files.folder.mkdir(parents=True, exist_ok=True)
    shapes = {"offsets": (config.num_buckets + 1, np.uint32), "labels": (num_labels, np.int32)}
    if full:
        narrow = np.uint16 if config.num_buckets <= 2**16 else np.int32
        shapes["label_buckets"] = num_labels, narrow
    stacks = {
        name: new_map(files.stacked(name), dtype, (len(files.chunks), length))
        for name, (length, dtype) in shapes.items()
    }
    for i, chunk in enumerate(files.chunks):
        index = load_index(run.paths.index(chunk), config.num_buckets, delta.num_base)
        index = delta.extend(index, chunk)
        stacks["offsets"][i], stacks["labels"][i] = index.offsets, index.labels
        if full:
            stacks["label_buckets"][i] = index.label_buckets()
    for stack in stacks.values():
        stack.flush()
    allowed = delta.allowed()
    if allowed is not None:
        np.save(files.stacked("allowed"), allowed)


def rank_block(files, settings, num_queries, k, floor, workers, prepare=lambda: None):
    """Rank the queries of a block in every setting.

    `prepare()` makes the files of the queries; the processes start up meanwhile. Yields per
    setting: the setting, ids [Q, k], scores [Q, k], candidates [Q] and the seconds of one core
    that it took.
    """

    with contextlib.ExitStack() as stack:
        bar = None

        def tasks():
            nonlocal bar
            yield from [None] * workers
            prepare()
            # Results go through files, too: a worker that is killed cannot break off a message.
            for setting in settings:
                for name, dtype in RESULTS.items():
                    shape = (num_queries,) if name == "candidates" else (num_queries, k)
                    new_map(files.result(setting, name), dtype, shape)
            bar = stack.enter_context(progress(len(settings) * num_queries, "ranking", "query"))
            for setting in settings:
                step = QUERIES_PER_TASK[setting.m == FULL]
                for start in range(0, num_queries, step):
                    yield setting, start, min(start + step, num_queries)

        spent = 0.0
        for task, cost in run_tasks(_rank_task, tasks(), workers, _start_worker, (files, k, floor)):
            if task is None:
                continue
            setting, start, stop = task
            spent += cost
            bar.update(stop - start)
            if stop == num_queries:
                yield setting, *(np.load(files.result(setting, name)) for name in RESULTS), spent
                spent = 0.0


_worker = None  # the _Worker of this process


class _Worker:
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

    def limits(self):
        """Without the labels that were removed from the catalogue, if any were."""
        allowed = self.files.stacked("allowed")
        return retrieval.Limits(self.map(allowed)) if allowed.exists() else None

    def rank(self, setting, rows):
        if setting.m == FULL:
            weights = self.queries("probabilities", rows)
            weights = retrieval.score_weights(weights, setting.score, self.floor)
            label_buckets = self.map(self.files.stacked("label_buckets"))
            return retrieval.rank_full(weights, label_buckets, self.k, self.limits())
        weights = self.queries("values", rows, setting.m)
        return retrieval.rank(
            self.queries("buckets", rows, setting.m),
            retrieval.score_weights(weights, setting.score, self.floor),
            self.map(self.files.stacked("offsets")),
            self.map(self.files.stacked("labels")),
            self.k,
            self.limits(),
        )


def _start_worker(files, k, floor):
    global _worker
    _worker = _Worker(files, k, floor)


def _rank_task(task):
    if task is None:
        _load_kernels()
        return None, 0.0
    setting, start, stop = task
    rows = slice(start, stop)
    started = time.perf_counter()
    results = _worker.rank(setting, rows)
    spent = time.perf_counter() - started
    for name, result in zip(RESULTS, results, strict=True):
        _worker.map(_worker.files.result(setting, name), "r+")[rows] = result
    return task, spent


def _load_kernels():
    """The first call of a kernel loads its machine code: no query should be charged for it."""
    weights = np.ones((1, 1, 1), np.float32)
    offsets, labels = np.array([[0, 1]], np.uint32), np.zeros((1, 1), np.int32)
    limits = _worker.limits() and retrieval.Limits(np.ones(1, bool))
    retrieval.rank(np.zeros((1, 1, 1), np.int32), weights, offsets, labels, 1, limits)
    label_buckets = _worker.files.stacked("label_buckets")
    if label_buckets.exists():
        lone = np.zeros((1, 1), _worker.map(label_buckets).dtype)
        retrieval.rank_full(weights, lone, 1, limits)
