import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.conftest import plant
from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.kernels.trees import divide, find_leaves, grow_tree, part_rows

NAMES = ("children", "biases", "w_splits", "w_columns", "w_values", "l_splits", "labels", "scores")


def grow(data, seed=0, max_leaf=10, leaf_labels=100, max_depth=64):
    label_splits, labels, _ = csr_arrays(data.train.labels)
    arrays = grow_tree(
        *csr_arrays(data.train.inputs), data.num_features, label_splits, labels,
        data.inverse_propensity.astype(np.float64), seed, max_leaf, leaf_labels, max_depth,
        1.0, 1.0, 20, 0.01,
    )  # fmt: skip
    return dict(zip(NAMES, arrays, strict=True))


def leaves_of(tree, inputs):
    leaves = np.full((2, inputs.shape[0]), -1, np.int64)
    nodes = np.zeros(2, np.int64), *(tree[name] for name in NAMES[:5])
    find_leaves(0, 2, *csr_arrays(inputs), inputs.shape[1], *nodes, leaves)
    np.testing.assert_array_equal(*leaves)  # the first leaves nothing behind for the second
    return leaves[0]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), max_leaf=st.integers(1, 60), rows=st.integers(1, 300))
def test_leaves_partition_the_rows_and_hold_their_labels(seed, max_leaf, rows):
    data = plant(rows, 5, seed=seed)
    tree = grow(data, seed, max_leaf)
    children = tree["children"]
    inner = children[:, 0] >= 0
    # Every node but the root is the child of one.
    assert sorted(children[inner].ravel()) == list(range(1, len(children)))
    leaves = leaves_of(tree, data.train.inputs)
    assert set(leaves) == set(np.flatnonzero(~inner))  # each row in one leaf, no leaf empty
    for leaf in set(leaves):
        part = slice(tree["l_splits"][leaf], tree["l_splits"][leaf + 1])
        members = data.train.labels[leaves == leaf]
        mean = np.asarray(members.mean(axis=0)).ravel() * data.inverse_propensity
        assert set(tree["labels"][part]) == set(np.flatnonzero(mean))
        np.testing.assert_allclose(tree["scores"][part], mean[tree["labels"][part]], rtol=1e-4)
        assert np.all(np.diff(tree["scores"][part]) <= 0)


def test_a_leaf_keeps_its_best_labels_only(planted):
    tree = grow(planted, max_leaf=200, leaf_labels=3)
    assert np.diff(tree["l_splits"]).max() == 3


def test_depth_is_bounded(planted):
    tree = grow(planted, max_leaf=1, max_depth=3)
    assert len(tree["children"]) <= 2**4 - 1


def test_the_same_seed_grows_the_same_tree(planted):
    first, second, other = grow(planted, 1), grow(planted, 1), grow(planted, 2)
    for name in NAMES:
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.array_equal(first["w_columns"], other["w_columns"])


def test_rows_with_the_same_labels_go_to_the_same_side(planted):
    label_splits, labels, _ = csr_arrays(planted.train.labels)
    rows = np.arange(600)
    discounts = 1 / np.log2(np.arange(2, 42))
    scratch, touched = np.zeros((2, 40)), np.empty((2, 40), np.int32)
    weights, ideals = np.ones(40), np.full(600, 1 / discounts[:2].sum())
    sides = part_rows(rows, ideals, label_splits, labels, weights, discounts, scratch, touched)
    assert not scratch.any()
    groups = labels[label_splits[:-1]] // 2
    by_group = [set(sides[groups == group]) for group in range(20)]
    assert all(len(side) == 1 for side in by_group)
    assert set().union(*by_group) == {0, 1}


@pytest.mark.parametrize("bias", [-100.0, 0.0, 100.0])
def test_dividing_keeps_every_row(planted, bias):
    splits, columns, values = csr_arrays(planted.train.inputs)
    weights = np.random.default_rng(0).normal(size=planted.num_features).astype(np.float32)
    order = np.random.default_rng(1).permutation(600)
    before = order.copy()
    bias = np.float32(bias)
    border = divide(order, 100, 500, splits, columns, values, weights, bias)
    assert sorted(order) == sorted(before)
    np.testing.assert_array_equal(order[:100], before[:100])
    margins = planted.train.inputs @ weights + bias
    assert np.all(margins[order[100:border]] <= 1e-6) and np.all(margins[order[border:500]] > -1e-6)
