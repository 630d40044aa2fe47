import pickle

import numpy as np
import pytest
import scipy.sparse

from solar_tf.datasets.arrays import as_inputs, as_labels, open_arrays

from .files import assert_refused

Y = [[1, 0, 1], [], [2]]


def test_labels_come_as_lists_or_matrices():
    dense = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 5]])
    for labels in (Y, [np.array([0, 1]), (), [2]], dense, scipy.sparse.coo_matrix(dense)):
        splits, flat, count = as_labels(labels)
        assert (splits.tolist(), flat.tolist(), count) == ([0, 2, 2, 3], [0, 1, 2], 3)
    assert as_labels([3, 1])[1].tolist() == [3, 1]  # one label a row
    assert as_labels(Y, 9)[2] == 9


@pytest.mark.parametrize(
    ("labels", "number", "message"),
    [
        ([[0], [-1]], None, "Y:1: label -1 is not within"),
        ([[0], [5]], 3, "Y:1: label 5 is not within 0 and 2"),
        ([["a"]], None, "Y:0: .* are no labels"),
        ([[0.5]], None, "are no labels"),
        (np.eye(3), 4, "3 columns, where there are 4 labels"),
    ],
)
def test_bad_labels_say_where(labels, number, message):
    assert_refused(message, as_labels, labels, number)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a text", "give a list of texts"),
        ([1, "a"], "X:0: a int, not a text"),
        (np.zeros(3), r"an array of the shape \(3,\)"),
        (np.array([[np.nan]]), "NaN, Inf"),
        (np.array([[1e300]]), "beyond float32"),
        (scipy.sparse.csr_matrix([[np.inf]]), "NaN, Inf"),
    ],
)
def test_bad_inputs_say_what_is_wrong(X, message):
    assert_refused(message, as_inputs, X)


@pytest.mark.parametrize(
    "X",
    [
        ["one", "two\nlines", ""],
        scipy.sparse.csr_matrix([[0, 2.0], [0, 0], [1, 0]]),
        np.array([[0, 2.0], [0, 0], [1, 0]]),
    ],
    ids=["text", "sparse", "dense"],
)
def test_rows_arrive_in_blocks_that_other_processes_can_parse(X):
    source = open_arrays(X, Y).train
    blocks = list(source.blocks(2))
    assert [block.num_rows for block in blocks] == [2, 1]
    elsewhere = pickle.loads(pickle.dumps(source))
    assert elsewhere.inputs is None and elsewhere.kind == source.kind
    rows = elsewhere.parse(pickle.loads(pickle.dumps(blocks[1])))
    assert rows.labels.tolist() == [2]
    whole = source.read(2)
    assert whole.label_splits.tolist() == [0, 2, 2, 3]
    if source.kind == "text":
        assert whole.texts == X
    elif source.kind == "sparse":
        assert (whole.features.tolist(), whole.values.tolist()) == ([1, 0], [2, 1])
    else:
        np.testing.assert_array_equal(whole.dense, X)


def test_the_fingerprint_is_of_all_that_is_given():
    titles = ["a", "b", "c"]
    prints = [
        open_arrays(*arguments).fingerprint()["train"]["sha256"]
        for arguments in (
            (["x", "y", "z"], Y),
            (["x", "y", "w"], Y),
            (["x", "y", "z"], [[0, 1], [2], []]),
            (["x", "y", "z"], Y, titles),
            (np.eye(3), Y),
            (scipy.sparse.eye(3).tocsr(), Y),
        )
    ]
    assert len({*prints}) == len(prints)
    assert open_arrays(["x", "y", "z"], Y, titles).fingerprint()["train"]["sha256"] == prints[3]


def test_rows_must_match_and_titles_become_lines():
    assert_refused("Y: 3 rows, where X has 2", open_arrays, ["x", "y"], Y)
    assert_refused("X: no rows", open_arrays, [], [])
    assert open_arrays(["x"], [[0]], ["two\r\nlines"]).label_titles == ["two lines"]
