import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.logistic import fit_l1, transpose


def by_columns(inputs, rows):
    width = inputs.shape[1]
    places, touched = np.full(width, -1, np.int32), np.empty(width, np.int32)
    used, *columns = transpose(rows, *csr_arrays(inputs), places, touched)
    return touched[:used], columns


def test_columns_hold_what_the_rows_held(planted):
    inputs, rows = planted.train.inputs, np.arange(3, 90, 4)
    touched, (starts, members, entries) = by_columns(inputs, rows)
    dense = inputs[rows].toarray()
    assert sorted(touched) == np.flatnonzero(dense.any(axis=0)).tolist()
    for place, column in enumerate(touched):
        part = slice(starts[place], starts[place + 1])
        np.testing.assert_array_equal(dense[members[part], column], entries[part])
        assert np.count_nonzero(dense[:, column]) == starts[place + 1] - starts[place]


@pytest.mark.parametrize("cost", [0.3, 1.0, 30.0])
def test_the_solution_is_that_of_liblinear(planted, cost):
    inputs = planted.train.inputs
    generator = np.random.default_rng(1)
    noisy = inputs @ generator.normal(size=inputs.shape[1]) + 0.3 * generator.normal(size=600)
    signs = np.where(noisy > 0.2, 1.0, -1.0)
    costs = cost * generator.uniform(0.5, 2, size=600)
    touched, columns = by_columns(inputs, np.arange(600))
    weights = fit_l1(*columns, signs, costs, 1.0, 1000, 1e-6)
    full = np.zeros(inputs.shape[1])
    full[touched] = weights[:-1]

    def objective(w, bias):
        margins = signs * (inputs @ w + bias)
        return np.abs(w).sum() + abs(bias) + (costs * np.logaddexp(0, -margins)).sum()

    theirs = LogisticRegression(solver="liblinear", l1_ratio=1, tol=1e-8, max_iter=10_000)
    theirs.fit(inputs, signs, sample_weight=costs)
    wanted = objective(theirs.coef_[0], theirs.intercept_[0])
    assert objective(full, weights[-1]) == pytest.approx(wanted, rel=1e-4)
    if cost == 0.3:
        assert np.count_nonzero(full) < len(full)  # L1 leaves some at zero
