"""Compiled loops beside the definition, or beside scikit-learn's liblinear."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.kernels.annexml import (
    assign,
    label_neighbours,
    train_embedding,
    train_units,
)
from solar_tf.baselines.kernels.logistic import fit_l1, transpose
from solar_tf.baselines.kernels.ranking import best_labels
from solar_tf.baselines.kernels.svm import train_svms
from solar_tf.baselines.neighbours import unit_rows


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.25, 0.5, 1.0, 3.0]), max_size=30), st.integers(1, 40))
def test_the_best_come_first_and_ties_go_to_the_lower_label(values, k):
    scores = np.array(values, np.float32)
    touched = np.random.default_rng(0).permutation(len(values)).astype(np.int32)
    ids, found = np.full(k, -1, np.int32), np.zeros(k, np.float32)
    best_labels(touched, scores, ids, found)
    wanted = sorted(range(len(values)), key=lambda label: (-scores[label], label))[:k]
    assert ids[: len(wanted)].tolist() == wanted and np.all(ids[len(wanted) :] == -1)
    np.testing.assert_array_equal(found[: len(wanted)], scores[wanted])


def neighbours(rows, num_labels, most_members, count):
    splits = np.cumsum([0, *map(len, rows)])
    labels = np.array([label for row in rows for label in sorted(row)], np.int32)
    return label_neighbours(splits, labels, num_labels, most_members, count, 0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(0, 6), max_size=4), min_size=1, max_size=25), st.integers(1, 5))
def test_neighbours_are_those_with_the_most_similar_labels(rows, count):
    near = neighbours(rows, 7, 1000, count)
    for i, row in enumerate(rows):
        cosines = {
            j: len(row & other) / np.sqrt(len(other))
            for j, other in enumerate(rows)
            if j != i and row & other
        }
        found = [j for j in near[i] if j >= 0]
        assert len(set(found)) == len(found) == min(count, len(cosines))
        wanted = sorted(cosines.values(), reverse=True)[:count]
        np.testing.assert_allclose([cosines[j] for j in found], wanted, rtol=1e-5)


def test_a_frequent_label_costs_no_more_than_the_bound():
    """Every row has the same label: each looks at 20 others, and finds 5 of these."""
    near = neighbours([[0]] * 5000, 1, 20, 5)
    assert near.min() >= 0
    assert np.bincount(near.ravel(), minlength=5000).max() < 100  # not the same few for all


def test_a_candidate_is_compared_by_all_its_labels():
    """Rows 0 to 9 have the same ten labels, of which most of the lists are not looked at."""
    generator = np.random.default_rng(0)
    rows = [range(10)] * 10 + [generator.choice(10, 3, False) for _ in range(400)]
    near = neighbours(rows, 10, 30, 3)
    assert np.mean(near[:10] < 10) > 0.9  # the others share three labels, and have no more


@pytest.fixture(scope="module")
def near(planted):
    """The training rows whose labels are most like each row's, [n, 10]."""
    splits, labels, _ = csr_arrays(planted.train.labels)
    return label_neighbours(splits, labels, planted.num_labels, 200, 10, 0)


def test_units_send_label_neighbours_to_the_same_part(planted, near):
    units = np.zeros((planted.num_features, 3), np.float32)
    train_units(*csr_arrays(planted.train.inputs), near, 5, 0.1, 0.1, 10, 0, units)
    parts = (planted.train.inputs @ units).argmax(axis=1)
    assert np.mean(parts[near] == parts[:, None]) > 0.8
    assert np.bincount(parts, minlength=3).min() > 30


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.floats(1.0, 3.0), st.integers(0, 99))
def test_no_part_is_crowded(rows, parts, slack, seed):
    scores = np.random.default_rng(seed).normal(size=(rows, parts)) + 3 * np.eye(parts)[0]
    sizes = np.bincount(assign(scores, slack * rows / parts), minlength=parts)
    assert sizes.max() <= np.ceil(slack * rows / parts)
    np.testing.assert_array_equal(assign(scores, rows), scores.argmax(axis=1))


def test_embeddings_keep_label_neighbours_near(planted, near):
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(planted.num_features, 16)).astype(np.float32)

    def share():
        embedded = unit_rows(planted.train.inputs @ weights)
        cosines = embedded @ embedded.T
        np.fill_diagonal(cosines, -1)
        nearest = np.argsort(-cosines, axis=1)[:, :5]
        labels = planted.train.labels.indices[::2]
        return np.mean(labels[nearest] == labels[:, None])

    before = share()
    train_embedding(*csr_arrays(planted.train.inputs), near, 10, 0.1, 10.0, 10, 0, weights)
    assert share() > max(0.95, before)


@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0])
def test_a_labels_classifier_is_the_svm_of_its_rows_and_its_negatives(planted_dense, cost):
    inputs = planted_dense.train.inputs
    own = np.flatnonzero(planted_dense.train.labels[:, [3]].toarray().ravel()).astype(np.int32)
    near = np.unique(np.concatenate([own[:5], np.arange(0, 600, 7)])).astype(np.int32)
    weights = np.zeros((1, inputs.shape[1]), np.float32)
    splits = np.array([0, len(own)]), np.array([0, len(near)])
    train_svms(0, 1, inputs, splits[0], own, splits[1], near, cost, 5000, 1e-5, 0, weights)
    negatives = np.setdiff1d(near, own)
    rows = np.concatenate([own, negatives])
    signs = np.repeat([1, -1], [len(own), len(negatives)])
    theirs = LinearSVC(C=cost, fit_intercept=False, tol=1e-8, max_iter=100_000)
    theirs.fit(inputs[rows], signs)
    np.testing.assert_allclose(weights[0], theirs.coef_[0], atol=2e-3)


@pytest.mark.parametrize("cost", [0.3, 1.0, 30.0])
def test_the_logistic_solution_is_that_of_liblinear(planted, cost):
    generator = np.random.default_rng(1)
    rows = generator.permutation(600)[:500]
    inputs, width = planted.train.inputs[rows], planted.num_features
    noisy = inputs @ generator.normal(size=width) + 0.3 * generator.normal(size=500)
    signs = np.where(noisy > 0.2, 1.0, -1.0)
    costs = cost * generator.uniform(0.5, 2, size=500)
    places, touched = np.full(width, -1, np.int32), np.empty(width, np.int32)
    used, *columns = transpose(rows, *csr_arrays(planted.train.inputs), places, touched)
    np.testing.assert_array_equal(places[touched[:used]], np.arange(used))
    weights = fit_l1(*columns, signs, costs, 1.0, 1000, 1e-6)
    full = np.zeros(width)
    full[touched[:used]] = weights[:-1]

    def objective(w, bias):
        margins = signs * (inputs @ w + bias)
        return np.abs(w).sum() + abs(bias) + (costs * np.logaddexp(0, -margins)).sum()

    theirs = LogisticRegression(solver="liblinear", l1_ratio=1, tol=1e-8, max_iter=10_000)
    theirs.fit(inputs, signs, sample_weight=costs)
    wanted = objective(theirs.coef_[0], theirs.intercept_[0])
    assert objective(full, weights[-1]) == pytest.approx(wanted, rel=1e-4)
    if cost == 0.3:
        assert np.count_nonzero(full) < len(full)  # L1 leaves some at zero
