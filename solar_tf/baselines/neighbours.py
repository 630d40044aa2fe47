"""What SLEEC and AnnexML share: parts of the rows, a linear embedding in each, near rows' labels.

A learner parts the training rows, and embeds each part by a projection of its own. A query goes
to its part, is embedded, and takes the labels of the nearest training rows there; learners add
up. The search compares with all rows of the part, which is exact and, as parts have a bounded
number of rows, O(dim) times a constant for each learner.
"""

import numpy as np
from numba import njit

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import CORES, Baseline, Parts, in_threads
from solar_tf.baselines.votes import rank_by_votes

# units [F, C]: a row belongs to the part of its largest product; part_splits [C + 1] and rows [n]
# in the order of parts; columns used in each part, column_splits [C + 1]; projections, a row [dim]
# for each of these; embeddings [n, dim] of the rows, of unit length.
LEARNER = (
    "units", "part_splits", "rows", "column_splits", "columns", "projections", "embeddings",
)  # fmt: skip

compiled = njit(nogil=True, cache=True, error_model="numpy")


class NeighbourBaseline(Baseline):
    """Subclasses define `plan(data)`: facts for `learn`, and `learn(i, data, plan)`: a learner."""

    def fit(self, data, folder):
        parts, plan = Parts(folder), self.plan(data)
        learners = parts.ensemble(
            plan["learners"],
            "learner",
            lambda i: self.learn(i, data, plan),
            plan.get("threads", CORES),
        )
        label_splits, labels, _ = csr_arrays(data.train.labels)
        self.arrays = {
            "label_splits": label_splits,
            "labels": labels,
            "num_labels": np.int64(data.num_labels),
            "neighbours": np.int64(plan["neighbours"]),
        }
        for i, learner in enumerate(learners):
            self.arrays |= {f"{name}_{i:03d}": learner[name] for name in LEARNER}

    def predict(self, inputs, k):
        model = self.arrays
        near = int(model["neighbours"])
        learners = sum(name.startswith("units_") for name in model)
        found = in_threads(
            lambda i, _: nearest_rows(inputs, [model[f"{n}_{i:03d}"] for n in LEARNER], near),
            learners,
            rows_per_task=1,
        )
        members = np.concatenate([rows for rows, _ in found], axis=1)
        weights = np.concatenate([similar for _, similar in found], axis=1)
        voters = model["label_splits"], model["labels"], model["num_labels"]
        return rank_by_votes(members, weights, *voters, k)


def nearest_rows(inputs, learner, count):
    """The nearest training rows of each query, int64 [n, count], and their cosines, above 0."""
    units, part_splits, rows, column_splits, columns, projections, embeddings = learner
    parts = np.asarray(inputs @ units).argmax(axis=1)
    found = np.full((inputs.shape[0], count), -1, np.int64)
    similar = np.zeros((inputs.shape[0], count), np.float32)
    queries = np.zeros((inputs.shape[0], projections.shape[1]), np.float32)
    embed(*csr_arrays(inputs), parts, column_splits, columns, projections, queries)
    unit_rows(queries)
    for part in np.unique(parts):
        here = np.flatnonzero(parts == part)
        members = slice(part_splits[part], part_splits[part + 1])
        scores = queries[here] @ embeddings[members].T
        _keep_best(scores, rows[members], here, found, similar)
    return found, similar


@compiled
def _keep_best(scores, rows, here, found, similar):
    """found[here] and similar[here] become the rows of the best scores [n, rows], best first."""
    count = found.shape[1]
    for q in range(len(here)):
        best, names, size = similar[here[q]], found[here[q]], 0
        for r in range(len(rows)):
            score = scores[q, r]
            if size == count and score <= best[-1]:
                continue
            size = min(size + 1, count)
            at = size - 1
            while at > 0 and best[at - 1] < score:
                best[at], names[at] = best[at - 1], names[at - 1]
                at -= 1
            best[at], names[at] = score, rows[r]


def unit_rows(matrix):
    """Scale the rows of an array to unit length, in place; zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    matrix /= np.where(lengths > 0, lengths, 1)[:, None]
    return matrix


@compiled
def embed(splits, columns, values, parts, column_splits, part_columns, projections, embedded):
    """embedded [n, dim] += the rows, projected as their parts do; other columns are skipped."""
    for row in range(len(splits) - 1):
        first, last = column_splits[parts[row]], column_splits[parts[row] + 1]
        known = part_columns[first:last]  # sorted
        for at in range(splits[row], splits[row + 1]):
            place = np.searchsorted(known, columns[at])
            if place < len(known) and known[place] == columns[at]:
                for d in range(projections.shape[1]):
                    embedded[row, d] += values[at] * projections[first + place, d]


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
        size, best = 0, np.zeros(count, np.float32)  # of near[row] so far, best first
        for k in range(found):
            other = touched[k]
            if cut:  # some lists do not tell of it
                shared[other] = 0
                for at in range(splits[other], splits[other + 1]):
                    shared[other] += mark[labels[at]] == row
            score = shared[other] / np.sqrt(np.float32(splits[other + 1] - splits[other]))
            shared[other] = 0
            if other == row or (size == count and score <= best[-1]):
                continue
            size = min(size + 1, count)
            at = size - 1
            while at > 0 and best[at - 1] < score:
                best[at], near[row, at] = best[at - 1], near[row, at - 1]
                at -= 1
            best[at], near[row, at] = score, other
    return near
