"""Rows whose title is a label's own: they may be taken to have that label, too."""

import dataclasses
from collections import defaultdict

import numpy as np

from solar_tf.datasets.source import merge_duplicates
from solar_tf.runtime.ragged import row_splits


def index_titles(titles):
    """The labels of each title; several labels may share one."""
    index = defaultdict(list)
    for label, title in enumerate(titles):
        index[title].append(label)
    return index


def add_own_labels(rows, index):
    """`source.Rows` of texts, where a row that is titled like a label has that label as well.

    A catalogue in which queries and labels are the same kind of thing seldom relates a thing
    to itself, though nothing is closer to it.
    """
    own = [index.get(text, ()) for text in rows.texts]
    added = np.fromiter(map(len, own), np.int64, len(own))
    counts = np.diff(rows.label_splits)
    owners = np.repeat(np.tile(np.arange(len(own)), 2), np.concatenate([counts, added]))
    labels = np.concatenate([rows.labels, np.array([i for few in own for i in few], np.int32)])
    splits = row_splits(counts + added)
    order = np.argsort(owners, kind="stable")
    splits, labels, _, _ = merge_duplicates(splits, labels[order])
    return dataclasses.replace(rows, label_splits=splits, labels=labels)
