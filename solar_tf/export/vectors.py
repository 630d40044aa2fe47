"""SOLAR's sparse vectors, for engines that search such vectors by their dot product.

A label is K ones, at bucket + chunk * B (§3.1); a query the weights of the top m buckets of each
chunk (§3.3), m * K numbers at the same places. Their dot product is the score that
`ranking.rank` adds up, so an exact engine finds the same labels.
"""

import numpy as np

from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.retrieval.searcher import Searcher
from solar_tf.run.changes import read_delta
from solar_tf.run.directory import open_run
from solar_tf.runtime.console import progress

PER_BATCH = 2000  # labels that an engine is given at a time


class LabelVectors:
    """The vectors of all labels of a run, and their titles where there are any."""

    def __init__(self, root, num_chunks=None):
        run = open_run(root)
        self.chunks = range(num_chunks or run.config.num_chunks)
        if len(self.chunks) > run.config.num_chunks:
            raise UserError(
                f"--num_chunks {num_chunks}: this run has {run.config.num_chunks} chunks"
            )
        self.num_buckets = run.config.num_buckets
        self.dim = len(self.chunks) * self.num_buckets  # D = B K
        if self.dim > 2**32 - 1:
            raise UserError(f"{root}: {self.dim:,} dimensions: engines number them with 32 bits")
        self.labels = LabelTable.load(run, self.chunks, read_delta(run))
        shifts = np.arange(len(self.chunks), dtype=np.uint32) * self.num_buckets
        self.indices = self.labels.label_buckets.T.astype(np.uint32) + shifts  # [N, K], ascending
        self.num_labels = len(self.indices)
        self.titles = self.labels.titles  # None without

    def batches(self, size=PER_BATCH):
        """Yield labels [n], indices [n, K] and titles [n] (None without) of a few labels.

        Labels that were removed from the catalogue are left out.
        """
        allowed = self.labels.allowed
        kept = np.arange(self.num_labels) if allowed is None else np.flatnonzero(allowed)
        with progress(len(kept), "labels", "label") as bar:
            for start in range(0, len(kept), size):
                labels = kept[start : start + size].tolist()
                yield labels, self.indices[labels], list(map(self.labels.title, labels))
                bar.update(len(labels))


class QueryVectors:
    """Encodes texts as sparse vectors with the chunks of a run."""

    def __init__(self, root, num_chunks=None, m=100, score="evidence", floor=None):
        run = open_run(root)
        chunks = run.choose_chunks(num_chunks)
        self.searcher = Searcher(run, chunks)
        self.m, self.score = min(m, run.config.num_buckets), score
        self.floor = floor or ranking.EVIDENCE_FLOOR
        self.places = np.arange(len(chunks), dtype=np.uint32)[:, None] * run.config.num_buckets

    def encode(self, text):
        """Indices uint32, ascending, and weights float32 of at most m * K buckets.

        A weight of 0 adds nothing, and engines take none: those buckets are left out.
        """
        inputs = self.searcher.inputs([text])
        if not inputs.known.all():
            raise UserError(f"no word of {text!r} is in the run's vocabulary: try other words")
        buckets, values = self.searcher.top_buckets(inputs, self.m)
        weights = ranking.score_weights(values, self.score, self.floor).ravel()
        indices = (buckets.astype(np.uint32) + self.places).ravel()
        order = np.argsort(indices)
        order = order[weights[order] > 0]
        return indices[order], weights[order]


def best_first(pairs):
    """Labels and scores as this project ranks them: higher score, then lower label."""
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
