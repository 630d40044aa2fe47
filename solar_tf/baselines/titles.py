"""What DSSM, GLaS and SNRM share: pairs of a query and a label, and labels titled like the query.

Every pair of a training row and one of its labels is an instance (§2 says so of all embedding
models). The pairs of a step depend only on the seed, the epoch and the step: a resumed training
goes on as an unbroken one.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Baseline, Settings, setting
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import filter_pairs
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.ragged import row_numbers, row_splits

_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64


@dataclass(frozen=True)
class PairSettings(Settings):
    epochs: int = setting(5, "Table 1", "passes over the training pairs")
    batch_size: int = setting(512, "ours", "pairs in a training step")
    learning_rate: float = setting(1e-3, "ours", "Adam's learning rate")
    decay: str = setting(
        "none", "ours", "learning rate over time: none, or linear to 0", choices=("none", "linear")
    )
    pairs: str = setting(
        "all",
        "§2",
        "pairs of an epoch: all pairs of a row and its labels, or one random label of each row",
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
        self.rows = row_numbers(self.splits)
        self._keys = self.rows << 32 | self.labels  # sorted, as labels are within their rows
        self._members = self.rows[np.argsort(self.labels, kind="stable")]
        self._member_splits = row_splits(data.label_counts)
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

    def batch(self, order, epoch, step):
        """A step's rows [b], labels [b], and random labels that are none of the row's [b, n]."""
        first, last = (len(order) * s // self.steps for s in (step, step + 1))
        pairs = order[first:last]
        generator = np.random.default_rng([self.settings.seed, epoch, step, 1])
        rows = np.repeat(self.rows[pairs], self.negatives)
        drawn = generator.integers(self.num_labels, size=len(rows))
        while len(wrong := np.flatnonzero(self.is_true(rows, drawn))):
            drawn[wrong] = generator.integers(self.num_labels, size=len(wrong))
        return self.rows[pairs], self.labels[pairs], drawn.reshape(-1, self.negatives)

    def is_true(self, rows, labels):
        """Whether each of the labels is one of the row beside it: bool, of their shape."""
        keys = rows << 32 | labels
        places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return self._keys[places] == keys

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
    places[chosen] = np.arange(len(chosen))
    for i in range(len(chosen)):
        for row in members[member_splits[chosen[i]] : member_splits[chosen[i] + 1]]:
            for other in labels[splits[row] : splits[row + 1]]:
                if places[other] >= 0:
                    counts[i, places[other]] += 1
    places[chosen] = -1


def stack_rows(*matrices):
    """The rows of all CSR matrices, one below the other: splits, columns and values."""
    stacked = sp.vstack(matrices, "csr")  # keeps repeated columns; `astype` would merge them
    return (
        stacked.indptr.astype(np.int32),
        stacked.indices.astype(np.int32),
        stacked.data.astype(np.float32),
    )


class TitleBaseline(Baseline):
    """Has `rank(inputs, k)`, the `label_keys` among its arrays, and a setting `same_title`.

    A siamese network gives equal titles a cosine of 1. Where products are both queries and labels,
    and none is its own label, each such answer is wrong, and the network cannot learn that.
    """

    def predict(self, inputs, k):
        if self.settings.same_title == "keep":
            return self.rank(inputs, k)
        keys, label_keys = title_keys(inputs), self.arrays["label_keys"]
        return without_same_titles(partial(self.rank, inputs), keys, label_keys, k)


def title_keys(inputs):
    """A number for each CSR row that rows of the same words share: uint64 [n]."""
    x = (inputs.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_ODD[0])
    for shift, factor in ((30, _ODD[1]), (27, _ODD[2])):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(x ^ (x >> np.uint64(31)))])
    return sums[inputs.indptr[1:]] - sums[inputs.indptr[:-1]]


def without_same_titles(search, keys, label_keys, k):
    """Rankings `search(k)` of queries with these keys [n], less the labels that share a key.

    Returns ids and scores, both [n, k], padded with -1 and 0.
    """
    order = np.argsort(label_keys, kind="stable")
    first, last = (np.searchsorted(label_keys, keys, side, order) for side in ("left", "right"))
    counts = last - first
    splits = row_splits(counts)
    places = np.arange(splits[-1]) + np.repeat(first - splits[:-1], counts)
    wanted = min(k + int(counts.max(initial=0)), len(label_keys))
    ids, scores = filter_pairs(*search(wanted), splits, order[places])
    missing = max(0, k - wanted)
    ids = np.pad(ids[:, :k], ((0, 0), (0, missing)), constant_values=-1)
    scores = np.pad(scores[:, :k], ((0, 0), (0, missing)))
    return ids, np.where(ids < 0, 0, scores).astype(np.float32)
