"""Operations against seconds, and bytes of a label (§3.3, §5.2)."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from solar_tf.analysis.geometry import operations
from solar_tf.config import SolarConfig
from solar_tf.preprocessing.hashing import label_buckets
from solar_tf.retrieval import ranking
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.run.index import build_index
from solar_tf.run.weights import count_parameters

TOP = 5  # labels, as in the paper's count
QUERIES = 16
REPEATS = 5


def best_seconds(function):
    """The shortest of some calls, not counting the first: other work only adds time."""
    function()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def query_work(num_labels, num_chunks, num_buckets, m, seed=0):
    """One core: seconds of SOLAR's selection and ranking, and of a dense product with d = mK."""
    generator = np.random.default_rng(seed)
    hashed = (label_buckets(num_labels, k, num_buckets) for k in range(num_chunks))
    labels = LabelTable.stack((build_index(row, num_buckets) for row in hashed), num_chunks)
    shape = QUERIES * num_chunks, num_buckets
    probabilities = generator.random(shape, np.float32) ** 8  # few are large, as in a forward pass
    found = ranking.top_buckets(probabilities, m)
    buckets, values = (part.reshape(QUERIES, num_chunks, m) for part in found)
    candidates = labels.rank(buckets, values, TOP)[2]
    select = best_seconds(lambda: ranking.top_buckets(probabilities, m))
    rank = best_seconds(lambda: labels.rank(buckets, values, TOP))
    dense = dense_seconds(num_labels, m * num_chunks, generator)
    measured = {"postings": num_chunks * m * num_labels / num_buckets,
                "candidates": float(candidates.mean())}  # fmt: skip
    counted = operations(num_labels, num_chunks, num_buckets, m, measured)
    return {
        "num_labels": num_labels,
        "num_chunks": num_chunks,
        "num_buckets": num_buckets,
        "m": m,
        "ms_select": 1e3 * select / QUERIES,
        "ms_rank": 1e3 * rank / QUERIES,
        "ms_dense": 1e3 * dense,
        "candidates": measured["candidates"],
        "formula": counted["formula_operations"],
        "formula_all_chunks": counted["formula_operations"]
        + (num_chunks - 1) * num_buckets * float(np.log2(m)),
        "dense": counted["dense_operations"],
    }


def dense_seconds(num_labels, dim, generator):
    """Seconds a query on one core: a batch's product with all label vectors, and the best five."""
    vectors = generator.random((dim, num_labels), np.float32)
    queries = generator.random((QUERIES, dim), np.float32)

    def search():
        scores = queries @ vectors
        np.argpartition(scores, num_labels - TOP, axis=1)

    with threadpool_limits(1):
        return best_seconds(search) / QUERIES


def memory(num_labels, config=None, dim=1000):
    """Bytes of the labels and of the networks, against dense vectors of `dim` floats (§5.2).

    `break_even` is the number of labels from which SOLAR, networks included, is smaller: the
    networks do not grow with the labels, while B stays.
    """
    config = config or SolarConfig()
    network = 4 * count_parameters(config, config.feature_dim) * config.num_chunks
    each = 4 * config.num_chunks
    return {
        "num_labels": num_labels,
        "label_bytes": each,
        "dense_label_bytes": 4 * dim,
        "index_bytes": each * num_labels,
        "network_bytes": network,
        "dense_bytes": 4 * dim * num_labels,
        "break_even": network / (4 * dim - each),
    }
