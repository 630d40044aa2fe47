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

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Settings, setting
from solar_tf.baselines.kernels.annexml import (
    assign,
    label_neighbours,
    train_embedding,
    train_units,
)
from solar_tf.baselines.neighbours import NeighbourBaseline, learn_parts
from solar_tf.runtime.ragged import row_splits

MOST_MEMBERS = 200  # of a label, looked at for one row's neighbours
CROWDED = 2.0  # times the mean size is the most rows that a part may have


@dataclass(frozen=True)
class AnnexMLSettings(Settings):
    learners: int = setting(15, "AnnexML's paper", "learners in the ensemble")
    part_rows: int = setting(6000, "AnnexML's paper", "rows of a part, approximately")
    dim: int = setting(
        50, "AnnexML's paper", "embedding dimension; SOLAR's authors took 800 (Table 1)"
    )
    label_neighbours: int = setting(
        10, "AnnexML's paper", "neighbours in label space that a row is pulled to"
    )
    negatives: int = setting(10, "AnnexML's program", "random rows that a row is pushed away from")
    epochs: int = setting(10, "AnnexML's program", "epochs of the embedding")
    learning_rate: float = setting(0.1, "AnnexML's program", "AdaGrad's learning rate")
    gamma: float = setting(10.0, "AnnexML's program", "sharpness of the ranking loss")
    part_epochs: int = setting(5, "ours", "epochs of the partitioner")
    part_l1: float = setting(4.0, "AnnexML's program", "L1 weight of the partitioner", least=0)
    part_rate: float = setting(0.1, "ours", "step size of the partitioner's FTRL")
    neighbours: int = setting(
        10, "AnnexML's paper", "nearest rows that each learner takes for a query"
    )


class AnnexML(NeighbourBaseline):
    title = "AnnexML"
    Settings = AnnexMLSettings

    def plan(self, data):
        s = self.settings
        parts = max(1, round(len(data.train) / s.part_rows))
        near = self._near(data.train.labels, s.seed) if parts > 1 else None
        return {"learners": s.learners, "neighbours": s.neighbours, "parts": parts, "near": near}

    def learn(self, i, data, plan):
        s, num_parts = self.settings, plan["parts"]
        seed = s.seed * 10_007 + i
        inputs = sp.csr_matrix(data.train.inputs)
        units = np.zeros((data.num_features, num_parts), np.float32)
        if num_parts > 1:
            train_units(
                *csr_arrays(inputs), plan["near"], s.part_epochs, s.part_rate, s.part_l1,
                s.negatives, seed, units,
            )  # fmt: skip
        parts = assign(inputs @ units, CROWDED * len(data.train) / num_parts)
        splits = row_splits(np.bincount(parts, minlength=num_parts))

        def project(part, members, inputs):
            own_seed = seed * 1009 + part
            near = self._near(data.train.labels[members], own_seed)
            generator = np.random.default_rng(own_seed)
            start = generator.uniform(-1, 1, (inputs.shape[1], s.dim))
            weights = start.astype(np.float32) / s.dim
            train_embedding(
                *csr_arrays(inputs), near, s.epochs, s.learning_rate, s.gamma, s.negatives,
                own_seed, weights,
            )  # fmt: skip
            return weights

        return learn_parts(inputs, units, splits, np.argsort(parts, kind="stable"), project)

    def _near(self, labels, seed):
        """The label-space neighbours of rows with these labels, int32 [n, label_neighbours]."""
        splits, ids, _ = csr_arrays(labels)
        count = self.settings.label_neighbours
        return label_neighbours(splits, ids, labels.shape[1], MOST_MEMBERS, count, seed)
