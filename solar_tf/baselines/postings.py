"""An inverted index whose entries have values: SNRM's, over the non-zero dimensions of vectors."""

import numpy as np
import scipy.sparse as sp
from numba import njit

from solar_tf.baselines.interface import in_threads
from solar_tf.baselines.votes import best_labels

compiled = njit(nogil=True, cache=True)


def largest_entries(dense, count):
    """CSR of the non-zeros of non-negative rows [n, D], the `count` largest of each."""
    if count < dense.shape[1]:
        bound = -np.partition(-dense, count, axis=1)[:, [count]]  # the largest that is too many
        dense = np.where(dense > bound, dense, 0)
    return sp.csr_matrix(dense)


def make_postings(vectors):
    """Arrays of the index of label vectors, CSR [N, D]: each dimension's labels and their values.

    Labels are in order within a dimension.
    """
    columns = vectors.tocsc()
    columns.sort_indices()
    return {
        "posting_splits": columns.indptr.astype(np.int64),
        "posting_labels": columns.indices.astype(np.int32),
        "posting_values": columns.data.astype(np.float32),
        "num_labels": np.int64(vectors.shape[0]),
    }


def search_postings(queries, index, k):
    """The k labels of the largest inner product with each row of CSR queries [n, D].

    Only labels that share a dimension with the query are scored, and only these are returned:
    ids int32 [n, k], padded with -1, scores float32 [n, k].
    """
    ids = np.full((queries.shape[0], k), -1, np.int32)
    scores = np.zeros((queries.shape[0], k), np.float32)
    splits = queries.indptr.astype(np.int64)
    candidates = in_threads(
        lambda start, stop: _search(
            start, stop, splits, queries.indices, queries.data, index["posting_splits"],
            index["posting_labels"], index["posting_values"], int(index["num_labels"]), ids, scores,
        ),
        len(ids),
    )  # fmt: skip
    return ids, scores, sum(candidates) / max(1, len(ids))


@compiled
def _search(
    start, stop, splits, columns, values, posting_splits, posting_labels, posting_values,
    num_labels, ids, scores,
):  # fmt: skip
    """Fill queries start to stop; returns the number of labels scored."""
    sums = np.zeros(num_labels, np.float32)
    touched = np.empty(num_labels, np.int32)
    keys = np.empty(num_labels, np.uint64)
    total = 0
    for q in range(start, stop):
        count = 0
        for at in range(splits[q], splits[q + 1]):
            value = values[at]
            if value <= 0:
                continue
            for place in range(posting_splits[columns[at]], posting_splits[columns[at] + 1]):
                label = posting_labels[place]
                if sums[label] == 0:
                    touched[count] = label
                    count += 1
                # What underflows to zero would be touched twice.
                sums[label] += max(value * posting_values[place], np.float32(1e-30))
        best_labels(touched[:count], sums, keys, ids[q], scores[q])
        for i in range(count):
            sums[touched[i]] = 0
        total += count
    return total


def load(index):
    """How evenly the index is filled: entries of a dimension, of those that have any.

    "imbalance" is the longest list over the mean one; "unused" the share of dimensions without
    entries, in percent; "visited" the length of the list that an entry is in, over the mean: what
    a query meets whose dimensions are as frequent as the labels' own.
    """
    sizes = np.diff(index["posting_splits"])
    used = sizes[sizes > 0]
    if not len(used):
        return {"imbalance": 0.0, "unused": 100.0, "visited": 0.0}
    mean = used.mean()
    return {
        "imbalance": float(used.max() / mean),
        "unused": float(100 * np.mean(sizes == 0)),
        "visited": float(np.square(used, dtype=np.float64).sum() / used.sum() / mean),
    }
