"""AnnexML (Tagami, KDD 2017): a kNN graph of label vectors, kept by partition and embedding.

A multi-class partitioner learns to send rows with like labels to the same part. In a part, a
linear embedding is trained so that a row is nearer to its neighbours in label space than to
random rows. A query takes the labels of its nearest rows; the paper searches a graph of these, we
compare with all rows of the part, which is exact and cheap as parts are of bounded size.

Cost of a learner: O(labels * MOST_MEMBERS) for the neighbours and O(nnz * negatives * dim) for an
epoch of the embedding, linear in the rows; O(nnz * parts) for an epoch of the partitioner, with a
part for every 6000 rows: the method's own, quadratic with a small constant.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Settings, setting
from solar_tf.baselines.neighbours import NeighbourBaseline, label_neighbours, unit_rows

MOST_MEMBERS = 200  # of a label, looked at for one row's neighbours
CROWDED = 2.0  # times the mean size is the most rows that a part may have
NEGLIGIBLE = 1e-4  # share of the gradient below which a negative is left alone

compiled = njit(nogil=True, cache=True)
fast = njit(nogil=True, cache=True, fastmath=True)


@dataclass(frozen=True)
class AnnexMLSettings(Settings):
    learners: int = setting(15, "AnnexML's paper", "of the ensemble")
    part_rows: int = setting(6000, "AnnexML's paper", "rows of a part, about")
    dim: int = setting(50, "AnnexML's paper", "of embeddings; SOLAR's authors took 800 (Table 1)")
    label_neighbours: int = setting(
        10, "AnnexML's paper", "in label space, that a row is pulled to"
    )
    negatives: int = setting(10, "AnnexML's program", "random rows that a row is pushed from")
    epochs: int = setting(10, "AnnexML's program", "of the embedding")
    learning_rate: float = setting(0.1, "AnnexML's program", "of AdaGrad")
    gamma: float = setting(10.0, "AnnexML's program", "sharpness of the ranking loss")
    part_epochs: int = setting(5, "ours", "of the partitioner")
    part_l1: float = setting(4.0, "AnnexML's program", "L1 weight of the partitioner", least=0)
    part_rate: float = setting(0.1, "ours", "step of the partitioner's FTRL")
    neighbours: int = setting(
        10, "AnnexML's paper", "nearest rows of a query that each learner takes"
    )


class AnnexML(NeighbourBaseline):
    title = "AnnexML"
    Settings = AnnexMLSettings

    def plan(self, data):
        s = self.settings
        parts, near = max(1, round(len(data.train) / s.part_rows)), None
        if parts > 1:
            label_splits, labels, _ = csr_arrays(data.train.labels)
            near = label_neighbours(
                label_splits, labels, data.num_labels, MOST_MEMBERS, s.label_neighbours, s.seed
            )
        return {
            "learners": s.learners, "neighbours": s.neighbours, "near": near, "parts": parts,
        }  # fmt: skip

    def learn(self, i, data, plan):
        s = self.settings
        seed = s.seed * 10_007 + i
        inputs = sp.csr_matrix(data.train.inputs)
        num_parts, rows = plan["parts"], csr_arrays(inputs)
        units = np.zeros((data.num_features, num_parts), np.float32)
        if num_parts > 1:
            train_units(
                *rows, plan["near"], s.part_epochs, s.part_rate, s.part_l1, s.negatives, seed, units
            )
        parts = assign(inputs @ units, CROWDED * len(data.train) / num_parts)
        order = np.argsort(parts, kind="stable")
        splits = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=num_parts))])
        columns, weights, embeddings = [], [], []
        for part in range(num_parts):
            members = order[splits[part] : splits[part + 1]]
            used, projection, embedded = self._part(
                inputs[members], data.train.labels[members], seed * 1009 + part
            )
            columns.append(used)
            weights.append(projection)
            embeddings.append(embedded)
        return {
            "units": units,
            "part_splits": splits,
            "rows": order,
            "column_splits": np.cumsum([0, *map(len, columns)]),
            "columns": np.concatenate(columns),
            "projections": np.concatenate(weights),
            "embeddings": np.concatenate(embeddings),
        }

    def _part(self, inputs, labels, seed):
        """Columns that the rows use, their projections, and the rows' embeddings by these."""
        s = self.settings
        label_splits, label_ids, _ = csr_arrays(labels)
        near = label_neighbours(
            label_splits, label_ids, labels.shape[1], MOST_MEMBERS, s.label_neighbours, seed
        )
        used, places = np.unique(inputs.indices, return_inverse=True)
        inputs = sp.csr_matrix((inputs.data, places, inputs.indptr), (len(near), len(used)))
        generator = np.random.default_rng(seed)
        weights = generator.uniform(-1, 1, (len(used), s.dim)).astype(np.float32) / s.dim
        train_embedding(
            *csr_arrays(inputs),
            near,
            s.epochs,
            s.learning_rate,
            s.gamma,
            s.negatives,
            seed,
            weights,
        )
        return used.astype(np.int32), weights, unit_rows(np.asarray(inputs @ weights, np.float32))


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


@compiled
def _unit_weight(z, n, rate, l1):
    """A weight of FTRL-proximal (McMahan et al., KDD 2013) from its two sums."""
    if abs(z) <= l1:
        return np.float32(0)
    return np.float32(-(z - np.sign(z) * l1) * rate / (1 + np.sqrt(n)))


@compiled
def _move_unit(splits, columns, values, row, part, target, rate, l1, z, n, units):
    """One logistic step: the row is (target 1) or is not (0) of the part."""
    total = np.float32(0)
    for at in range(splits[row], splits[row + 1]):
        total += units[columns[at], part] * values[at]
    error = 1 / (1 + np.exp(-total)) - target
    for at in range(splits[row], splits[row + 1]):
        column = columns[at]
        slope = error * values[at]
        grown = n[column, part] + slope * slope
        sigma = (np.sqrt(grown) - np.sqrt(n[column, part])) / rate
        z[column, part] += slope - sigma * units[column, part]
        n[column, part] = grown
        units[column, part] = _unit_weight(z[column, part], grown, rate, l1)


@compiled
def train_units(splits, columns, values, near, epochs, rate, l1, negatives, seed, units):
    """Logistic units [F, C]: a row's label neighbours belong to the row's part, others do not."""
    np.random.seed(seed)
    num_rows, num_parts = len(splits) - 1, units.shape[1]
    z = np.zeros(units.shape, np.float32)
    n = np.zeros(units.shape, np.float32)
    totals = np.empty(num_parts, np.float32)
    for _ in range(epochs):
        for row in np.random.permutation(num_rows):
            totals[:] = 0
            for at in range(splits[row], splits[row + 1]):
                for part in range(num_parts):
                    totals[part] += units[columns[at], part] * values[at]
            part = totals.argmax()
            if totals[part] <= 0:  # no unit claims it yet
                part = np.random.randint(num_parts)
            _move_unit(splits, columns, values, row, part, 1.0, rate, l1, z, n, units)
            for other in near[row]:
                if other >= 0:
                    _move_unit(splits, columns, values, other, part, 1.0, rate, l1, z, n, units)
            for _ in range(negatives):
                other = np.random.randint(num_rows)
                _move_unit(splits, columns, values, other, part, 0.0, rate, l1, z, n, units)


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


@compiled
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
