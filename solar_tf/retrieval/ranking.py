"""Retrieval (§3.3): the top m buckets of each chunk, their labels, the best of them.

`rank` scores the labels found in the top buckets, `rank_full` every label; with m = B
the two agree bit for bit. Both add up the weights of a label's buckets in chunk order,
as float32, and rank by higher score, then lower label. `solar_tf.retrieval.rankers` spreads the
queries over processes.
"""

from typing import NamedTuple

import numpy as np

from solar_tf.retrieval.kernels import full, shortlist, top_m
from solar_tf.runtime.compiled import compiled

SCORES = ("probability", "evidence")
EVIDENCE_FLOOR = 1e-4  # not in the paper: docs/paper_notes.md


class Limits(NamedTuple):
    """What labels must satisfy to be ranked, tested while they are and not afterwards."""

    allowed: np.ndarray  # bool [N]
    min_chunks: int = 0  # with a bucket of positive weight that holds the label
    least: float = 0.0  # score


def score_weights(probabilities, score="probability", floor=EVIDENCE_FLOOR):
    """What a hit bucket adds to its labels' scores, float32, same shape.

    `probability` is the paper's sum of probabilities (§3.3). `evidence` is
    log(max(p, floor) / floor): a bucket at or under the floor adds nothing.
    """
    probabilities = np.asarray(probabilities, np.float32)
    if score == "probability":
        return probabilities
    if score == "evidence":
        floor = np.float32(floor)
        return np.log(np.maximum(probabilities, floor) / floor)
    raise ValueError(f"score {score!r} is not one of {', '.join(SCORES)}")


def top_buckets(probabilities, m):
    """The m likeliest buckets of each row (§3.3), ties to the lower bucket.

    probabilities float32 [Q, B], none negative -> buckets int32 [Q, m], values
    float32 [Q, m], by descending value.
    """
    probabilities = np.ascontiguousarray(probabilities, np.float32)
    num_queries, num_buckets = probabilities.shape
    if not 1 <= m <= num_buckets:
        raise ValueError(f"m={m} is not within 1 and the {num_buckets} buckets")
    keys = np.empty((num_queries, m), np.uint64)
    top_m.top_keys(probabilities.view(np.uint32), keys)
    buckets, values = decode_keys(keys)
    # As unsigned integers, the bits of NaN and of negative numbers exceed all others.
    if np.isnan(values[:, 0]).any() or np.signbit(values[:, 0]).any():
        raise ValueError("probabilities must be neither negative nor NaN")
    return buckets, values


def rank(buckets, weights, offsets, labels, k, limits=None):
    """The k best labels among those in the hit buckets (§3.3).

    buckets [Q, K, m], distinct within a chunk, in any order (fastest by descending
    weight); weights float32 [Q, K, m], none negative; offsets [K, B+1] and labels int32
    [K, N], the stacked inverted indexes: bucket b of chunk c holds the ascending
    labels[c, offsets[c, b]:offsets[c, b+1]].

    Returns ids int32 [Q, k] padded with -1, scores float32 [Q, k] padded with 0, and
    candidates int64 [Q], the number of distinct labels in the hit buckets, within the
    `limits`. A label whose hits all weigh 0 is a candidate with score 0.
    """
    buckets, weights = np.ascontiguousarray(buckets, np.int32), _checked(weights)
    num_chunks, num_offsets = offsets.shape
    if buckets.shape != weights.shape or not buckets.shape[1] == num_chunks == len(labels):
        raise ValueError(
            f"shapes do not fit: buckets {buckets.shape}, weights {weights.shape}, "
            f"offsets {offsets.shape}, labels {labels.shape}"
        )
    _check_range(buckets, num_offsets - 1)
    keys = _empty_keys(len(buckets), k)
    candidates = np.zeros(len(buckets), np.int64)
    limits = _checked_limits(limits, labels.shape[1])
    sizes = shortlist.PART, shortlist.SPARSE
    shortlist.rank_keys(buckets, weights, offsets, labels, limits, *sizes, keys, candidates)
    return *decode_keys(keys), candidates


def rank_full(weights, label_buckets, k, limits=None):
    """SOLAR-full (§3.3): the k best of all labels, without a shortlist.

    weights float32 [Q, K, B], none negative; label_buckets [K, N], each label's bucket in
    each chunk. Returns ids int32 [Q, k] padded with -1, scores float32 [Q, k] padded with 0,
    and candidates int64 [Q], the number of labels within the `limits`.
    """
    weights = _checked(weights)
    if weights.shape[1] != len(label_buckets):
        raise ValueError(
            f"shapes do not fit: weights {weights.shape}, label_buckets {label_buckets.shape}"
        )
    _check_range(label_buckets, weights.shape[2])
    keys = _empty_keys(len(weights), k)
    candidates = np.zeros(len(weights), np.int64)
    limits = _checked_limits(limits, label_buckets.shape[1])
    full.full_keys(weights, label_buckets, limits, full.full_block(), keys, candidates)
    return *decode_keys(keys), candidates


def warm_up(limits=None, label_buckets_type=None):
    """Load the kernels' machine code, as a first call would; full ranking's too, given a type."""
    weights = np.ones((1, 1, 1), np.float32)
    offsets, labels = np.array([[0, 1]], np.uint32), np.zeros((1, 1), np.int32)
    limits = limits and Limits(np.ones(1, bool))
    rank(np.zeros((1, 1, 1), np.int32), weights, offsets, labels, 1, limits)
    if label_buckets_type is not None:
        rank_full(weights, np.zeros((1, 1), label_buckets_type), 1, limits)


def contributions(buckets, weights, label_buckets, ids):
    """What each chunk adds to the scores of ranked labels, float32 [Q, k, K]; 0 for padding.

    Takes what the ranking took, and its `ids` [Q, k]; `buckets` is None of a full ranking.
    """
    terms = np.zeros((*ids.shape, weights.shape[1]), np.float32)
    if buckets is None:
        queries = np.arange(len(ids))[:, None]
        for chunk in range(weights.shape[1]):
            of = label_buckets[chunk, ids].astype(np.int64)
            terms[:, :, chunk] = weights[queries, chunk, of]
        terms[ids < 0] = 0
    elif terms.size:
        table = np.zeros(int(max(buckets.max(), label_buckets[:, ids].max())) + 1, np.float32)
        _fill_terms(buckets, weights, label_buckets, ids, table, terms)
    return terms


@compiled
def _fill_terms(buckets, weights, label_buckets, ids, table, terms):
    """Look the labels up in `table` [B], which holds one chunk's weights at a time."""
    for q in range(len(ids)):
        for chunk in range(buckets.shape[1]):
            hit = buckets[q, chunk]
            for j in range(len(hit)):
                table[hit[j]] = weights[q, chunk, j]
            for i in range(ids.shape[1]):
                if ids[q, i] >= 0:
                    terms[q, i, chunk] = table[label_buckets[chunk, ids[q, i]]]
            for j in range(len(hit)):
                table[hit[j]] = 0


def _checked(weights):
    """Contiguous float32 weights whose sums are ordered like their bits and cannot overflow."""
    weights = np.ascontiguousarray(weights, np.float32)
    limit = np.float32(np.finfo(np.float32).max / (weights.shape[1] + 1))
    # As unsigned integers, the bits of NaN and of negative numbers exceed all others.
    if weights.view(np.uint32).max(initial=0) > limit.view(np.uint32):
        raise ValueError(f"weights must be within 0 and {limit:.3g}, and not NaN")
    return weights


def _checked_limits(limits, num_labels):
    """Limits as the kernels take them: a plain tuple of fixed types, or None."""
    if limits is None:
        return None
    allowed = np.ascontiguousarray(limits.allowed)
    if allowed.shape != (num_labels,) or allowed.dtype != bool:
        raise ValueError(f"allowed is {allowed.dtype} {allowed.shape}, not bool ({num_labels},)")
    if np.isnan(limits.least):
        raise ValueError("the least score is NaN")
    # Scores are never negative; -0.0 would have the bits of a negative number.
    least = np.float32(limits.least if limits.least > 0 else 0)
    return allowed, np.int64(limits.min_chunks), least


def _check_range(buckets, num_buckets):
    """The kernels check no bounds: a bucket out of range would read foreign memory."""
    # As unsigned integers, negative ones exceed all others.
    if buckets.view(f"u{buckets.itemsize}").max(initial=0) >= num_buckets:
        raise ValueError(f"buckets are not all within 0 and {num_buckets - 1}")


def _empty_keys(num_queries, k):
    if k < 1:
        raise ValueError(f"k={k}: at least one label must be asked for")
    return np.zeros((num_queries, k), np.uint64)


def encode_keys(ids, scores):
    """ids int32 [Q, k], scores float32 [Q, k] -> keys uint64 [Q, k]; the padding becomes 0."""
    bits = np.ascontiguousarray(scores, np.float32).view(np.uint32).astype(np.uint64)
    return (bits << np.uint64(32)) | (~ids).view(np.uint32)


def decode_keys(keys):
    """Keys [Q, k] -> ids int32 [Q, k], scores float32 [Q, k]; see `kernels.keys`."""
    scores = (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)
    return (~keys.astype(np.uint32)).view(np.int32), scores
