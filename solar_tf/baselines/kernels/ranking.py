"""The best of many scores, compiled. Best first; in ties the lower label wins."""

import numpy as np

from solar_tf.runtime.compiled import compiled

HALF = np.uint64(32)
LEAST = np.float32(1e-30)


@compiled
def insert(ids, scores, label, score):
    """Insert a label into a ranking ids and scores [k], filled up with -1 and -inf.

    Of equal scores the first to come stays ahead.
    """
    at = len(scores) - 1
    if not score > scores[at]:
        return
    while at > 0 and scores[at - 1] < score:
        ids[at], scores[at] = ids[at - 1], scores[at - 1]
        at -= 1
    ids[at], scores[at] = label, score


@compiled
def insert_block(products, first, ids, scores):
    """Insert products [n, c] of the labels from `first` on into rankings ids and scores [n, k]."""
    last = ids.shape[1] - 1
    for q in range(len(products)):
        own, own_ids, own_scores = products[q], ids[q], scores[q]
        for i in range(len(own)):
            if own[i] > own_scores[last]:
                insert(own_ids, own_scores, first + i, own[i])


@compiled
def best_labels(touched, scores, ids, values):
    """Fill ids and values [k] with the best of the touched labels.

    Scores [N] are not negative. A key is the score's bits above the complement of the label:
    keys order as labels rank.
    """
    count = len(touched)
    k = min(len(ids), count)
    keys = np.empty(count, np.uint64)
    for i in range(count):
        bits = np.uint64(np.float32(scores[touched[i]]).view(np.int32))
        keys[i] = (bits << HALF) | np.uint64(~np.uint32(touched[i]))
    if 0 < k < count:
        keys = np.partition(keys, count - k)
    chosen = np.sort(keys[count - k :])
    for i in range(k):
        label = np.int32(~np.uint32(chosen[k - 1 - i] & np.uint64(0xFFFFFFFF)))
        ids[i] = label
        values[i] = scores[label]


@compiled
def add_list(labels, values, weight, sums, touched, count):
    """sums [N] += weight * values of a list of labels; without values (None), the weight alone.

    The first `count` of `touched` are the labels that have a sum. Returns their new number.
    """
    for i in range(len(labels)):
        label = labels[i]
        if sums[label] == 0:
            touched[count] = label
            count += 1
        # A product that underflows to zero would make its label look untouched.
        sums[label] += max(weight if values is None else weight * values[i], LEAST)
    return count


@compiled
def rank_sums(
    start, stop, splits, names, weights, list_splits, labels, values, num_labels, ids, scores
):
    """Fill ids and scores [n, k] of queries start to stop; returns how many labels were scored.

    A query (splits, names, weights: CSR) names lists of labels (list_splits, labels, values: CSR)
    and gives each a weight. A label's score is the sum over the lists that hold it. Lists that
    are named -1 or have no positive weight are skipped.
    """
    sums = np.zeros(num_labels, np.float32)
    touched = np.empty(num_labels, np.int32)
    total = 0
    for q in range(start, stop):
        count = 0
        for at in range(splits[q], splits[q + 1]):
            name, weight = names[at], weights[at]
            if name >= 0 and weight > 0:
                first, last = list_splits[name], list_splits[name + 1]
                part = None if values is None else values[first:last]
                count = add_list(labels[first:last], part, weight, sums, touched, count)
        best_labels(touched[:count], sums, ids[q], scores[q])
        sums[touched[:count]] = 0
        total += count
    return total
