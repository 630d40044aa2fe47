"""Encode -> top m -> rank (§3.3): how every query is answered, here by threads.

`rankers` does the last step with processes, for stage 3, and `distributed` with other machines.
"""

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solar_tf.retrieval import ranking
from solar_tf.retrieval.encoder import CompiledEncoder, Inputs, TensorFlowEncoder
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.plan import STREAMS
from solar_tf.run.directory import Run

FEW = 12  # queries, up to which the compiled encoder is the faster one
MOST_COMPILED = 4000  # queries that are not worth the seconds of loading TensorFlow
BLOCK_BYTES = 2.5e8  # of the buckets of the queries that are ranked together
MOST_QUERIES = 4000  # of a block
SHOWN_BUCKETS = 8  # of each chunk that a trace has, whatever m is

Models = list[dict[str, NDArray]]  # the stored weights of each chunk


class Encoded(NamedTuple):
    """What is left of the networks' outputs for some queries."""

    buckets: NDArray[np.int32] | None  # [n, K, m], the likeliest first; None if m is
    values: NDArray[np.float32] | None  # [n, K, m], their probabilities
    everything: NDArray[np.float32] | None  # [n, K, B], if it was asked for


class Ranked(NamedTuple):
    """The rankings of some queries."""

    ids: NDArray[np.int32]  # [n, k], padded with -1
    scores: NDArray[np.float32]  # [n, k]
    candidates: NDArray[np.int64]  # [n], labels in kept buckets that pass the filter
    evidence: NDArray[np.float32] | None  # [n, k, K], what each chunk adds to each score
    encoded: Encoded | None  # if traced


class Pipeline:
    """Answers queries with some chunks of a run; any number of threads may share one."""

    def __init__(self, run: Run, chunks: tuple[int, ...], threads: int | None = None):
        self.run, self.chunks = run, chunks
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(max(self.threads, STREAMS), "search")
        self._lock = threading.Lock()
        self._compiled = CompiledEncoder()
        self._tensorflow: TensorFlowEncoder | None = None

    def encoder(self, num_queries: int) -> CompiledEncoder | TensorFlowEncoder:
        """The better one for so many queries."""
        if num_queries <= (FEW if "tensorflow" in sys.modules else MOST_COMPILED):
            return self._compiled
        with self._lock:
            if self._tensorflow is None:
                self._tensorflow = TensorFlowEncoder(self.run)
            return self._tensorflow

    def encode(
        self,
        encoder: CompiledEncoder | TensorFlowEncoder,
        models: Models,
        inputs: Inputs,
        m: int | None,
        whole: bool = False,
    ) -> Encoded:
        """Encode and top m; with `whole`, all probabilities are kept, too."""
        shape = inputs.num_queries, len(self.chunks)
        buckets, values, everything = None, None, None
        if m is not None:
            buckets, values = np.empty((*shape, m), np.int32), np.empty((*shape, m), np.float32)
        if whole:
            everything = np.empty((*shape, self.run.config.num_buckets), np.float32)
        starts = range(0, inputs.num_queries, encoder.batch_size)
        tasks = list(itertools.product(range(len(self.chunks)), starts))

        def encode(piece):
            for row, batches in itertools.groupby(tasks[piece], itemgetter(0)):
                network = encoder.open(models[row], self.chunks[row])
                for _, start in batches:
                    rows = slice(start, min(start + encoder.batch_size, inputs.num_queries))
                    probabilities = network(inputs.part(rows.start, rows.stop))
                    if m is not None:
                        top = ranking.top_buckets(probabilities, m)
                        buckets[rows, row], values[rows, row] = top
                    if whole:
                        everything[rows, row] = probabilities

        # TensorFlow has threads of its own.
        threads = self.threads if encoder is self._compiled else STREAMS
        self._in_threads(encode, len(tasks), threads)
        return Encoded(buckets, values, everything)

    def rank(
        self,
        models: Models,
        labels: LabelTable,
        inputs: Inputs,
        options: SearchOptions,
        traced: bool = False,
    ) -> Iterator[Ranked]:
        """Yield the rankings of all queries, block by block."""
        num_queries, num_buckets = inputs.num_queries, self.run.config.num_buckets
        encoder, label_filter = self.encoder(num_queries), labels.filter(options)
        m = None if options.m is None else min(options.m, num_buckets)
        width = num_buckets if m is None or traced else 2 * m
        block = int(np.clip(BLOCK_BYTES // (4 * len(self.chunks) * width), 1, MOST_QUERIES))
        if block > encoder.batch_size:  # whole batches, as in infer.py
            block -= block % encoder.batch_size
        for start in range(0, max(num_queries, 1), block):
            part = inputs.part(start, min(start + block, num_queries))
            kept = m
            if traced:
                kept = num_buckets if m is None else max(m, min(SHOWN_BUCKETS, num_buckets))
            encoded = self.encode(encoder, models, part, kept, m is None or traced)
            ranked = self._rank_block(labels, part, encoded, m, options, label_filter)
            yield ranked._replace(encoded=encoded if traced else None)

    def _rank_block(self, labels, inputs, encoded, m, options, label_filter):
        shape = inputs.num_queries, options.k
        ids, scores = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        candidates, evidence = np.zeros(inputs.num_queries, np.int64), None
        if options.explain:
            evidence = np.zeros((*shape, len(self.chunks)), np.float32)
        k = min(options.k, labels.num_labels)

        def rank(rows):
            buckets, values = None, encoded.everything
            if m is not None:
                buckets, values = encoded.buckets[rows, :, :m], encoded.values[:, :, :m]
            weights = ranking.score_weights(values[rows], options.score, options.floor)
            found = labels.rank(buckets, weights, k, label_filter)
            ids[rows, :k], scores[rows, :k], candidates[rows] = found
            if evidence is not None:
                of = labels.label_buckets
                evidence[rows, :k] = ranking.contributions(buckets, weights, of, found[0])

        self._in_threads(rank, inputs.num_queries, self.threads)
        unknown = ~inputs.known
        ids[unknown], scores[unknown], candidates[unknown] = -1, 0, 0
        return Ranked(ids, scores, candidates, evidence, None)

    def _in_threads(self, work, count, threads):
        """Call `work` with slices of 0 to `count`; compiled code and TensorFlow run in parallel."""
        step = max(-(-count // threads), 1)
        first, *rest = [slice(at, min(at + step, count)) for at in range(0, max(count, 1), step)]
        others = [self._pool.submit(work, piece) for piece in rest]
        work(first)
        for other in others:
            other.result()
