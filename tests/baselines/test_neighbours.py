import numpy as np

from solar_tf.baselines.neighbours import embed, nearest_rows, unit_rows


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
