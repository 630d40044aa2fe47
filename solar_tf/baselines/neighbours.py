"""What SLEEC and AnnexML share: parts of the rows, an embedding in each, votes of near rows.

A learner splits the training rows into parts, and embeds each part by a projection of its own. A
query goes to its part, is embedded, and takes the labels of the nearest training rows there; the
votes of all learners add up. The search compares with all rows of the part, which is exact and,
as parts have a bounded number of rows, O(dim) times a constant for each learner.
"""

import itertools

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Baseline, Parts, empty_ranking, in_threads
from solar_tf.baselines.kernels.ranking import insert_block
from solar_tf.baselines.sparse_search import rank_by_votes
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.ragged import row_splits

# units [F, C]: a row belongs to the part of its largest product.
# part_splits [C + 1], rows [n]: the training rows of each part.
# column_splits [C + 1], columns: the features that occur in each part, ascending.
# projections: a row [dim] for each of these columns.
# embeddings [n, dim]: of `rows`, of unit length.
LEARNER = (
    "units", "part_splits", "rows", "column_splits", "columns", "projections", "embeddings",
)  # fmt: skip


class NeighbourBaseline(Baseline):
    """Subclasses define `plan(data)`: facts for `learn`, and `learn(i, data, plan)`: a learner."""

    def fit(self, data, folder):
        parts, plan = Parts(folder), self.plan(data)
        learners = parts.ensemble(plan["learners"], "learner", lambda i: self.learn(i, data, plan))
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
        members, weights = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
        voters = model["label_splits"], model["labels"], model["num_labels"]
        return rank_by_votes(members, weights, *voters, k)


def learn_parts(inputs, units, splits, rows, project):
    """The arrays of a learner whose parts are rows[splits[c]:splits[c + 1]] of CSR inputs [n, F].

    `project(part, members, inputs)` returns a part's projections [columns, dim]; its inputs have
    only the columns that its members use.
    """
    columns, projections, embeddings = [], [], []
    for part, (first, last) in enumerate(itertools.pairwise(splits)):
        own = inputs[rows[first:last]]
        used, places = np.unique(own.indices, return_inverse=True)
        own = sp.csr_matrix((own.data, places, own.indptr), (last - first, len(used)))
        weights = project(part, rows[first:last], own)
        columns.append(used.astype(np.int32))
        projections.append(weights.astype(np.float32))
        embeddings.append(unit_rows(np.asarray(own @ weights, np.float32)))
    return {
        "units": units,
        "part_splits": splits,
        "rows": rows,
        "column_splits": row_splits([*map(len, columns)]),
        "columns": np.concatenate(columns),
        "projections": np.concatenate(projections),
        "embeddings": np.concatenate(embeddings),
    }


def nearest_rows(inputs, learner, count):
    """The nearest training rows of each query, int32 [n, count], and their cosines."""
    units, part_splits, rows, column_splits, columns, projections, embeddings = learner
    parts = np.asarray(inputs @ units).argmax(axis=1)
    queries = np.zeros((inputs.shape[0], projections.shape[1]), np.float32)
    embed(*csr_arrays(inputs), parts, column_splits, columns, projections, queries)
    unit_rows(queries)
    found, similar = empty_ranking(len(queries), count)
    for part in np.unique(parts):
        here = np.flatnonzero(parts == part)
        members = slice(part_splits[part], part_splits[part + 1])
        places, cosines = empty_ranking(len(here), count, -np.inf)
        insert_block(queries[here] @ embeddings[members].T, 0, places, cosines)
        known = places >= 0
        places[known] = rows[members][places[known]]
        found[here], similar[here] = places, np.where(known, cosines, 0)
    return found, similar


def unit_rows(matrix):
    """Scale the rows of an array to unit length, in place; zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    matrix /= np.where(lengths > 0, lengths, 1)[:, None]
    return matrix


@compiled
def embed(splits, columns, values, parts, column_splits, part_columns, projections, embedded):
    """embedded [n, dim] += the rows, projected as their parts do; other columns are skipped.

    As a product of scipy, a single query would cost O(F) for picking the part's columns.
    """
    for row in range(len(splits) - 1):
        first, last = column_splits[parts[row]], column_splits[parts[row] + 1]
        known = part_columns[first:last]  # sorted
        for at in range(splits[row], splits[row + 1]):
            place = np.searchsorted(known, columns[at])
            if place < len(known) and known[place] == columns[at]:
                for d in range(projections.shape[1]):
                    embedded[row, d] += values[at] * projections[first + place, d]
