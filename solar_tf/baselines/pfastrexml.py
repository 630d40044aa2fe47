"""PfastreXML (Jain, Prabhu and Varma, KDD 2016): propensity-scored trees, re-ranked.

An ensemble of FastXML trees whose labels weigh 1 / p_l, the inverse of their propensity of
being noticed; then a generative classifier, the distance to the mean of a label's rows, raises
tail labels. Cost: T trees of O(nnz log n); a query visits T leaves and re-ranks
their labels, at most T * leaf_labels of them, whatever N and n are.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import (
    Baseline,
    Parts,
    Settings,
    in_threads,
    rank_in_threads,
    setting,
)
from solar_tf.baselines.kernels.ranking import add_list, best_labels
from solar_tf.baselines.kernels.trees import find_leaves, grow_tree
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.ragged import row_splits

NODES = ("children", "biases", "weight_splits", "weight_columns", "weight_values")
LEAVES = ("leaf_splits", "leaf_labels", "leaf_scores")
MEANS = ("mean_splits", "mean_columns", "mean_values", "mean_squares")


@dataclass(frozen=True)
class PfastreXMLSettings(Settings):
    num_trees: int = setting(50, "PfastreXML's paper", "trees of the ensemble")
    max_leaf: int = setting(10, "PfastreXML's paper", "most rows of a leaf")
    leaf_labels: int = setting(100, "PfastreXML's program", "labels kept in a leaf")
    max_depth: int = setting(
        64,
        "ours",
        "greatest depth of a tree; bounds the cost of splits that part single rows",
    )
    cost: float = setting(1.0, "PfastreXML's program", "C of the separators' log loss")
    bias: float = setting(1.0, "PfastreXML's program", "constant feature of the separators")
    passes: int = setting(20, "ours", "most Newton steps of a separator")
    tolerance: float = setting(0.01, "liblinear's", "a separator's relative violation at its end")
    alpha: float = setting(
        0.8,
        "PfastreXML's paper",
        "weight of the trees against the tail classifier, 1 is trees alone",
    )
    gamma: float = setting(30.0, "PfastreXML's paper", "sharpness of the tail classifier")


class PfastreXML(Baseline):
    title = "PfastreXML"
    Settings = PfastreXMLSettings

    def fit(self, data, folder):
        parts, s = Parts(folder), self.settings
        rows = csr_arrays(data.train.inputs)
        label_splits, labels, _ = csr_arrays(data.train.labels)
        weights = data.inverse_propensity.astype(np.float64)

        def tree(i):
            grown = grow_tree(
                *rows, data.num_features, label_splits, labels, weights, s.seed * 10_007 + i,
                s.max_leaf, s.leaf_labels, s.max_depth, s.cost, s.bias, s.passes, s.tolerance,
            )  # fmt: skip
            return dict(zip(NODES + LEAVES, grown, strict=True))

        trees = parts.ensemble(s.num_trees, "tree", tree)
        self.arrays = _join(trees) | parts.get("means", lambda: label_means(data))

    def predict(self, inputs, k):
        s, num_rows, num_trees = self.settings, inputs.shape[0], len(self.arrays["roots"])
        rows = *csr_arrays(inputs), inputs.shape[1]
        nodes, labels, means = (
            [self.arrays[name] for name in names] for names in (("roots", *NODES), LEAVES, MEANS)
        )
        leaves = np.empty((num_trees, num_rows), np.int64)
        in_threads(
            lambda first, last: find_leaves(first, last, *rows, *nodes, leaves),
            num_trees,
            max(1, num_trees // 8),
        )
        arguments = leaves, *labels, *rows, *means, s.alpha, s.gamma
        return rank_in_threads(rank_leaves, num_rows, k, *arguments)[:2]


def label_means(data):
    """The mean of every label's rows as CSR arrays, and the squares of their lengths [N]."""
    members = data.train.labels.T.tocsr()  # [N, n]
    inputs = sp.csr_matrix(data.train.inputs)
    share = sp.diags_array(1 / np.maximum(data.label_counts, 1).astype(np.float32))
    members = sp.csr_matrix(share @ members)
    means = members @ inputs
    squares = np.asarray(means.multiply(means).sum(axis=1), np.float32).ravel()
    return dict(zip(MEANS, (*csr_arrays(means), squares), strict=True))


def _join(trees):
    """All trees in one set of arrays; `roots` [T] is where each begins."""
    sizes = [len(tree["biases"]) for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    joined = {"roots": roots}
    for name in NODES + LEAVES:
        arrays = [tree[name] for tree in trees]
        if name == "children":
            arrays = [np.where(a < 0, a, a + r) for a, r in zip(arrays, roots, strict=True)]
        if name.endswith("splits"):
            joined[name] = row_splits(np.concatenate([np.diff(array) for array in arrays]))
        else:
            joined[name] = np.concatenate(arrays)
    joined["children"] = joined["children"].astype(np.int32)
    return joined


@compiled
def rank_leaves(
    start, stop, leaves, leaf_splits, leaf_labels, leaf_scores, splits, columns, values,
    num_features, mean_splits, mean_columns, mean_values, mean_squares, alpha, gamma, ids, scores,
):  # fmt: skip
    """Rank the labels of the leaves [T, n] of queries start to stop: s^alpha t^(1 - alpha).

    s is the mean of the trees' scores, t = 1 / (1 + exp(gamma |x - mean|^2)).
    """
    num_trees, num_labels = len(leaves), len(mean_squares)
    sums = np.zeros(num_labels, np.float32)
    touched = np.empty(num_labels, np.int32)
    dense = np.zeros(num_features, np.float32)
    for q in range(start, stop):
        count = 0
        for tree in range(num_trees):
            leaf = leaves[tree, q]
            part = slice(leaf_splits[leaf], leaf_splits[leaf + 1])
            count = add_list(
                leaf_labels[part], leaf_scores[part], np.float32(1), sums, touched, count
            )
        square = np.float32(0)
        for at in range(splits[q], splits[q + 1]):
            dense[columns[at]] = values[at]
            square += values[at] * values[at]
        for i in range(count):
            label = touched[i]
            product = np.float32(0)
            for at in range(mean_splits[label], mean_splits[label + 1]):
                product += dense[mean_columns[at]] * mean_values[at]
            distance = max(square + mean_squares[label] - 2 * product, 0.0)
            tail = 1 / (1 + np.exp(gamma * distance))
            sums[label] = (sums[label] / num_trees) ** alpha * tail ** (1 - alpha)
        best_labels(touched[:count], sums, ids[q], scores[q])
        sums[touched[:count]] = 0
        for at in range(splits[q], splits[q + 1]):
            dense[columns[at]] = 0
