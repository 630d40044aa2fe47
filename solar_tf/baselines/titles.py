"""Pairs of a query and a label for models of titles: batches, random labels, co-occurrence.

Every pair of a training row and one of its labels is an instance (§2 says so of all embedding
models). Which pairs a step sees depends on nothing but the seed, the epoch and the step, so that
a resumed training goes on as an unbroken one.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Settings, setting
from solar_tf.errors import UserError
from solar_tf.runtime.ragged import row_splits

compiled = njit(nogil=True, cache=True)


@dataclass(frozen=True)
class PairSettings(Settings):
    """What all models that learn from pairs of titles can be told."""

    epochs: int = setting(5, "Table 1", "over the training pairs")
    batch_size: int = setting(512, "ours", "pairs of a step")
    learning_rate: float = setting(1e-3, "ours", "of Adam")
    decay: str = setting(
        "none", "ours", "of the learning rate over training", choices=("none", "linear")
    )
    pairs: str = setting(
        "all",
        "§2",
        "of an epoch: all pairs of a row and its labels, or one random label of each row",
        choices=("all", "one"),
    )
    same_title: str = setting(
        "keep",
        "ours",
        "labels with exactly the words of the query: keep, or drop where none is its own label",
        choices=("keep", "drop"),
    )


class Pairs:
    """The pairs of inputs.Data, in batches."""

    def __init__(self, data, settings, negatives=1):
        if data.label_inputs is None:
            raise UserError(
                f"{data.name}: this baseline learns from the titles of labels, and there are none: "
                "give preprocess.py --labels, or choose another baseline"
            )
        self.settings, self.negatives, self.num_labels = settings, negatives, data.num_labels
        self.splits, self.labels, _ = csr_arrays(data.train.labels)
        counts = np.diff(self.splits)
        if counts.max(initial=0) >= data.num_labels:
            raise UserError(f"{data.name}: a row has all labels: none is left to tell it from")
        self.rows = np.repeat(np.arange(len(counts)), counts)
        self._keys = self.rows << 32 | self.labels  # sorted, as labels are within their rows
        by_label = np.argsort(self.labels, kind="stable")
        label_counts = np.bincount(self.labels, minlength=data.num_labels)
        self._member_splits = row_splits(label_counts)
        self._members = self.rows[by_label]
        self._places = np.full(data.num_labels, -1, np.int32)  # scratch of `_co_occurrence`
        per_epoch = len(self.rows) if settings.pairs == "all" else np.count_nonzero(counts)
        self.steps = max(1, round(per_epoch / settings.batch_size))  # of an epoch

    def order(self, epoch):
        """The pairs of an epoch, by their places in `rows` and `labels`, in random order."""
        generator = np.random.default_rng([self.settings.seed, epoch])
        if self.settings.pairs == "all":
            return generator.permutation(len(self.rows))
        counts = np.diff(self.splits)
        rows = generator.permutation(np.flatnonzero(counts))
        return self.splits[rows] + generator.integers(counts[rows])

    def draw(self, pairs, epoch, step):
        """Random labels that are none of the row's: int64 [b, negatives]."""
        generator = np.random.default_rng([self.settings.seed, epoch, step, 1])
        rows = np.repeat(self.rows[pairs], self.negatives)
        drawn = generator.integers(self.num_labels, size=len(rows))
        while len(wrong := np.flatnonzero(self.is_true(rows, drawn))):
            drawn[wrong] = generator.integers(self.num_labels, size=len(wrong))
        return drawn.reshape(-1, self.negatives)

    def is_true(self, rows, labels):
        """Whether each of the labels is one of the row beside it: bool, of their shape."""
        keys = rows << 32 | labels
        places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return self._keys[places] == keys

    def batch(self, order, epoch, step):
        """Step `step` of an epoch of this order: rows [b], labels [b], random labels [b, n]."""
        first, last = (len(order) * s // self.steps for s in (step, step + 1))
        pairs = order[first:last]
        return self.rows[pairs], self.labels[pairs], self.draw(pairs, epoch, step)

    def co_occurrence(self, labels):
        """(C Z^-1 + Z^-1 C) / 2 of GLaS among these labels [b]: float32 [b, b].

        C counts the training rows that have both labels, Z is its diagonal. Only the rows of these
        labels are read, and only the labels' own square is ever made.
        """
        unique, places = np.unique(labels, return_inverse=True)
        counts = np.zeros((len(unique), len(unique)), np.float32)
        _co_occurrence(
            unique, self._member_splits, self._members, self.splits, self.labels, self._places,
            counts,
        )  # fmt: skip
        inverse = 1 / counts.diagonal()
        target = (counts * inverse + counts * inverse[:, None]) / 2
        return target[np.ix_(places, places)]


@compiled
def _co_occurrence(chosen, member_splits, members, splits, labels, places, counts):
    """counts [c, c] += the rows that have both of two of the chosen labels; `places` stays -1."""
    for i in range(len(chosen)):
        places[chosen[i]] = i
    for i in range(len(chosen)):
        for at in range(member_splits[chosen[i]], member_splits[chosen[i] + 1]):
            row = members[at]
            for other in labels[splits[row] : splits[row + 1]]:
                if places[other] >= 0:
                    counts[i, places[other]] += 1
    for label in chosen:
        places[label] = -1


def stack_rows(*parts):
    """Some rows of some CSR matrices, [(matrix, rows), ...]: splits, columns and values as one."""
    chosen = [matrix[rows] for matrix, rows in parts]
    counts = np.concatenate([np.diff(matrix.indptr) for matrix in chosen])
    return (
        row_splits(counts).astype(np.int32),
        np.concatenate([matrix.indices for matrix in chosen]).astype(np.int32),
        np.concatenate([matrix.data for matrix in chosen]).astype(np.float32),
    )
