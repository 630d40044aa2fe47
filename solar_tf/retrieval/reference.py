"""Retrieval (§3.3) in a few lines of numpy: start to read here.

Every chunk's network gives a query a probability for each of the chunk's B buckets. The query
keeps the m likeliest buckets of each chunk. The inverted indexes say which labels are in them. A
label's score is the sum over the chunks of what its buckets weigh, and the best k labels are the
answer. With all buckets kept, every label is scored: SOLAR-full.

The compiled kernels of `ranking` find the same labels with the same scores, to the last bit: the
tests compare them with `rank_simple`.
"""

import numpy as np

from solar_tf.retrieval.ranking import EVIDENCE_FLOOR, score_weights


def top_buckets_simple(probabilities, m=None):
    """The m likeliest of a chunk's buckets [B], best first, ties to the lower bucket; None: all."""
    return np.argsort(-probabilities, kind="stable")[:m]


def rank_simple(
    probabilities,
    offsets,
    labels,
    k,
    m=None,
    score="probability",
    floor=EVIDENCE_FLOOR,
    label_filter=None,
):
    """The k best labels of one query, their scores, and the number of candidates (§3.3).

    probabilities [K, B]; offsets [K, B + 1] and labels [K, N] are the inverted indexes: bucket b
    of chunk c holds labels[c, offsets[c, b]:offsets[c, b + 1]].
    """
    num_labels = labels.shape[1]
    scores = np.zeros(num_labels, np.float32)
    found_in = np.zeros(num_labels, int)  # chunks with a kept bucket that holds the label
    counted_in = np.zeros(num_labels, int)  # those whose bucket weighs something
    for row, starts, members in zip(probabilities, offsets, labels, strict=True):
        weights = score_weights(row, score, floor)
        for bucket in top_buckets_simple(row, m):
            held = members[starts[bucket] : starts[bucket + 1]]
            scores[held] += weights[bucket]
            found_in[held] += 1
            counted_in[held] += weights[bucket] > 0
    candidate = found_in > 0
    if label_filter is not None:
        candidate &= label_filter.allowed & (counted_in >= label_filter.min_chunks)
        candidate &= scores >= np.float32(label_filter.threshold)
    candidates = np.flatnonzero(candidate)
    best = candidates[np.argsort(-scores[candidates], kind="stable")][:k]  # ties: the lower label
    return best, scores[best], len(candidates)
