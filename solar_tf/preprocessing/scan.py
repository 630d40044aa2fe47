"""The first pass of stage 1 over the rows: words, features and how many labels there are."""

import collections
import functools

import numpy as np

from solar_tf.datasets.source import count_ids
from solar_tf.datasets.vocabulary import count_tokens
from solar_tf.runtime.console import progress
from solar_tf.runtime.workers import run_tasks

ROWS_PER_SHARD = 16_384


class Scan:
    """What one pass over the rows finds out."""

    def __init__(self):
        self.num_rows = self.num_labels = self.num_features = 0
        self.words = collections.Counter()
        self.feature_rows = np.zeros(0, np.int64)

    def add(self, num_rows, num_labels, words, feature_rows):
        self.num_rows += num_rows
        self.num_labels = max(self.num_labels, num_labels)
        self.words.update(words)
        longer = max(len(self.feature_rows), len(feature_rows))
        self.feature_rows = sum(
            np.pad(counts, (0, longer - len(counts)))
            for counts in (self.feature_rows, feature_rows)
        )
        self.num_features = longer


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
    with progress(source.num_rows, "reading", "row") as bar:
        tasks = shard_blocks(source, bar)
        for facts in run_tasks(functools.partial(_scan_block, source), tasks, workers):
            bar.update(facts[0])
            yield facts


def shard_blocks(source, bar, before=0):
    """The blocks of a source; those of formats that do not count their rows tell the bar an ETA.

    `before` is the number of rows of other sources on the same bar.
    """
    for block in source.blocks(ROWS_PER_SHARD):
        if source.num_rows is None and block.share:
            bar.total = before + round((block.first_row + block.num_rows) / block.share)
        yield block


def _scan_block(source, block):
    rows = source.parse(block)
    words = count_tokens(rows.texts) if rows.texts is not None else {}
    feature_rows = np.zeros(0, np.int64)
    if rows.features is not None:
        feature_rows = count_ids(source.path, rows.features, "features")
    return len(rows), int(rows.labels.max(initial=-1)) + 1, words, feature_rows
