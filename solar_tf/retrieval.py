"""Retrieval (§3.3): the top m buckets of each chunk, their labels, the best of them.

`rank` scores the labels found in the top buckets, `rank_full` every label; with m = B
the two agree bit for bit. Both add up the weights of a label's buckets in chunk order,
as float32, and rank by higher score, then lower label. `RankPool` spreads their queries
over processes.
"""

import collections
import contextlib
import multiprocessing
import signal
import tempfile
from multiprocessing import connection, resource_tracker
from pathlib import Path

import numpy as np

from solar_tf import kernels
from solar_tf.errors import UserError

SCORES = ("probability", "evidence")
EVIDENCE_FLOOR = 1e-4  # not in the paper: docs/paper_notes.md

_ATTEMPTS = 3


def score_weights(probabilities, score="probability", floor=EVIDENCE_FLOOR):
    """What a hit bucket adds to its labels' scores, float32, same shape.

    `probability` is the paper's sum of probabilities (§3.3). `evidence` is
    log(max(p, floor) / floor): a bucket at or under the floor adds nothing.
    """
    probabilities = np.asarray(probabilities, np.float32)
    if score == "probability":
        return probabilities
    if score == "evidence":
        floor = np.float32(floor)
        return np.log(np.maximum(probabilities, floor) / floor)
    raise ValueError(f"score {score!r} is not one of {', '.join(SCORES)}")


def top_buckets(probabilities, m):
    """The m likeliest buckets of each row (§3.3), ties to the lower bucket.

    probabilities float32 [Q, B], none negative -> buckets int32 [Q, m], values
    float32 [Q, m], by descending value.
    """
    probabilities = np.ascontiguousarray(probabilities, np.float32)
    num_queries, num_buckets = probabilities.shape
    if not 1 <= m <= num_buckets:
        raise ValueError(f"m={m} is not within 1 and the {num_buckets} buckets")
    keys = np.empty((num_queries, m), np.uint64)
    kernels.top_keys(probabilities.view(np.uint32), keys)
    buckets, values = _decode(keys)
    # As unsigned integers, the bits of NaN and of negative numbers exceed all others.
    if np.isnan(values[:, 0]).any() or np.signbit(values[:, 0]).any():
        raise ValueError("probabilities must be neither negative nor NaN")
    return buckets, values


def rank(buckets, weights, offsets, labels, k):
    """The k best labels among those in the hit buckets (§3.3).

    buckets [Q, K, m], distinct within a chunk, in any order (fastest by descending
    weight); weights float32 [Q, K, m], none negative; offsets [K, B+1] and labels int32
    [K, N], the stacked inverted indexes: bucket b of chunk c holds the ascending
    labels[c, offsets[c, b]:offsets[c, b+1]].

    Returns ids int32 [Q, k] padded with -1, scores float32 [Q, k] padded with 0, and
    candidates int64 [Q], the number of distinct labels in the hit buckets. A label
    whose hits all weigh 0 is a candidate with score 0.
    """
    buckets, weights = np.ascontiguousarray(buckets), _checked(weights)
    num_chunks, num_offsets = offsets.shape
    if buckets.shape != weights.shape or not buckets.shape[1] == num_chunks == len(labels):
        raise ValueError(
            f"shapes do not fit: buckets {buckets.shape}, weights {weights.shape}, "
            f"offsets {offsets.shape}, labels {labels.shape}"
        )
    _check_range(buckets, num_offsets - 1)
    keys = np.zeros((len(buckets), k), np.uint64)
    candidates = np.zeros(len(buckets), np.int64)
    kernels.rank_keys(
        buckets, weights, offsets, labels, kernels.TILE_BITS, kernels.SPAN, keys, candidates
    )
    return *_decode(keys), candidates


def rank_full(weights, label_buckets, k):
    """SOLAR-full (§3.3): the k best of all labels, without a shortlist.

    weights float32 [Q, K, B], none negative; label_buckets [K, N], each label's bucket in
    each chunk. Returns ids int32 [Q, k] padded with -1, scores float32 [Q, k] padded with 0.
    """
    weights = _checked(weights)
    if weights.shape[1] != len(label_buckets):
        raise ValueError(
            f"shapes do not fit: weights {weights.shape}, label_buckets {label_buckets.shape}"
        )
    _check_range(label_buckets, weights.shape[2])
    keys = np.zeros((len(weights), k), np.uint64)
    kernels.full_keys(weights, label_buckets, kernels.FULL_BLOCK, keys)
    return _decode(keys)


def _checked(weights):
    """Contiguous float32 weights whose sums are ordered like their bits and cannot overflow."""
    weights = np.ascontiguousarray(weights, np.float32)
    limit = np.float32(np.finfo(np.float32).max / (weights.shape[1] + 1))
    # As unsigned integers, the bits of NaN and of negative numbers exceed all others.
    if weights.view(np.uint32).max(initial=0) > limit.view(np.uint32):
        raise ValueError(f"weights must be within 0 and {limit:.3g}, and not NaN")
    return weights


def _check_range(buckets, num_buckets):
    """The kernels check no bounds: a bucket out of range would read foreign memory."""
    # As unsigned integers, negative ones exceed all others.
    if buckets.view(f"u{buckets.itemsize}").max(initial=0) >= num_buckets:
        raise ValueError(f"buckets are not all within 0 and {num_buckets - 1}")


def _decode(keys):
    """Keys [Q, k] -> ids int32 [Q, k], scores float32 [Q, k]; see solar_tf.kernels."""
    scores = (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return (~keys.astype(np.uint32)).view(np.int32), scores


class RankPool:
    """`rank` or `rank_full` over blocks of queries, in spawned processes.

        with RankPool(rank, (offsets, labels), workers=8, folder=run.scratch) as pool:
            ids, scores, candidates = pool.map(buckets, weights, k=100)

    The index is written once to a temporary folder inside `folder` and memory-mapped by
    the workers, which share one copy; blocks of queries go the same way. With one worker
    all is done in this process, without a copy. A worker that dies is replaced and its
    block done again, as are blocks without an answer for `timeout` seconds; a block that
    fails three times raises UserError.
    """

    def __init__(self, function, index, *, workers=1, folder=None, timeout=600):
        self._function, self._index = function, index
        self._num_workers, self._timeout = workers, timeout
        self._workers = []
        self._folder = None
        if workers > 1:
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix="rank_pool_", dir=folder)
            self._index = self._save("index", index)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        while self._workers:
            self._workers.pop().kill()
        if self._folder is not None:
            self._folder.cleanup()

    def map(self, *queries, k, block=64, progress=None):
        """function(*queries, *index, k), `block` queries at a time, results in order.

        Calls progress(done, total), in queries, after each block.
        """
        total = len(queries[0])
        starts = range(0, max(total, 1), block)
        parts = [None] * len(starts)
        done = 0
        run = self._run_here if self._num_workers == 1 else self._run_in_workers
        # Closed by hand so that an exception in `progress` stops the workers, too.
        with contextlib.closing(run(queries, starts, k)) as results:
            for i, part in results:
                parts[i] = part
                done += len(part[0])
                if progress is not None:
                    progress(done, total)
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def _run_here(self, queries, starts, k):
        for i, start in enumerate(starts):
            block = [array[start : start + starts.step] for array in queries]
            yield i, self._function(*block, *self._index, k)

    def _run_in_workers(self, queries, starts, k):
        waiting = collections.deque(range(len(starts)))
        failures = collections.Counter()
        busy = {}  # worker -> (number of its block, paths of the block's arrays)
        try:
            while waiting or busy:
                while waiting and len(busy) < self._num_workers:
                    i = waiting.popleft()
                    block = [array[starts[i] : starts[i] + starts.step] for array in queries]
                    paths = self._save(i, block)
                    worker = self._idle_worker(busy)
                    busy[worker] = i, paths
                    worker.send(paths, k)
                answering = connection.wait(busy, self._timeout) or list(busy)
                for worker in answering:
                    i, paths = busy.pop(worker)
                    result = worker.receive()
                    for path in paths:
                        path.unlink()
                    if result is not None:
                        yield i, result
                        continue
                    self._workers.remove(worker)
                    worker.kill()
                    waiting.append(i)
                    failures[i] += 1
                    if failures[i] == _ATTEMPTS:
                        last = min(starts[i] + starts.step, len(queries[0])) - 1
                        raise UserError(
                            f"the process ranking queries {starts[i]} to {last} died "
                            f"{_ATTEMPTS} times: out of memory? Try fewer than "
                            f"{self._num_workers} workers"
                        )
        finally:
            for worker in busy:  # their answers would be taken for the next call's
                self._workers.remove(worker)
                worker.kill()

    def _idle_worker(self, busy):
        for worker in self._workers:
            if worker not in busy:
                return worker
        self._workers.append(_Worker(self._function, self._index))
        return self._workers[-1]

    def _save(self, name, arrays):
        paths = [Path(self._folder.name, f"{name}_{i}.npy") for i in range(len(arrays))]
        for path, array in zip(paths, arrays, strict=True):
            np.save(path, array)
        return paths


class _Worker:
    """A process that answers one block at a time through a pipe of its own.

    The pipe has no other holder, so the death of the process reads as its end.
    """

    def __init__(self, function, index):
        context = multiprocessing.get_context("spawn")  # fork is unsafe beside TensorFlow
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, function, index), name="rank worker", daemon=True
        )
        # Workers inherit the blocked signal: Ctrl-C is this process' business alone.
        resource_tracker.ensure_running()  # its start would unblock the signal again
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def fileno(self):
        return self._pipe.fileno()

    def send(self, paths, k):
        with contextlib.suppress(OSError):  # it died while idle: receive() will tell
            self._pipe.send((paths, k))

    def receive(self):
        """The answer, or None when there is none: the process is dead or stuck."""
        try:
            answer = self._pipe.recv() if self._pipe.poll() else None
        except (EOFError, OSError):
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self):
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


def _serve(pipe, function, index):
    index = _load(index)
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while True:
            paths, k = pipe.recv()
            try:
                answer = function(*_load(paths), *index, k)
            except Exception as error:
                answer = error
            pipe.send(answer)


def _load(paths):
    # Copy-on-write maps are writable to numba, which would compile again for read-only arrays.
    return [np.asarray(np.load(path, mmap_mode="c")) for path in paths]
