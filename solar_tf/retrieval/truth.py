"""The true labels of a run's test queries, without those that its dataset's filter removes."""

import numpy as np

from solar_tf.retrieval.metrics import without_pairs
from solar_tf.run.files import read_arrays
from solar_tf.runtime.ragged import row_splits


def true_labels(run):
    """The true labels of all test queries that count: splits [Q + 1], labels."""
    paths = [run.paths.rows("test", shard) for shard in range(run.summary["test"]["shards"])]
    pieces = [read_arrays(path, "preprocess.py") for path in paths]
    counts = np.concatenate([np.diff(piece["label_splits"]) for piece in pieces])
    labels = np.concatenate([piece["labels"] for piece in pieces])
    return without_pairs(row_splits(counts), labels, *removed_labels(run))


def removed_labels(run):
    """Labels that are not evaluated, of a query: splits [Q + 1], labels. Most runs have none."""
    if not run.paths.test_filter.exists():
        return np.zeros(run.summary["test"]["rows"] + 1, np.int64), np.zeros(0, np.int32)
    stored = read_arrays(run.paths.test_filter, "preprocess.py")
    return stored["splits"], stored["labels"]
