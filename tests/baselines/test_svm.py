import numpy as np
import pytest
from sklearn.svm import LinearSVC

from solar_tf.baselines.svm import train_svms


@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0])
def test_a_labels_classifier_is_the_svm_of_its_rows_and_its_negatives(planted_dense, cost):
    """Against liblinear on the same rows."""
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
