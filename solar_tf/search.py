"""Answers to single queries (§3.3), from mapped weights and without TensorFlow.

A query touches a few rows of the input layer, and ReLU leaves many hidden units at zero:
only the rows of the others are read of the output layer.
"""

import numpy as np

from solar_tf import features, hashing, retrieval
from solar_tf.console import say, table
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.index import load_index
from solar_tf.rundir import open_run
from solar_tf.weights import load_weights, weight_shapes


class Searcher:
    """A run of titles, ready to be asked."""

    def __init__(self, run, chunks):
        if run.dataset["kind"] != "text":
            raise UserError(
                f"{run.paths.root}: queries need a run of titles, and this one's inputs are numbers"
            )
        self.run, self.chunks = run, chunks
        self.vocabulary = Vocabulary.load(run.paths.vocabulary)
        self.token_weights = None
        if run.config.weighting == "tfidf":
            self.token_weights = np.load(run.paths.token_weights, allow_pickle=False)
        self.titles = None
        if run.paths.label_titles.exists():
            self.titles = run.paths.label_titles.read_text(encoding="utf-8").split("\n")
        shapes = weight_shapes(run.config, run.input_dim)
        self.models = [load_weights(run.paths.chunk(c), shapes, mapped=True) for c in chunks]
        sizes = run.config.num_buckets, run.dataset["num_labels"]
        indexes = [load_index(run.paths.index(chunk), *sizes) for chunk in chunks]
        self.offsets = np.stack([index.offsets for index in indexes])  # [K, B + 1]
        self.labels = np.stack([index.labels for index in indexes])  # [K, N]

    def encode(self, text):
        """The probabilities of all buckets, [K, B] float32; None if no word is known."""
        splits, ids, values = self.vocabulary.encode([text])
        if not len(ids):
            return None
        values = features.weigh(splits, ids, values, self.run.config, self.token_weights)
        return np.stack(
            [
                _probabilities(model, *self._hashed(splits, ids, values, chunk))
                for chunk, model in zip(self.chunks, self.models, strict=True)
            ]
        )

    def _hashed(self, splits, ids, values, chunk):
        hashed = hashing.hash_ids(ids, self.run.seeds[chunk], self.run.config.feature_dim)
        return hashing.hash_features(splits, hashed, values)[1:]

    def search(self, text, k=10, m=100, score="evidence", floor=retrieval.EVIDENCE_FLOOR):
        """The k best labels of a text: a list of (label, title or None, score)."""
        probabilities = self.encode(text)
        if probabilities is None:
            return []
        m = min(m, self.run.config.num_buckets)
        buckets, values = retrieval.top_buckets(probabilities, m)
        weights = retrieval.score_weights(values, score, floor)
        ids, scores, _ = retrieval.rank(buckets[None], weights[None], self.offsets, self.labels, k)
        return [
            (int(label), self.titles[label] if self.titles else None, float(value))
            for label, value in zip(ids[0], scores[0], strict=True)
            if label >= 0
        ]


def answer(root, text, num_chunks=None, **options):
    """Print the best labels of one text as a table; `options` are those of `search`."""
    run = open_run(root)
    searcher = Searcher(run, run.choose_chunks(num_chunks))
    found = searcher.search(text, **options)
    if not found:
        raise UserError(f"no word of {text!r} is in the run's vocabulary: try other words")
    rows = [
        (i, label, title or "-", f"{value:.3f}") for i, (label, title, value) in enumerate(found, 1)
    ]
    say(table(("", "label", f"title, for {text!r}", "score"), rows))
    return found


def _probabilities(model, ids, values):
    """One chunk's forward pass on one row. [B] float32."""
    hidden = values @ model["hidden_kernel"][ids] + model["hidden_bias"]
    active = np.flatnonzero(hidden > 0)
    logits = hidden[active] @ model["output_kernel"][active] + model["output_bias"]
    return 1 / (1 + np.exp(-logits))
