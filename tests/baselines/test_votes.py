import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.baselines.votes import best_labels, vote


@given(
    st.lists(st.sampled_from([0.25, 0.5, 1.0, 3.0]), min_size=0, max_size=30), st.integers(1, 40)
)
def test_the_best_come_first_and_ties_go_to_the_lower_label(values, k):
    scores = np.array(values, np.float32)
    touched = np.random.default_rng(0).permutation(len(values)).astype(np.int32)
    ids, found = np.full(k, -1, np.int32), np.zeros(k, np.float32)
    best_labels(touched, scores, np.empty(len(values), np.uint64), ids, found)
    wanted = sorted(range(len(values)), key=lambda label: (-scores[label], label))[:k]
    assert ids[: len(wanted)].tolist() == wanted and np.all(ids[len(wanted) :] == -1)
    np.testing.assert_array_equal(found[: len(wanted)], scores[wanted])


def test_votes_are_sums_over_the_rows_labels():
    splits, labels = np.array([0, 2, 3, 3]), np.array([0, 4, 4], np.int32)  # rows 0 to 2
    members = np.array([[0, 1, -1], [2, -1, -1]])
    weights = np.array([[0.5, 0.25, 9], [1, 1, 1]], np.float32)
    ids, scores = np.full((2, 3), -1, np.int32), np.zeros((2, 3), np.float32)
    vote(0, 2, members, weights, splits, labels, 5, ids, scores)
    assert ids.tolist() == [[4, 0, -1], [-1, -1, -1]]
    assert scores.tolist() == [[0.75, 0.5, 0], [0, 0, 0]]
