"""Exact search among dense label vectors in blocks: never a matrix of all queries by all labels."""

import numpy as np
from numba import njit

from solar_tf.baselines.interface import in_threads

LABELS_PER_BLOCK = 4096
QUERIES_PER_BLOCK = 1024

compiled = njit(nogil=True, cache=True)


def best_by_product(queries, vectors, k):
    """The k labels of the largest inner product: ids int32 [n, k], scores float32 [n, k].

    Best first, the lower label first in ties, padded with -1. A block of products is folded into
    the best so far; memory is that of one block.
    """
    ids = np.full((len(queries), k), -1, np.int32)
    scores = np.full((len(queries), k), -np.inf, np.float32)
    for first in range(0, len(queries), QUERIES_PER_BLOCK):
        rows = slice(first, min(first + QUERIES_PER_BLOCK, len(queries)))
        for start in range(0, len(vectors), LABELS_PER_BLOCK):
            block = vectors[start : start + LABELS_PER_BLOCK]
            # A single query is a product of another kind, whose sums are in another order.
            products = queries[rows] @ block.T
            in_threads(
                lambda a, b, products=products, start=start, rows=rows: fold(
                    products[a:b], start, ids[rows][a:b], scores[rows][a:b]
                ),
                len(products),
            )
    sort_rows(ids, scores)
    return ids, np.where(ids < 0, 0, scores).astype(np.float32)


def best_of_near(queries, vectors, near, k):
    """The k best of each query's near labels [n, c], which an index found (padded with -1)."""
    near = np.sort(near, axis=1)  # the lower label first, for ties
    width = min(k, near.shape[1])
    ids = np.full((len(queries), k), -1, np.int32)
    scores = np.zeros((len(queries), k), np.float32)
    for row, labels in enumerate(near):
        known = labels[labels >= 0]
        found = vectors[known] @ queries[row]
        best = np.argsort(-found, kind="stable")[:width]
        ids[row, : len(best)], scores[row, : len(best)] = known[best], found[best]
    return ids, scores


@compiled
def _worse(score, label, other_score, other_label):
    return score < other_score or (score == other_score and label > other_label)


@compiled
def _sink(ids, scores, end):
    """Restore the heap of places 0 to end, the worst on top, below its top."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= end:
            return
        if child + 1 < end and _worse(scores[child + 1], ids[child + 1], scores[child], ids[child]):
            child += 1
        if not _worse(scores[child], ids[child], scores[at], ids[at]):
            return
        ids[at], ids[child] = ids[child], ids[at]
        scores[at], scores[child] = scores[child], scores[at]
        at = child


@compiled
def fold(products, offset, ids, scores):
    """Fold products [n, c] of the labels from `offset` on into heaps ids and scores [n, k].

    Labels come in order, so that one as good as the worst, being higher, stays out.
    """
    for q in range(len(products)):
        own_ids, own_scores = ids[q], scores[q]
        for i in range(products.shape[1]):
            if products[q, i] > own_scores[0]:
                own_ids[0], own_scores[0] = offset + i, products[q, i]
                _sink(own_ids, own_scores, len(own_ids))


@compiled
def sort_rows(ids, scores):
    """Turn heaps into rankings, best first."""
    for q in range(len(ids)):
        for end in range(ids.shape[1] - 1, 0, -1):
            ids[q, 0], ids[q, end] = ids[q, end], ids[q, 0]
            scores[q, 0], scores[q, end] = scores[q, end], scores[q, 0]
            _sink(ids[q], scores[q], end)
