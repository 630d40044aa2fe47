"""Precision against m and K, and candidates, from the top buckets that infer.py left (§3.3).

A sample of the test queries is ranked anew for every m and every number of chunks: nothing is
trained and no forward pass is made.
"""

from dataclasses import dataclass

import numpy as np

from solar_tf.analysis.results import top_buckets
from solar_tf.retrieval import metrics, ranking
from solar_tf.retrieval.truth import removed_labels, true_labels
from solar_tf.run.index import load_index
from solar_tf.runtime.ragged import take_rows

MOST_QUERIES = 2000
SEED = 0


@dataclass(frozen=True)
class TopBuckets:
    """The top buckets of a sample of queries, with all that ranking them needs."""

    queries: np.ndarray  # [Q] rows of the test split
    buckets: np.ndarray  # [Q, K, m]
    values: np.ndarray  # [Q, K, m]
    offsets: np.ndarray  # [K, B + 1]
    labels: np.ndarray  # [K, N]
    truth: tuple  # splits [Q + 1], labels
    removed: tuple  # splits [Q + 1], labels that do not count


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
    sizes = run.config.num_buckets, run.dataset["num_labels"]
    indexes = [load_index(run.paths.index(chunk), *sizes) for chunk in chunks]
    return TopBuckets(
        queries,
        np.stack([buckets[:, :m] for buckets, _ in parts], axis=1),
        np.stack([values[:, :m] for _, values in parts], axis=1),
        np.stack([index.offsets for index in indexes]),
        np.stack([index.labels for index in indexes]),
        _rows(*true_labels(run), queries),
        _rows(*removed_labels(run), queries),
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
    kept = slice(0, num_chunks)
    weights = ranking.score_weights(top.values[:, kept, :m], score)
    k = min(metrics.RECALL_AT + int(np.diff(top.removed[0]).max(initial=0)), top.labels.shape[1])
    ids, scores, candidates = ranking.rank(
        top.buckets[:, kept, :m], weights, top.offsets[kept], top.labels[kept], k
    )
    if len(top.removed[1]):
        ids, scores = metrics.filter_pairs(ids, scores, *top.removed)
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
