"""Retrieval (§3.3): the top m buckets of each chunk, their labels, the best of them.

`reference` has the same in a few lines; here compiled kernels do it. `rank` scores the labels in
the top buckets, `rank_full` every label; with m = B the two agree bit for bit. Both add up the
weights of a label's buckets in chunk order, as float32, and rank by higher score, then lower
label.
"""

from typing import NamedTuple

import numpy as np

from solar_tf.retrieval.kernels import full, shortlist, top_m
from solar_tf.runtime.compiled import compiled

SCORES = ("probability", "evidence")
EVIDENCE_FLOOR = 1e-4  # not in the paper: docs/paper_notes.md


class LabelFilter(NamedTuple):
    """What labels must satisfy to be found; tested while they are ranked, not afterwards."""

    allowed: np.ndarray  # bool [N]
    min_chunks: int = 0  # in which a bucket of positive weight must hold the label
    threshold: float = 0.0  # the least score


def score_weights(probabilities, score="probability", floor=EVIDENCE_FLOOR):
    """What a kept bucket adds to its labels' scores, float32, same shape.

    `probability` is the paper's sum of probabilities (§3.3). `evidence` is
    log(max(p, floor) / floor): a bucket at or under the floor adds nothing.
    """
    probabilities = np.asarray(probabilities, np.float32)
    if score == "probability":
        return probabilities
    if score == "evidence":
        # In one array: temporary ones would take most of the time.
        weights = np.maximum(probabilities, np.float32(floor), out=np.empty_like(probabilities))
        weights /= np.float32(floor)
        return np.log(weights, out=weights)
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


def rank(buckets, weights, offsets, labels, k, label_filter=None):
    """The k best labels among those in the kept buckets (§3.3).

    buckets [Q, K, m], distinct within a chunk, in any order (fastest by descending
    weight); weights float32 [Q, K, m], none negative; offsets [K, B+1] and labels int32
    [K, N], the stacked inverted indexes: bucket b of chunk c holds the ascending
    labels[c, offsets[c, b]:offsets[c, b+1]].

    Returns ids int32 [Q, k] padded with -1, scores float32 [Q, k] padded with 0, and
    candidates int64 [Q], the number of distinct labels in the kept buckets that pass the filter.
    A label whose buckets all weigh 0 is a candidate with score 0.
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
    label_filter = _checked_filter(label_filter, labels.shape[1])
    sizes = shortlist.PART, shortlist.SPARSE
    shortlist.rank_keys(buckets, weights, offsets, labels, label_filter, *sizes, keys, candidates)
    return *decode_keys(keys), candidates


def rank_full(weights, label_buckets, k, label_filter=None):
    """SOLAR-full (§3.3): the k best of all labels, without a shortlist.

    weights float32 [Q, K, B], none negative; label_buckets [K, N], each label's bucket in
    each chunk. Returns ids int32 [Q, k] padded with -1, scores float32 [Q, k] padded with 0,
    and candidates int64 [Q], the number of labels that pass the filter.
    """
    weights = _checked(weights)
    if weights.shape[1] != len(label_buckets):
        raise ValueError(
            f"shapes do not fit: weights {weights.shape}, label_buckets {label_buckets.shape}"
        )
    _check_range(label_buckets, weights.shape[2])
    keys = _empty_keys(len(weights), k)
    candidates = np.zeros(len(weights), np.int64)
    label_filter = _checked_filter(label_filter, label_buckets.shape[1])
    full.full_keys(weights, label_buckets, label_filter, full.full_block(), keys, candidates)
    return *decode_keys(keys), candidates


def merge_shards(parts, ranges):
    """The rankings of ranges of the labels, each by itself -> the ranking of all, bit for bit.

    `parts` has ids [Q, k], numbered from the first label of the range, scores [Q, k] and
    candidates [Q] of each range. The best k of all labels are among the best k of each range.
    """
    if len(parts) == 1:
        return parts[0]
    keys = [
        encode_keys(np.where(ids < 0, ids, ids + np.int32(low)), scores)
        for (ids, scores, _), (low, _) in zip(parts, ranges, strict=True)
    ]
    best = np.sort(np.concatenate(keys, axis=1), axis=1)[:, ::-1][:, : keys[0].shape[1]]
    return *decode_keys(best), np.sum([candidates for *_, candidates in parts], axis=0)


def contributions(buckets, weights, label_buckets, ids):
    """What each chunk adds to the scores of ranked labels, float32 [Q, k, K]; 0 for padding.

    Takes what the ranking took, and its `ids` [Q, k]; `buckets` is None for a full ranking.
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


def _checked_filter(label_filter, num_labels):
    """A LabelFilter as the kernels take it: a plain tuple of fixed types, or None."""
    if label_filter is None:
        return None
    allowed = np.ascontiguousarray(label_filter.allowed)
    if allowed.shape != (num_labels,) or allowed.dtype != bool:
        raise ValueError(f"allowed is {allowed.dtype} {allowed.shape}, not bool ({num_labels},)")
    if np.isnan(label_filter.threshold):
        raise ValueError("the threshold is NaN")
    # Scores are never negative; -0.0 would have the bits of a negative number.
    threshold = np.float32(label_filter.threshold if label_filter.threshold > 0 else 0)
    return allowed, np.int64(label_filter.min_chunks), threshold


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
