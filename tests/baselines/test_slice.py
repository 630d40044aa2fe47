import numpy as np
import pytest
from sklearn.svm import LinearSVC

from baselines.agreement import same_when_loaded, solves
from solar_tf.baselines.slice import Slice, count_near, gather_near, train_svms


@pytest.mark.parametrize("kind", ["planted", "planted_dense"])
@pytest.mark.parametrize("search", ["exact", "clusters"])
def test_planted_labels_are_found(kind, search, request, tmp_path):
    data = request.getfixturevalue(kind)
    settings = Slice.Settings(dim=40, shortlist=12, search=search)
    baseline = solves(Slice(settings), data, tmp_path / "fit")
    assert ("basis" in baseline.arrays) == (kind == "planted")
    same_when_loaded(baseline, data, tmp_path / "model")


def test_shortlists_are_turned_round():
    near = np.array([[0, 2], [2, 1], [2, -1]], np.int32)
    counts = count_near(near, 4)
    assert counts.tolist() == [1, 1, 3, 0]
    rows = gather_near(near, 1, 4, np.array([0, 1, 4, 4]))
    assert rows.tolist() == [1, 0, 1, 2]


def test_a_labels_classifier_is_the_svm_of_its_rows_and_its_negatives(planted_dense):
    """Against liblinear on the same rows."""
    inputs = planted_dense.train.inputs
    own = np.flatnonzero(planted_dense.train.labels[:, [3]].toarray().ravel()).astype(np.int32)
    near = np.unique(np.concatenate([own[:5], np.arange(0, 600, 7)])).astype(np.int32)
    weights = np.zeros((1, inputs.shape[1]), np.float32)
    splits = np.array([0, len(own)]), np.array([0, len(near)])
    train_svms(0, 1, inputs, splits[0], own, splits[1], near, 1.0, 2000, 1e-5, 0, weights)
    negatives = np.setdiff1d(near, own)
    rows = np.concatenate([own, negatives])
    signs = np.repeat([1, -1], [len(own), len(negatives)])
    theirs = LinearSVC(C=1.0, fit_intercept=False, tol=1e-8, max_iter=100_000)
    theirs.fit(inputs[rows], signs)
    np.testing.assert_allclose(weights[0], theirs.coef_[0], atol=2e-3)


def test_a_label_without_rows_is_never_predicted(planted_dense, tmp_path):
    data = planted_dense
    labels = data.train.labels.copy()
    labels.data[labels.indices == 7] = 0
    labels.eliminate_zeros()
    train = type(data.train)(data.train.inputs, labels)
    data = type(data)("less", "dense", 40, data.num_features, train, data.test, (0.55, 1.5))
    baseline = Slice(Slice.Settings(shortlist=40))
    baseline.fit(data, tmp_path)
    assert not np.any(baseline.predict(data.test.inputs, 40)[0] == 7)


def test_blocks_of_labels_give_the_same_classifiers(planted, tmp_path, monkeypatch):
    whole = Slice(Slice.Settings(dim=20, shortlist=5, iterations=200, tolerance=1e-5))
    whole.fit(planted, tmp_path / "whole")
    monkeypatch.setattr("solar_tf.baselines.slice.PAIRS_PER_BLOCK", 900)
    parts = Slice(whole.settings)
    parts.fit(planted, tmp_path / "parts")
    assert len(list((tmp_path / "parts").glob("classifiers_*.npz"))) > 3
    np.testing.assert_allclose(parts.arrays["weights"], whole.arrays["weights"], atol=5e-3)
