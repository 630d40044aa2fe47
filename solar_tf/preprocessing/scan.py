"""The first pass of stage 1 over the rows: words, features and how many labels there are."""

import collections
import functools

import numpy as np

from solar_tf.datasets.source import add_counts, count_ids, map_blocks
from solar_tf.datasets.vocabulary import count_tokens


class Scan:
    """What one pass over the rows finds out."""

    def __init__(self):
        self.num_rows = self.num_labels = 0
        self.words = collections.Counter()
        self.feature_rows = np.zeros(0, np.int64)  # training rows with each feature

    @property
    def num_features(self):
        return len(self.feature_rows)

    def add(self, num_rows, num_labels, words, feature_rows):
        self.num_rows += num_rows
        self.num_labels = max(self.num_labels, num_labels)
        self.words.update(words)
        self.feature_rows = add_counts(self.feature_rows, feature_rows)


def scan(dataset, config, workers):
    """One pass over the training rows; over the test rows too if they can add labels."""
    found = Scan()
    sparse_unknown = dataset.kind == "sparse" and dataset.num_features is None
    counts_features = dataset.kind != "dense" and config.weighting == "tfidf"
    if dataset.kind == "text" or sparse_unknown or counts_features or not dataset.num_labels:
        for facts in _scan_source(dataset.train, workers):
            found.add(*facts)
    if dataset.test and (sparse_unknown or not dataset.num_labels):
        for _, num_labels, _, feature_rows in _scan_source(dataset.test, workers):
            found.add(0, num_labels, {}, np.zeros_like(feature_rows))
    return found


def _scan_source(source, workers):
    return map_blocks(functools.partial(_scan_block, source), source, workers)


def _scan_block(source, block):
    rows = source.parse(block)
    words = count_tokens(rows.texts) if rows.texts is not None else {}
    feature_rows = np.zeros(0, np.int64)
    if rows.features is not None:
        feature_rows = count_ids(source.path, rows.features, "features")
    num_labels = int(rows.labels.max(initial=-1)) + 1
    return len(rows), (len(rows), num_labels, words, feature_rows)
