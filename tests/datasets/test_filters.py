"""filter_labels_test.txt, against a slow parser, and damaged."""

import re
import shutil

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solar_tf.datasets.dataset import read_label_filter
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import MetricSums, inverse_propensity
from solar_tf.run.files import read_arrays, write_arrays
from solar_tf.runtime.ragged import row_splits

from .files import assert_refused, edited, write

ROWS, LABELS = 7, 20


def read(folder, data):
    path = write(folder, data, "filter_labels_test.txt")
    splits, labels = read_label_filter(path, ROWS, LABELS)
    return [labels[splits[row] : splits[row + 1]].tolist() for row in range(ROWS)]


def slow_read(data):
    """The labels of each row, or None where a line is not two numbers in range."""
    rows = [set() for _ in range(ROWS)]
    data = data.removesuffix(b"\n") + b"\n"
    for line in data.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n"):
        match = re.fullmatch(rb"[ \t]*([0-9]{1,10})[ \t]+([0-9]{1,10})[ \t]*", line)
        if not match or int(match[1]) >= ROWS or int(match[2]) >= LABELS:
            return None
        rows[int(match[1])].add(int(match[2]))
    return [sorted(row) for row in rows]


pairs = st.tuples(st.integers(0, ROWS - 1), st.integers(0, LABELS - 1))
lines = st.lists(pairs, min_size=1, max_size=20).map(
    lambda found: "".join(f"{row} {label}\n" for row, label in found).encode()
)


@settings(max_examples=300, deadline=None)
@given(data=lines, edits=st.lists(st.tuples(st.integers(0), st.binary(max_size=2)), max_size=2))
@example(b"2 4\n0 1\n2 3\n2 4", [])
@example(b"0 1\r\n1 2\r\n", [])
@example(b"0 1\n\n1 2\n", [])
@example(b"0 99999999999999999999\n", [])
def test_pairs_come_back_sorted_and_damage_is_an_error(folder, data, edits):
    data = edited(data, edits)
    try:
        rows = read(folder, data)
    except UserError as error:
        assert "\n" not in str(error)
        assert slow_read(data.removeprefix(b"\xef\xbb\xbf")) is None
    else:
        assert rows == slow_read(data.removeprefix(b"\xef\xbb\xbf"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty"),
        (b"0 1\n1\n", ":2: not `row label`: write two numbers from 0 up"),
        (b"0 1\n1 2 3\n", ":2: not `row label`"),
        (b"0 1\n1 -2\n", ":2: not `row label`"),
        (b"0 1\n7 1\n", ":2: row 7, label 1 is beyond 7 rows, 20 labels: give the filter of these"),
        (b"0 20\n", ":1: row 0, label 20 is beyond"),
    ],
)
def test_bad_lines_are_reported(tmp_path, text, message):
    assert_refused(f"filter_labels_test.txt.*{message}", read, tmp_path, text)


def test_filtered_labels_count_neither_as_predictions_nor_as_truth(trained, tmp_path):
    """infer.py ranks enough labels that those after the filtered ones move up."""
    from solar_tf.retrieval.evaluation import infer

    root = tmp_path / "run"
    shutil.copytree(trained.paths.root, root)
    setting = {"top_buckets": (7,), "full": False, "scores": ("evidence",), "workers": 1}
    infer(root, top_labels=40, **setting)
    whole = read_arrays(root / "predictions.npz", "infer.py")["m=7_evidence_ids"]
    rows = read_arrays(trained.paths.rows("test", 0), "preprocess.py")
    true = np.split(rows["labels"], rows["label_splits"][1:-1])
    generator = np.random.default_rng(0)
    # The first prediction and a true label of each row, and any third; the last row has none.
    filtered = [
        {int(ids[0]), int(y[0]), int(generator.integers(40))}
        for ids, y in zip(whole, true, strict=True)
    ]
    filtered[-1] = set()
    splits = row_splits([len(labels) for labels in filtered])
    labels = np.array([label for row in filtered for label in sorted(row)], np.int32)
    write_arrays(root / "rows" / "test_filter.npz", {"splits": splits, "labels": labels})

    (found,) = infer(root, top_labels=5, **setting)
    ids = read_arrays(root / "predictions.npz", "infer.py")["m=7_evidence_ids"]
    expected = np.full((len(whole), 5), -1, np.int32)
    for i, gone in enumerate(filtered):
        left = [label for label in whole[i].tolist() if label not in gone][:5]
        expected[i, : len(left)] = left
    np.testing.assert_array_equal(ids, expected)
    sums = MetricSums(inverse_propensity(np.load(trained.paths.label_counts), 600))
    kept = [
        [x for x in y.tolist() if x not in gone] for y, gone in zip(true, filtered, strict=True)
    ]
    lengths = row_splits([len(row) for row in kept])
    sums.add(expected, lengths, np.array([label for row in kept for label in row]))
    for name, value in sums.result().items():
        assert found[name] == pytest.approx(value), name
