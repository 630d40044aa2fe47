"""SOLAR's sparse vectors, for engines that search such vectors by their dot product.

A label is K ones, at bucket + chunk * B (§3.1); a query the weights of the top m buckets of each
chunk (§3.3), m * K numbers at the same places. Their dot product is the score that
`retrieval.rank` adds up, so an exact engine finds the same labels.
"""

import numpy as np

from solar_tf import retrieval
from solar_tf.console import progress
from solar_tf.errors import UserError
from solar_tf.index import load_index
from solar_tf.rundir import open_run
from solar_tf.search import Searcher

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
        self.num_labels, self.num_buckets = run.dataset["num_labels"], run.config.num_buckets
        self.dim = len(self.chunks) * self.num_buckets  # D = B K
        if self.dim > 2**32 - 1:
            raise UserError(f"{root}: {self.dim:,} dimensions: engines number them with 32 bits")
        self.indices = np.empty((self.num_labels, len(self.chunks)), np.uint32)  # ascending
        for i, chunk in enumerate(self.chunks):
            index = load_index(run.paths.index(chunk), self.num_buckets, self.num_labels)
            self.indices[:, i] = index.label_buckets() + i * self.num_buckets
        self.titles = None
        if run.paths.label_titles.exists():
            self.titles = run.paths.label_titles.read_text(encoding="utf-8").split("\n")[:-1]

    def batches(self, size=PER_BATCH):
        """Yield labels [n], indices [n, K] and titles [n] (None without) of a few labels."""
        with progress(self.num_labels, "labels", "label") as bar:
            for start in range(0, self.num_labels, size):
                indices = self.indices[start : start + size]
                labels = range(start, start + len(indices))
                titles = self.titles[start : start + size] if self.titles else [None] * len(labels)
                yield labels, indices, titles
                bar.update(len(indices))


class QueryVectors:
    """Encodes texts as sparse vectors with the chunks of a run."""

    def __init__(self, root, num_chunks=None, m=100, score="evidence", floor=None):
        run = open_run(root)
        chunks = run.choose_chunks(num_chunks)
        self.searcher = Searcher(run, chunks)
        self.m, self.score = min(m, run.config.num_buckets), score
        self.floor = floor or retrieval.EVIDENCE_FLOOR
        self.places = np.arange(len(chunks), dtype=np.uint32)[:, None] * run.config.num_buckets

    def encode(self, text):
        """Indices uint32, ascending, and weights float32 of at most m * K buckets.

        A weight of 0 adds nothing, and engines take none: those buckets are left out.
        """
        probabilities = self.searcher.encode(text)
        if probabilities is None:
            raise UserError(f"no word of {text!r} is in the run's vocabulary: try other words")
        buckets, values = retrieval.top_buckets(probabilities, self.m)
        weights = retrieval.score_weights(values, self.score, self.floor).ravel()
        indices = (buckets.astype(np.uint32) + self.places).ravel()
        order = np.argsort(indices)
        order = order[weights[order] > 0]
        return indices[order], weights[order]


def best_first(pairs):
    """Labels and scores as this project ranks them: higher score, then lower label."""
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
