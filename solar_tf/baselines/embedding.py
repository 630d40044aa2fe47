"""AnnexML's linear embedding (Tagami, KDD 2017, Section 4.2), compiled.

Cost of an epoch: O(nnz * negatives * dim). The inner loops run over `dim` floats side by side, and
are compiled into vector instructions: nothing in them can raise (`error_model`).
"""

import numpy as np
from numba import njit

NEGLIGIBLE = 1e-4  # share of the gradient below which a negative is left alone

fast = njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


@fast
def _project(splits, columns, values, row, weights, out):
    """out [dim] = the row's embedding; returns its length."""
    out[:] = 0
    for at in range(splits[row], splits[row + 1]):
        value = values[at]
        w = weights[columns[at]]
        for d in range(len(out)):
            out[d] += value * w[d]
    total = np.float32(0)
    for d in range(len(out)):
        total += out[d] * out[d]
    length = np.sqrt(total) + np.float32(1e-9)
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
def _dot(a, b):
    total = np.float32(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


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
            cosine = _dot(own, friend)
            total = np.float32(1)
            for k in range(negatives):
                ids[k] = np.random.randint(num_rows)
                lengths[k] = _project(splits, columns, values, ids[k], weights, others[k])
                cosines[k] = _dot(own, others[k])
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
