"""AnnexML (Tagami, KDD 2017): a kNN graph of label vectors, kept by partition and embedding.

A multi-class partitioner learns to send rows with like labels to the same part. In a part, a
linear embedding is trained so that a row is nearer to its neighbours in label space than to
random rows. A query takes the labels of its nearest rows; the paper searches a graph of these, we
compare with all rows of the part, which is exact and cheap as parts are of bounded size.

Cost of a learner: O(labels * MOST_MEMBERS * labels of a row) for the neighbours and O(nnz *
negatives * dim) for an epoch of the embedding, linear in the rows; O(nnz * parts) for an epoch of
the partitioner, with a part for every 6000 rows: the method's own, quadratic with a small constant.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.embedding import train_embedding
from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Settings, setting
from solar_tf.baselines.neighbours import NeighbourBaseline, label_neighbours, unit_rows
from solar_tf.baselines.units import assign, train_units
from solar_tf.runtime.ragged import row_splits

MOST_MEMBERS = 200  # of a label, looked at for one row's neighbours
CROWDED = 2.0  # times the mean size is the most rows that a part may have


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
        splits = row_splits(np.bincount(parts, minlength=num_parts))
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
