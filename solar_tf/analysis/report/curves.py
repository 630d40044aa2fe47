"""Precision against m and K, and candidates, from the top buckets that infer.py left (§3.3).

A sample of the test queries is ranked anew for every m and every number of chunks: nothing is
trained and no forward pass is made.
"""

from dataclasses import dataclass

import numpy as np

from solar_tf.analysis.results import top_buckets
from solar_tf.retrieval import metrics, ranking
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.retrieval.options import SearchOptions
from solar_tf.run.changes import read_delta
from solar_tf.runtime.ragged import take_rows

MOST_QUERIES = 2000
SEED = 0


@dataclass(frozen=True)
class TopBuckets:
    """The top buckets of a sample of queries, with all that ranking them needs."""

    queries: np.ndarray  # [Q] rows of the test split
    buckets: np.ndarray  # [Q, K, m]
    values: np.ndarray  # [Q, K, m]
    labels: LabelTable
    truth: tuple  # splits [Q + 1], labels
    filtered: tuple  # splits [Q + 1], labels that are not evaluated


def load_top_buckets(run, most_queries=MOST_QUERIES):
    """The TopBuckets of the chunks that infer.py has seen, or None before it."""
    chunks = [c for c in run.trained_chunks() if run.paths.topm(0, c).exists()]
    if not chunks:
        return None
    num_queries = run.summary["test"]["rows"]
    generator = np.random.default_rng(SEED)
    size = min(most_queries, num_queries)
    queries = np.sort(generator.choice(num_queries, size, replace=False))
    parts = [_read_chunk(run, chunk, queries) for chunk in chunks]
    m = min(buckets.shape[1] for buckets, _ in parts)
    return TopBuckets(
        queries,
        np.stack([buckets[:, :m] for buckets, _ in parts], axis=1),
        np.stack([values[:, :m] for _, values in parts], axis=1),
        LabelTable.load(run, chunks, read_delta(run)),
        _rows(*metrics.true_labels(run), queries),
        _rows(*metrics.filtered_labels(run), queries),
    )


def _read_chunk(run, chunk, queries):
    blocks = list(top_buckets(run, chunk))
    return tuple(
        np.concatenate([block[name] for block in blocks])[queries] for name in ("buckets", "values")
    )


def _rows(splits, labels, queries):
    splits, places = take_rows(splits, queries)
    return splits, labels[places]


def rank(top, m, num_chunks, score):
    """Metrics of the sample with the first chunks and m buckets of each; candidates [Q]."""
    first = slice(0, num_chunks)
    labels = LabelTable(top.labels.offsets[first], top.labels.labels[first], top.labels.allowed)
    spare = int(np.diff(top.filtered[0]).max(initial=0))
    options = SearchOptions(min(metrics.RECALL_AT + spare, labels.num_labels), m, score)
    weights = ranking.score_weights(top.values[:, first, :m], score)
    ids, scores, candidates = labels.rank(
        top.buckets[:, first, :m], weights, options.k, labels.filter(options)
    )
    if spare:
        ids, scores = metrics.filter_pairs(ids, scores, *top.filtered)
    return metrics.evaluate(ids[:, : metrics.RECALL_AT], *top.truth), candidates


def steps(most):
    """1, 2, 5, 10, 25, 50, 100, 250, ... below `most`, and `most`: the paper's m among them."""
    values = [1, 2, 5, 10, *(f * 10**power for power in range(7) for f in (25, 50, 100))]
    return [value for value in values if value < most] + [most]


def measure(top):
    """Rows of metrics by m (with all chunks) and by K (with all buckets), for both scores."""
    _, num_chunks, m = top.buckets.shape
    powers = sorted({min(2**p, num_chunks) for p in range(num_chunks.bit_length() + 1)})
    wanted = [("m", value, num_chunks) for value in steps(m)] + [("K", m, k) for k in powers]
    rows, candidates = [], {}
    for axis, kept, chunks in wanted:
        for score in ranking.SCORES:
            found, counts = rank(top, kept, chunks, score)
            rows.append({"axis": axis, "m": kept, "num_chunks": chunks, "score": score,
                         "candidates": float(counts.mean()), **found})  # fmt: skip
            if axis == "m":
                candidates[kept] = counts
    return rows, candidates
