"""AnnexML's partitioner (Tagami, KDD 2017, Section 4.1): a logistic unit for each part, compiled.

Cost of an epoch: O(nnz * (parts + neighbours + negatives)).
"""

import numpy as np
from numba import njit

fast = njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


def assign(scores, capacity):
    """The part of each row, [n]: that of its best score, or the next that is not full.

    The paper has no bound; without one, parts that swallow most rows make the search quadratic.
    """
    scores = np.asarray(scores)
    parts = scores.argmax(axis=1)
    if scores.shape[1] == 1:
        return parts
    margin = scores.max(axis=1)
    capacity = max(1, int(np.ceil(capacity)))
    full = np.zeros(scores.shape[1], bool)
    while True:
        sizes = np.bincount(parts, minlength=len(full))
        crowded = np.flatnonzero(sizes > capacity)
        if not len(crowded):
            return parts
        full |= sizes >= capacity
        for part in crowded:
            members = np.flatnonzero(parts == part)
            out = members[np.argsort(-margin[members], kind="stable")[capacity:]]
            parts[out] = np.where(full, -np.inf, scores[out]).argmax(axis=1)


@fast
def _move_unit(splits, columns, values, row, part, target, rate, l1, sums, units):
    """One logistic step of FTRL-proximal (McMahan et al., KDD 2013): the row is (target 1) or is
    not (0) of the part.

    `sums` [F, C, 2] are its z and the root of its n, side by side because both are needed.
    """
    one, total = np.float32(1), np.float32(0)
    for at in range(splits[row], splits[row + 1]):
        total += units[columns[at], part] * values[at]
    error = one / (one + np.exp(-total)) - target
    for at in range(splits[row], splits[row + 1]):
        column = columns[at]
        slope = error * values[at]
        z, root = sums[column, part, 0], sums[column, part, 1]
        grown = np.sqrt(root * root + slope * slope)
        z += slope - (grown - root) / rate * units[column, part]
        sums[column, part, 0], sums[column, part, 1] = z, grown
        excess = abs(z) - l1
        if excess > 0:
            weight = excess * rate / (one + grown)
            units[column, part] = -weight if z > 0 else weight
        else:
            units[column, part] = 0


@fast
def train_units(splits, columns, values, near, epochs, rate, l1, negatives, seed, units):
    """Logistic units [F, C]: a row's label neighbours belong to the row's part, others do not."""
    np.random.seed(seed)
    num_rows, num_parts = len(splits) - 1, units.shape[1]
    rate, l1 = np.float32(rate), np.float32(l1)
    yes, no = np.float32(1), np.float32(0)
    sums = np.zeros((*units.shape, 2), np.float32)
    totals = np.empty(num_parts, np.float32)
    for _ in range(epochs):
        for row in np.random.permutation(num_rows):
            totals[:] = 0
            for at in range(splits[row], splits[row + 1]):
                value, unit = values[at], units[columns[at]]
                for part in range(num_parts):
                    totals[part] += unit[part] * value
            part = totals.argmax()
            if totals[part] <= 0:  # no unit claims it yet
                part = np.random.randint(num_parts)
            _move_unit(splits, columns, values, row, part, yes, rate, l1, sums, units)
            for other in near[row]:
                if other >= 0:
                    _move_unit(splits, columns, values, other, part, yes, rate, l1, sums, units)
            for _ in range(negatives):
                other = np.random.randint(num_rows)
                _move_unit(splits, columns, values, other, part, no, rate, l1, sums, units)
