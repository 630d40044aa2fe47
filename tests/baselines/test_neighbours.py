import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.baselines.neighbours import embed, label_neighbours, nearest_rows, unit_rows


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(0, 6), max_size=4), min_size=1, max_size=25), st.integers(1, 5))
def test_neighbours_are_those_with_the_most_similar_labels(rows, count):
    splits = np.cumsum([0, *map(len, rows)])
    labels = np.array([label for row in rows for label in sorted(row)], np.int32)
    near = label_neighbours(splits, labels, 7, 1000, count, 0)
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
    rows = 5000
    splits, labels = np.arange(rows + 1), np.zeros(rows, np.int32)
    near = label_neighbours(splits, labels, 1, 20, 5, 0)
    assert near.min() >= 0
    assert np.bincount(near.ravel(), minlength=rows).max() < 100  # not the same few for all


def test_a_candidate_is_compared_by_all_its_labels():
    """Rows 0 to 9 have the same ten labels, of which most of the lists are not looked at."""
    generator = np.random.default_rng(0)
    rows = [range(10)] * 10 + [sorted(generator.choice(10, 3, False)) for _ in range(400)]
    splits = np.cumsum([0, *map(len, rows)])
    labels = np.concatenate([list(row) for row in rows]).astype(np.int32)
    near = label_neighbours(splits, labels, 10, 30, 3, 0)
    assert np.mean(near[:10] < 10) > 0.9  # the others share three labels, and have no more


def test_embedding_skips_columns_that_the_part_does_not_have():
    splits, columns = np.array([0, 2, 3]), np.array([1, 4, 4], np.int32)
    values = np.array([1, 2, 3], np.float32)
    projections = np.array([[1, 0], [0, 1], [5, 5]], np.float32)
    embedded = np.zeros((2, 2), np.float32)
    parts, column_splits = np.array([0, 1]), np.array([0, 2, 3])
    part_columns = np.array([1, 4, 2], np.int32)
    embed(splits, columns, values, parts, column_splits, part_columns, projections, embedded)
    assert embedded.tolist() == [[1, 2], [0, 0]]


def test_the_nearest_rows_are_those_of_the_querys_part(planted):
    inputs = planted.train.inputs.toarray()
    width = inputs.shape[1]
    units = np.random.default_rng(0).normal(size=(width, 2)).astype(np.float32)
    parts = (inputs @ units).argmax(axis=1)
    rows = np.argsort(parts, kind="stable")
    splits = np.array([0, np.sum(parts == 0), len(rows)])
    columns = np.tile(np.arange(width, dtype=np.int32), 2)
    learner = (
        units, splits, rows, np.array([0, width, 2 * width]), columns,
        np.tile(np.eye(width, dtype=np.float32), (2, 1)), unit_rows(inputs[rows].copy()),
    )  # fmt: skip
    found, similar = nearest_rows(planted.train.inputs[:50], learner, 5)
    cosines = inputs[:50] @ inputs.T
    cosines[parts[:50, None] != parts[None]] = -1
    np.testing.assert_allclose(
        -np.sort(-similar, axis=1), -np.sort(-cosines, axis=1)[:, :5], atol=1e-5
    )
    assert np.all(parts[found] == parts[:50, None])
