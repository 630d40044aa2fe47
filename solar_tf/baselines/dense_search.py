"""Search among dense label vectors by inner product: exact, or by an index for many labels.

`exact` compares with all labels, in blocks of matrix products. `clusters` splits the labels into
about sqrt(N) balanced clusters and compares a query with the centres and with the labels of the
nearest few: O(sqrt(N) dim) a query, without faiss. `hnsw` is faiss's graph, O(log N) hops, with
the settings of SLICE's paper. All that an index knows are plain arrays.
"""

import logging

import numpy as np

from solar_tf.baselines.interface import empty_ranking, in_threads
from solar_tf.baselines.kernels.ranking import insert_block
from solar_tf.errors import UserError
from solar_tf.preprocessing.grouping import balanced_clusters

LABELS_PER_BLOCK = 4096
QUERIES_PER_BLOCK = 1024
EXACT_LABELS = 20_000  # up to here comparing with all is cheaper than an index
PROBES = 24  # clusters that a query looks into
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 100, 300, 300  # M, efConstruction, efSearch


def best_by_product(queries, vectors, k):
    """The k labels of the largest inner product: ids int32 [n, k], scores float32 [n, k].

    Best first, the lower label first in ties, padded with -1. Only one block of products is in
    memory at a time.
    """
    ids, scores = empty_ranking(len(queries), k, -np.inf)
    for first in range(0, len(queries), QUERIES_PER_BLOCK):
        rows = slice(first, first + QUERIES_PER_BLOCK)
        for start in range(0, len(vectors), LABELS_PER_BLOCK):
            # A single query is a matrix-vector product, which rounds differently.
            products = queries[rows] @ vectors[start : start + LABELS_PER_BLOCK].T
            insert_products(products, start, ids[rows], scores[rows])
    scores[ids < 0] = 0
    return ids, scores


def insert_products(products, first, ids, scores):
    """`insert_block` on all cores."""
    in_threads(
        lambda a, b: insert_block(products[a:b], first, ids[a:b], scores[a:b]), len(products)
    )


def best_of_near(queries, vectors, near, k):
    """The k best of each query's near labels [n, c], which an index found (padded with -1)."""
    near = np.sort(near, axis=1)  # the lower label first, for ties
    ids, scores = empty_ranking(len(queries), k)
    for row, labels in enumerate(near):
        known = labels[labels >= 0]
        found = vectors[known] @ queries[row]
        best = np.argsort(-found, kind="stable")[:k]
        ids[row, : len(best)], scores[row, : len(best)] = known[best], found[best]
    return ids, scores


def choose_method(method, num_labels):
    """The method that `auto` stands for."""
    if method != "auto":
        return method
    if num_labels <= EXACT_LABELS:
        return "exact"
    return "hnsw" if _faiss() else "clusters"


def make_index(vectors, method, seed):
    """The arrays of an index of vectors [N, dim]; labels whose vector is zero are left out."""
    known = np.flatnonzero(vectors.any(axis=1)).astype(np.int32)
    if method == "exact":
        return {"index_exact": known, "index_vectors": vectors[known]}
    if method == "hnsw":
        faiss = _required_faiss()
        graph = faiss.IndexHNSWFlat(vectors.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = HNSW_BUILD
        graph.add(vectors[known])
        return {"index_hnsw": known, "index_graph": faiss.serialize_index(graph)}
    count = max(1, round(len(known) ** 0.5))
    splits, order = balanced_clusters(vectors[known], count, np.random.default_rng(seed))
    members = known[order]
    centres = np.add.reduceat(vectors[members], splits[:-1], axis=0) if len(members) else vectors
    centres = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-9)
    return {
        "index_clusters": members,
        "index_splits": splits,
        "index_centres": centres.astype(np.float32),
        "index_vectors": vectors[members],
    }


def load_index(arrays):
    """The index among these arrays. Its `search(queries, count)` gives the labels nearest to each
    query, int32 [n, count] in no order, padded with -1."""
    for name, kind in (("exact", Exact), ("hnsw", Hnsw), ("clusters", Clusters)):
        if f"index_{name}" in arrays:
            return kind(arrays)
    raise ValueError("no index among the arrays")


class Exact:
    def __init__(self, arrays):
        self.labels, self.vectors = arrays["index_exact"], arrays["index_vectors"]

    def search(self, queries, count):
        return _top(queries @ self.vectors.T, self.labels, count)


class Hnsw:
    def __init__(self, arrays):
        self.labels = arrays["index_hnsw"]
        self.graph = _required_faiss().deserialize_index(arrays["index_graph"])

    def search(self, queries, count):
        self.graph.hnsw.efSearch = max(HNSW_SEARCH, count)
        found = self.graph.search(queries, min(count, len(self.labels)))[1]
        return _padded(np.where(found < 0, -1, self.labels[found]), count)


class Clusters:
    def __init__(self, arrays):
        self.labels, self.splits = arrays["index_clusters"], arrays["index_splits"]
        self.centres, self.vectors = arrays["index_centres"], arrays["index_vectors"]

    def search(self, queries, count):
        """Cluster by cluster: each is compared at once with all queries that look into it."""
        sizes = np.diff(self.splits)
        # Enough clusters for the shortlist, and a few more than that.
        probes = min(len(sizes), max(PROBES, -(-2 * count // max(sizes.min(), 1))))
        similar = queries @ self.centres.T
        chosen = np.argpartition(-similar, probes - 1, axis=1)[:, :probes]
        order = np.argsort(chosen, axis=None, kind="stable")
        rows, ends = order // probes, np.cumsum(np.bincount(chosen.ravel(), minlength=len(sizes)))
        width = probes * sizes.max()
        scores = np.full((len(queries), width), -np.inf, np.float32)
        labels = np.full((len(queries), width), -1, np.int32)
        slots = (order % probes) * sizes.max()
        start = 0
        for cluster, end in enumerate(ends):
            if end > start:
                here, slot = rows[start:end], slots[start:end, None] + np.arange(sizes[cluster])
                part = slice(self.splits[cluster], self.splits[cluster + 1])
                scores[here[:, None], slot] = queries[here] @ self.vectors[part].T
                labels[here[:, None], slot] = self.labels[part]
            start = end
        return _top(scores, labels, count)


def _top(scores, labels, count):
    """Labels [N] or [n, N] of the best `count` scores of each row [n, N]."""
    labels = np.broadcast_to(labels, scores.shape)
    if scores.shape[1] > count:
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        labels = np.take_along_axis(labels, best, axis=1)
    return _padded(labels, count)


def _padded(found, count):
    missing = count - found.shape[1]
    return np.pad(found, ((0, 0), (0, missing)), constant_values=-1).astype(np.int32)


def _faiss():
    """The package, or None where it is not installed."""
    logging.getLogger("faiss").setLevel(logging.WARNING)  # it says which build it has loaded
    try:
        import faiss
    except ImportError:
        return None
    return faiss


def _required_faiss():
    if faiss := _faiss():
        return faiss
    raise UserError("--search hnsw needs faiss-cpu: pip install 'solar-tf[baselines]'")
