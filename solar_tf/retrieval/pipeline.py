"""Encode -> top m -> rank (§3.3): how every query is answered, here by threads.

`rankers` does the last step with processes, for stage 3, and `distributed` with other machines.
"""

import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solar_tf.retrieval import ranking
from solar_tf.retrieval.encoder import STREAMS, CompiledEncoder, TensorFlowEncoder

FEW = 12  # queries, up to which the compiled encoder is the faster one
MOST_COMPILED = 4000  # queries that are not worth the seconds of loading TensorFlow
BLOCK_BYTES = 2.5e8  # of the buckets of the queries that are ranked together
MOST_QUERIES = 4000  # of a block
SHOWN_BUCKETS = 8  # of each chunk that a trace has, whatever m is


class Ranked(NamedTuple):
    """The rankings of a block of queries, and if traced what they were made from."""

    ids: NDArray[np.int32]  # [n, k], padded with -1
    scores: NDArray[np.float32]  # [n, k]
    candidates: NDArray[np.int64]  # [n], labels in kept buckets that pass the filter
    evidence: NDArray[np.float32]  # [n, k, K], what each chunk adds; [n, k, 0] without `explain`
    buckets: NDArray[np.int32] | None  # [n, K, m] or more, the likeliest first
    probabilities: NDArray[np.float32] | None  # [n, K, B]


class Pipeline:
    """Answers queries with some chunks of a run; any number of threads may share one."""

    def __init__(self, run, chunks, threads=None):
        self.run, self.chunks = run, chunks
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(max(self.threads, STREAMS), "search")
        self._lock = threading.Lock()
        self._compiled, self._tensorflow = CompiledEncoder(), None

    def encoder(self, num_queries):
        """The better one for so many queries."""
        if num_queries <= (FEW if "tensorflow" in sys.modules else MOST_COMPILED):
            return self._compiled
        with self._lock:
            if self._tensorflow is None:
                self._tensorflow = TensorFlowEncoder(self.run)
            return self._tensorflow

    def encode(self, encoder, models, inputs, m, whole=False):
        """The m likeliest buckets of each query [n, K, m], best first, and their probabilities.

        For m = None: no buckets, and all probabilities, [n, K, B]; with `whole`, the buckets and
        all probabilities. `models` are the stored weights of each chunk.
        """
        shape, whole = (inputs.num_queries, len(self.chunks)), whole or m is None
        buckets = None if m is None else np.empty((*shape, m), np.int32)
        kept = np.empty((*shape, self.run.config.num_buckets if whole else m), np.float32)
        starts = range(0, inputs.num_queries, encoder.batch_size)
        tasks = list(itertools.product(range(len(self.chunks)), starts))

        def encode(piece):
            for row, batches in itertools.groupby(tasks[piece], itemgetter(0)):
                network = encoder.open(models[row], self.chunks[row])
                for _, start in batches:
                    rows = slice(start, min(start + encoder.batch_size, inputs.num_queries))
                    probabilities = network(inputs.part(rows.start, rows.stop))
                    if m is not None:
                        buckets[rows, row], values = ranking.top_buckets(probabilities, m)
                    kept[rows, row] = probabilities if whole else values

        # TensorFlow has threads of its own.
        threads = self.threads if encoder is self._compiled else STREAMS
        self._in_threads(encode, len(tasks), threads)
        return buckets, kept

    def rank(self, models, labels, inputs, options, traced=False):
        """Yield the `Ranked` of all queries among the labels of a LabelTable, block by block."""
        num_queries, num_buckets = inputs.num_queries, self.run.config.num_buckets
        encoder, label_filter = self.encoder(num_queries), labels.filter(options)
        m = kept = None if options.m is None else min(options.m, num_buckets)
        width = num_buckets if m is None or traced else 2 * m
        if traced:
            kept = num_buckets if m is None else max(m, min(SHOWN_BUCKETS, num_buckets))
        block = int(np.clip(BLOCK_BYTES // (4 * len(self.chunks) * width), 1, MOST_QUERIES))
        if block > encoder.batch_size:  # whole batches, as in infer.py
            block -= block % encoder.batch_size
        for start in range(0, max(num_queries, 1), block):
            part = inputs.part(start, min(start + block, num_queries))
            buckets, values = self.encode(encoder, models, part, kept, traced)
            trace = (buckets, values) if traced else (None, None)
            if m is None:
                buckets = None
            elif traced:
                buckets = buckets[:, :, :m]
                values = np.take_along_axis(values, buckets, 2)
            yield Ranked(*self._rank(labels, part, buckets, values, options, label_filter), *trace)

    def _rank(self, labels, inputs, buckets, values, options, label_filter):
        shape = inputs.num_queries, options.k
        ids, scores = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        candidates = np.zeros(inputs.num_queries, np.int64)
        evidence = np.zeros((*shape, len(self.chunks) if options.explain else 0), np.float32)
        k = min(options.k, labels.num_labels)

        def rank(rows):
            top = None if buckets is None else buckets[rows]
            weights = ranking.score_weights(values[rows], options.score, options.floor)
            found = labels.rank(top, weights, k, label_filter)
            ids[rows, :k], scores[rows, :k], candidates[rows] = found
            if options.explain:
                of = labels.label_buckets
                evidence[rows, :k] = ranking.contributions(top, weights, of, found[0])

        self._in_threads(rank, inputs.num_queries, self.threads)
        unknown = ~inputs.known
        ids[unknown], scores[unknown], candidates[unknown] = -1, 0, 0
        return ids, scores, candidates, evidence

    def _in_threads(self, work, count, threads):
        """Call `work` with slices of 0 to `count`; compiled code and TensorFlow run in parallel."""
        step = max(-(-count // threads), 1)
        first, *rest = [slice(at, min(at + step, count)) for at in range(0, max(count, 1), step)]
        others = [self._pool.submit(work, piece) for piece in rest]
        work(first)
        for other in others:
            other.result()
