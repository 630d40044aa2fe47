"""Nearest labels by inner product, without a step that grows as queries times labels.

`exact` compares with all, for few labels only. `clusters` parts the labels into about sqrt(N)
balanced clusters and compares a query with the centres and with the labels of the nearest few:
O(sqrt(N) dim) a query. `hnsw` is faiss's graph, O(log N) hops, with the settings of SLICE's paper.
Everything an index knows is plain arrays.
"""

import logging

import numpy as np

from solar_tf.errors import UserError
from solar_tf.preprocessing.grouping import balanced_clusters

EXACT_LABELS = 20_000  # up to here comparing with all is cheaper than an index
PROBES = 24  # clusters that a query looks into
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 100, 300, 300  # M, efConstruction, efSearch


def choose_method(method, num_labels):
    """What `auto` stands for here."""
    if method != "auto":
        return method
    if num_labels <= EXACT_LABELS:
        return "exact"
    return "hnsw" if _faiss() else "clusters"


def make_index(vectors, method, seed):
    """The arrays of an index of vectors [N, dim]; those that are zero are never found."""
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
    """The index whose arrays these are; others among them are not looked at."""
    for name, kind in (("exact", Exact), ("hnsw", Hnsw), ("clusters", Clusters)):
        if f"index_{name}" in arrays:
            return kind(arrays)
    raise ValueError("no index among the arrays")


class Exact:
    def __init__(self, arrays):
        self.labels, self.vectors = arrays["index_exact"], arrays["index_vectors"]

    def search(self, queries, count):
        """The nearest labels of each query, int32 [n, count] in no order, padded with -1."""
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
        """Cluster by cluster: each is compared with all queries that look into it at once."""
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
                who, where = rows[start:end], slots[start:end, None] + np.arange(sizes[cluster])
                part = slice(self.splits[cluster], self.splits[cluster + 1])
                scores[who[:, None], where] = queries[who] @ self.vectors[part].T
                labels[who[:, None], where] = self.labels[part]
            start = end
        return _top(scores, labels, count)


def _top(scores, labels, count):
    """Labels [N] or [n, N] of the best `count` scores of each row [n, N]."""
    if scores.shape[1] > count:
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        found = labels[best] if labels.ndim == 1 else np.take_along_axis(labels, best, axis=1)
    else:
        found = np.broadcast_to(labels, scores.shape)
    return _padded(found, count)


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
