import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.conftest import near_rows
from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.units import assign, train_units


def test_units_send_label_neighbours_to_the_same_part(planted):
    near = near_rows(planted)
    units = np.zeros((planted.num_features, 3), np.float32)
    train_units(*csr_arrays(planted.train.inputs), near, 5, 0.1, 0.1, 10, 0, units)
    parts = (planted.train.inputs @ units).argmax(axis=1)
    assert np.mean(parts[near] == parts[:, None]) > 0.8
    assert np.bincount(parts, minlength=3).min() > 30


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.floats(1.0, 3.0), st.integers(0, 99))
def test_no_part_is_crowded(rows, parts, slack, seed):
    scores = np.random.default_rng(seed).normal(size=(rows, parts)) + 3 * np.eye(parts)[0]
    found = assign(scores, slack * rows / parts)
    sizes = np.bincount(found, minlength=parts)
    assert sizes.max() <= np.ceil(slack * rows / parts)
    roomy = assign(scores, rows)
    np.testing.assert_array_equal(roomy, scores.argmax(axis=1))
