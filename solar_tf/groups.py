"""Labels that go together in one bucket: an option beside the paper's random buckets.

§3.1 picks a label's bucket in every chunk at random. In a grouped chunk (`grouped_share` of all)
labels are parted into B buckets of one size by the features of their training rows and titles. A
network learns such buckets far better, since a query's words say what they are about, and the
random ones tell the labels of a bucket apart (docs/paper_notes.md). Load is balanced and two labels
at random share a bucket as often as before; those that go together share it more often.
"""

import numpy as np
import scipy.sparse as sp

from solar_tf import hashing
from solar_tf.clusters import balanced_clusters
from solar_tf.index import load_index

HEAVIEST = 16  # features of a row that count; bounds the memory of profiles


def chunk_buckets(run, chunk, num_labels):
    """The bucket of every label in a chunk of a run whose index is there, int32 [N]."""
    num_buckets = run.config.num_buckets
    if run.config.is_grouped(chunk):
        return load_index(run.paths.index(chunk), num_buckets, num_labels).label_buckets()
    return hashing.label_buckets(num_labels, run.seeds[chunk], num_buckets)


def group_labels(profiles, seed, num_buckets):
    """Buckets of one size for labels by their `profiles` [N, F] of unit length: int32 [N]."""
    splits, order = balanced_clusters(profiles, num_buckets, np.random.default_rng(seed))
    buckets = np.empty(profiles.shape[0], np.int32)
    buckets[order] = np.repeat(np.arange(num_buckets, dtype=np.int32), np.diff(splits))
    return buckets


def sum_by_label(inputs, label_splits, labels, num_labels):
    """The sums of the rows of each label: [N, F], of `inputs` [n, F], CSR or dense."""
    shape = len(label_splits) - 1, num_labels
    owners = sp.csr_matrix((np.ones(len(labels), np.float32), labels, label_splits), shape)
    return owners.T @ inputs


def unit_rows(inputs):
    """Rows of length 1, and empty ones as they are; of a CSR matrix or a dense array."""
    if sp.issparse(inputs):
        squares = np.asarray(inputs.multiply(inputs).sum(axis=1)).ravel()
        return sp.diags(_inverse_lengths(squares)) @ inputs
    return inputs * _inverse_lengths(np.square(inputs).sum(axis=1))[:, None]


def heaviest(splits, ids, values, num_features):
    """The CSR matrix [n, F] of rows, each with at most HEAVIEST of its features."""
    rows = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
    order = np.lexsort((-values, rows))
    places = np.arange(len(rows)) - splits[:-1][rows]  # in the row, by weight
    kept = order[places < HEAVIEST]
    shape = len(splits) - 1, num_features
    return sp.csr_matrix((values[kept], (rows[kept], ids[kept])), shape, dtype=np.float32)


def _inverse_lengths(squares):
    return np.where(squares > 0, 1 / np.sqrt(np.where(squares > 0, squares, 1)), 0).astype(
        np.float32
    )
