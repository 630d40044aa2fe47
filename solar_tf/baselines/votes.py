"""Ranking labels by sums over a few lists of labels, compiled: what most baselines end with."""

import numpy as np
from numba import njit

from solar_tf.baselines.interface import in_threads

HALF = np.uint64(32)

compiled = njit(nogil=True, cache=True, error_model="numpy")


@compiled
def best_labels(touched, scores, keys, ids, values):
    """Fill ids and values [k] with the best of the touched labels; ties go to the lower id.

    Scores [N] are not negative. A key is the score's bits above the complement of the label,
    so that keys order as labels rank; `keys` is scratch.
    """
    count = len(touched)
    for i in range(count):
        bits = np.uint64(np.float32(scores[touched[i]]).view(np.int32))
        keys[i] = (bits << HALF) | np.uint64(~np.uint32(touched[i]))
    k = min(len(ids), count)
    if 0 < k < count:
        keys[:count] = np.partition(keys[:count], count - k)
    chosen = np.sort(keys[count - k : count])
    for i in range(k):
        label = np.int32(~np.uint32(chosen[k - 1 - i] & np.uint64(0xFFFFFFFF)))
        ids[i] = label
        values[i] = scores[label]


def rank_by_votes(members, weights, label_splits, labels, num_labels, k):
    """The k best labels of each query by `vote`: ids int32 [n, k], padded with -1, and scores."""
    ids = np.full((len(members), k), -1, np.int32)
    scores = np.zeros((len(members), k), np.float32)
    in_threads(
        lambda start, stop: vote(
            start, stop, members, weights, label_splits, labels, int(num_labels), ids, scores
        ),
        len(ids),
    )
    return ids, scores


@compiled
def vote(start, stop, members, weights, label_splits, labels, num_labels, ids, scores):
    """Rank labels by the summed weights of the training rows that have them.

    members int [n, j] (negative ones are skipped) and weights [n, j] are rows and their weights
    for each query; queries start to stop of ids and scores [n, k] are filled.
    """
    sums = np.zeros(num_labels, np.float32)
    touched = np.empty(num_labels, np.int32)
    keys = np.empty(num_labels, np.uint64)
    for q in range(start, stop):
        count = 0
        for j in range(members.shape[1]):
            row = members[q, j]
            if row < 0 or weights[q, j] <= 0:
                continue
            for at in range(label_splits[row], label_splits[row + 1]):
                label = labels[at]
                if sums[label] == 0:
                    touched[count] = label
                    count += 1
                sums[label] += weights[q, j]
        best_labels(touched[:count], sums, keys, ids[q], scores[q])
        for i in range(count):
            sums[touched[i]] = 0
