"""AnnexML (Tagami, KDD 2017), compiled: label-space neighbours, partitioner, embedding.

Cost of an epoch: O(nnz * (parts + neighbours + negatives)) for the partitioner and
O(nnz * negatives * dim) for the embedding.
"""

import numpy as np

from solar_tf.baselines.kernels.ranking import insert
from solar_tf.baselines.kernels.vectors import dot, fast
from solar_tf.runtime.compiled import compiled

NEGLIGIBLE = 1e-4  # share of the gradient below which a negative is left alone


@compiled
def label_neighbours(splits, labels, num_labels, most_members, count, seed):
    """Rows whose labels are most like a row's, by cosine: int32 [n, count], padded with -1.

    Candidates come from the lists of the row's labels, at most `most_members` of each from a
    random place on, and are then compared by all their labels: O(labels of a row squared *
    most_members), however frequent a label is.
    """
    np.random.seed(seed)
    num_rows = len(splits) - 1
    starts = np.zeros(num_labels + 1, np.int64)
    for label in labels:
        starts[label + 1] += 1
    starts = np.cumsum(starts)
    members = np.empty(len(labels), np.int32)
    cursors = starts[:-1].copy()
    for row in np.random.permutation(num_rows):
        for at in range(splits[row], splits[row + 1]):
            members[cursors[labels[at]]] = row
            cursors[labels[at]] += 1
    near = np.full((num_rows, count), -1, np.int32)
    shared = np.zeros(num_rows, np.float32)
    touched = np.empty(num_rows, np.int32)
    mark = np.full(num_labels, -1, np.int32)  # the last row that had the label
    for row in range(num_rows):
        found, cut = 0, False
        for at in range(splits[row], splits[row + 1]):
            first, size = starts[labels[at]], starts[labels[at] + 1] - starts[labels[at]]
            mark[labels[at]] = row
            cut |= size > most_members
            offset = np.random.randint(size) if size > most_members else 0
            for k in range(min(size, most_members)):
                other = members[first + (offset + k) % size]
                if shared[other] == 0:
                    touched[found] = other
                    found += 1
                shared[other] += 1
        best = np.full(count, -np.inf, np.float32)
        for k in range(found):
            other = touched[k]
            if cut:  # the lists do not show all labels that the two share
                shared[other] = 0
                for at in range(splits[other], splits[other + 1]):
                    shared[other] += mark[labels[at]] == row
            score = shared[other] / np.sqrt(np.float32(splits[other + 1] - splits[other]))
            shared[other] = 0
            if other != row:
                insert(near[row], best, other, score)
    return near


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


@fast
def _project(splits, columns, values, row, weights, out):
    """out [dim] = the row's embedding; returns its length."""
    out[:] = 0
    for at in range(splits[row], splits[row + 1]):
        value, w = values[at], weights[columns[at]]
        for d in range(len(out)):  # as a call of `add_scaled` it takes 1.6 times as long
            out[d] += value * w[d]
    length = np.sqrt(dot(out, out)) + np.float32(1e-9)
    for d in range(len(out)):
        out[d] /= length
    return length


@fast
def _move_rows(splits, columns, values, row, slope, weights, squares, rate):
    """AdaGrad along x slope^T on the row's weights."""
    for at in range(splits[row], splits[row + 1]):
        value = values[at]
        w, s = weights[columns[at]], squares[columns[at]]
        for d in range(len(slope)):
            g = value * slope[d]
            s[d] += g * g
            w[d] -= rate * g / np.sqrt(s[d])


@fast
def _turn(slope, scale, towards, self, cosine, length):
    """slope += scale * the derivative of cos(self, towards) by the unscaled self."""
    for d in range(len(slope)):
        slope[d] += scale * (towards[d] - cosine * self[d]) / length


@fast
def train_embedding(splits, columns, values, near, epochs, rate, gamma, negatives, seed, weights):
    """weights [F, dim]: log(1 + sum exp(-gamma (cos+ - cos-))) over rows, a neighbour of each and
    random negatives, by AdaGrad."""
    np.random.seed(seed)
    num_rows, dim = len(splits) - 1, weights.shape[1]
    squares = np.full(weights.shape, 1e-8, np.float32)
    rate = np.float32(rate)
    own, friend = np.empty(dim, np.float32), np.empty(dim, np.float32)
    others = np.empty((negatives, dim), np.float32)
    slope, other_slope = np.empty(dim, np.float32), np.empty(dim, np.float32)
    ids, lengths = np.empty(negatives, np.int64), np.empty(negatives, np.float32)
    cosines, shares = np.empty(negatives, np.float32), np.empty(negatives, np.float32)
    for _ in range(epochs):
        for row in np.random.permutation(num_rows):
            count = 0
            while count < near.shape[1] and near[row, count] >= 0:
                count += 1
            if count == 0 or splits[row] == splits[row + 1]:
                continue
            positive = near[row, np.random.randint(count)]
            length = _project(splits, columns, values, row, weights, own)
            friend_length = _project(splits, columns, values, positive, weights, friend)
            cosine = dot(own, friend)
            total = np.float32(1)
            for k in range(negatives):
                ids[k] = np.random.randint(num_rows)
                lengths[k] = _project(splits, columns, values, ids[k], weights, others[k])
                cosines[k] = dot(own, others[k])
                shares[k] = np.exp(-gamma * (cosine - cosines[k]))
                total += shares[k]
            slope[:] = 0
            pull = np.float32(0)
            for k in range(negatives):
                share = shares[k] / total
                pull += share
                if share > NEGLIGIBLE:
                    push = np.float32(gamma * share)
                    _turn(slope, push, others[k], own, cosines[k], length)
                    other_slope[:] = 0
                    _turn(other_slope, push, own, others[k], cosines[k], lengths[k])
                    _move_rows(splits, columns, values, ids[k], other_slope, weights, squares, rate)
            if pull > NEGLIGIBLE:
                pull = np.float32(-gamma * pull)
                _turn(slope, pull, friend, own, cosine, length)
                other_slope[:] = 0
                _turn(other_slope, pull, own, friend, cosine, friend_length)
                _move_rows(splits, columns, values, positive, other_slope, weights, squares, rate)
                _move_rows(splits, columns, values, row, slope, weights, squares, rate)
