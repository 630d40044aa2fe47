"""Random label vectors (§3.1): how orthogonal they are, and what tells labels apart.

A label vector has K ones among D = BK places, one in each chunk. Vectors come from the hash that
`preprocess.py` uses: these are the figures of real codes, not of an idealised model.
"""

import math

import numpy as np

from solar_tf.preprocessing.hashing import label_buckets, sparse_indices

SAMPLE = 50  # labels, or queries, that are compared with all labels


def codes(num_labels, num_chunks, num_buckets):
    """Buckets of all labels: int32 [K, N]."""
    return np.stack([label_buckets(num_labels, k, num_buckets) for k in range(num_chunks)])


def overlap(num_labels, num_chunks, num_buckets, seed=0):
    """Dot products of label vectors: the mean of all pairs, exactly, beside K/B (§3.1, eq. 1)."""
    buckets = codes(num_labels, num_chunks, num_buckets)
    pairs = math.comb(num_labels, 2)
    # A bucket of n labels has n over 2 pairs that meet: no pair need be looked at.
    meetings = sum(
        int((sizes * (sizes - 1) // 2).sum())
        for sizes in (np.bincount(row, minlength=num_buckets).astype(np.int64) for row in buckets)
    )
    expected = num_chunks / num_buckets
    deviation = math.sqrt(expected * (1 - 1 / num_buckets) / pairs)  # hashes are independent
    chosen = np.random.default_rng(seed).choice(num_labels, min(SAMPLE, num_labels), replace=False)
    squares, most = [], 0
    for label in chosen:
        dots = (buckets == buckets[:, label, None]).sum(axis=0)
        dots[label] = 0
        squares.append(float((dots / num_chunks).astype(np.float64) @ (dots / num_chunks)))
        most = max(most, int(dots.max()))
    others = num_labels - 1
    return {
        "num_labels": num_labels,
        "num_chunks": num_chunks,
        "num_buckets": num_buckets,
        "expected": expected,
        "measured": meetings / pairs,
        "deviations": (meetings / pairs - expected) / deviation,
        "most": most,  # of the sample's pairs
        # The sum of squared cosines with all other labels: 0 if they were orthogonal.
        "interference": float(np.mean(squares)),
        "expected_interference": others / (num_chunks * num_buckets)
        * (1 + (num_chunks - 1) / num_buckets),
    }  # fmt: skip


def independence(num_labels, num_chunks, num_buckets, queries=64, seed=0):
    """How well fixed label vectors can stand for arbitrary scores (§4): rank and residual.

    Scores T [X, N] are random; the best one-sided f solves f R = T by least squares, R [D, N]
    being the label vectors. The residual is the share of T that no f can reach.
    """
    buckets = codes(num_labels, num_chunks, num_buckets)
    vectors = np.zeros((num_labels, num_chunks * num_buckets))
    np.put_along_axis(vectors, sparse_indices(buckets.T, num_buckets), 1.0, axis=1)
    left, values, _ = np.linalg.svd(vectors, full_matrices=False)
    rank = int((values > 1e-9 * values[0]).sum())
    scores = np.random.default_rng(seed).normal(size=(queries, num_labels))
    reached = scores @ left[:, :rank]
    return {
        "num_labels": num_labels,
        "dimension": num_chunks * num_buckets,
        "rank": rank,
        "most_rank": min(num_labels, num_chunks * (num_buckets - 1) + 1),
        "residual": float(1 - (reached**2).sum() / (scores**2).sum()),
        "expected_residual": 1 - rank / num_labels,
    }


def decoding(num_labels, num_chunks, num_buckets, num_true, seed=0):
    """A perfect query: the OR of some labels' vectors (§3.2). How many others look like them?

    A wrong label has all its K buckets hit with probability (1 - (1 - 1/B)^r)^K.
    """
    buckets = codes(num_labels, num_chunks, num_buckets)
    generator = np.random.default_rng(seed)
    wrong = []
    for _ in range(SAMPLE):
        true = generator.choice(num_labels, num_true, replace=False)
        found = np.zeros(num_labels, np.int32)
        for row in buckets:
            hit = np.zeros(num_buckets, bool)
            hit[row[true]] = True
            found += hit[row]
        wrong.append(int((found == num_chunks).sum()) - num_true)
    return {
        "num_labels": num_labels,
        "num_chunks": num_chunks,
        "num_buckets": num_buckets,
        "num_true": num_true,
        "measured": float(np.mean(wrong)),
        "expected": expected_wrong(num_labels, num_chunks, num_buckets, num_true),
    }


def expected_wrong(num_labels, num_chunks, num_buckets, num_true):
    """Wrong labels that a perfect query cannot tell from its true ones."""
    hit = 1 - (1 - 1 / num_buckets) ** num_true
    return (num_labels - num_true) * hit**num_chunks
