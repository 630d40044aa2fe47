"""XML-Repo text, svmlight and dense text, against a slow parser in Python."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solar_tf.datasets import open_source
from solar_tf.errors import UserError

from .files import assert_refused, edited, label_lists, read, write

NUMBER = rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"


def float32(token):
    with np.errstate(over="ignore"):
        return np.float32(float(token))


def slow_parse(data):
    """[(labels, {feature: value})] of XML-Repo text, or None where it is not valid."""
    data = data if data.endswith(b"\n") else data + b"\n"
    head, *lines = data.replace(b"\r\n", b"\n").split(b"\n")
    if not re.fullmatch(rb"\s*[0-9]+\s+[0-9]+\s+[0-9]+\s*", head):
        return None
    if lines and not lines[-1]:
        lines.pop()
    num_rows, num_features, num_labels = map(int, head.split())
    if len(lines) < num_rows or any(map(bytes.strip, lines[num_rows:])):
        return None
    rows = []
    for line in lines[:num_rows]:
        tokens = re.split(rb"[ \t]+", line)
        labels = []
        if b":" not in tokens[0]:
            first = tokens.pop(0)
            if not re.fullmatch(rb"([0-9]+(,[0-9]+)*)?", first):
                return None
            labels = [int(label) for label in first.split(b",") if label]
        features = {}
        for token in filter(None, tokens):
            index, _, value = token.partition(b":")
            if not re.fullmatch(rb"[0-9]+", index) or not re.fullmatch(NUMBER, value):
                return None
            features.setdefault(int(index), []).append(float32(value))
        if max(labels, default=0) >= num_labels or max(features, default=0) >= num_features:
            return None
        sums = {i: float32(np.sum(v, dtype=np.float64)) for i, v in sorted(features.items())}
        if not all(map(np.isfinite, sums.values())):
            return None
        rows.append((sorted(set(labels)), sums))
    return rows


def as_lists(rows):
    """Parsed Rows in the form of `slow_parse`."""
    spans = zip(rows.feature_splits, rows.feature_splits[1:], strict=False)
    features = [
        dict(zip(rows.features[start:end].tolist(), rows.values[start:end], strict=True))
        for start, end in spans
    ]
    return list(zip(label_lists(rows), features, strict=True))


@st.composite
def xml_repo(draw):
    """The bytes of a valid file."""
    numbers = st.one_of(
        st.floats(-1e30, 1e30, allow_nan=False).map(repr),
        st.floats(-1, 1, width=32).map(lambda x: f"{x:.6f}"),
        st.integers(-(10**25), 10**25).map(str),
        st.from_regex(r"[-+]?[0-9]{0,25}\.[0-9]{1,25}([eE][-+]?[0-9])?", fullmatch=True),
    )
    features = st.tuples(st.integers(0, 49), numbers).map(lambda x: f"{x[0]}:{x[1]}")
    labels = st.lists(st.integers(0, 19).map(str), max_size=4).map(",".join)
    line = st.tuples(labels, st.lists(features, max_size=6)).map(lambda x: " ".join([x[0], *x[1]]))
    lines = draw(st.lists(line, min_size=1, max_size=12))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    last = end if not lines[-1] else draw(st.sampled_from(["", end]))
    return (end.join([f"{len(lines)} 50 20", *lines]) + last).encode()


@settings(deadline=None)
@given(data=xml_repo(), size=st.integers(1, 9))
def test_xml_repo_equals_the_slow_parser(folder, data, size):
    source = open_source(write(folder, data), "xmlrepo")
    rows = source.read(size)
    expected = slow_parse(data)
    assert as_lists(rows) == expected
    assert (source.num_rows, source.num_features, source.num_labels) == (len(expected), 50, 20)
    assert rows.num_unlabelled == sum(not labels for labels, _ in expected)
    assert rows.labels.dtype == rows.features.dtype == np.int32
    assert rows.values.dtype == np.float32
    assert rows.label_splits.dtype == rows.feature_splits.dtype == np.int64


@settings(max_examples=400, deadline=None)
@given(
    data=xml_repo(), edits=st.lists(st.tuples(st.integers(0), st.binary(max_size=2)), max_size=3)
)
@example(b"1 50 20\n1 2:1e39\n", [])
@example(b"1 50 20\n1 2:3\r", [])
@example(b"2 50 20\n1 2:3\r4:1\n1 2:3\n\n", [])
@example(b"1 50 20\n1 2:3e38 2:3e38\n", [])
@example(b"1 50 20\n1 2:" + b"1" * 60 + b"\n", [])
def test_a_damaged_file_is_an_error_or_a_correct_parse(folder, data, edits):
    data = edited(data, edits)
    try:
        rows = as_lists(read(write(folder, data), "xmlrepo", rows_per_block=3))
    except UserError as error:
        assert "\n" not in str(error)
        # Stricter than the oracle only in what a header may say and how long a number may be.
        assert slow_parse(data) is None or re.match(rb"\s*0+\s|\S+\s+0+\s|\S+\s+\S+\s+0+\s", data)
    else:
        assert rows == slow_parse(data)


SHORT = NUMBER.decode().replace("]+", "]{1,30}").replace("]*", "]{0,30}")
numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: repr(float(x))),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(SHORT, fullmatch=True),
)


def midpoint(x):
    """The exact decimal half way between a float32 and the next, where rounding is hardest."""
    after = np.nextafter(np.float32(x), np.float32(np.inf))
    return f"{(float(x) + float(after)) / 2:.60f}"


@settings(max_examples=300, deadline=None)
@given(tokens=st.lists(st.one_of(numbers, st.floats(0, 1e6, width=32).map(midpoint)), max_size=50))
@example(["16777217", "16777219", "1e-45", "7e-46", "1e-46", "3.4028235e38", "0.1e-400", "-0"])
@example(["0" * 500 + "1." + "3" * 400, "1" + "0" * 30 + "e-30", "." + "0" * 50 + "1e51"])
@example(["9007199254740993", "123456789012345678901234567890", "1e00000000000000000000000005"])
def test_values_are_rounded_as_python_does(folder, tokens):
    tokens = [token for token in tokens if np.isfinite(float32(token))]
    pairs = " ".join(f"{i}:{token}" for i, token in enumerate(tokens))
    values = read(write(folder, f"1 99 9\n {pairs}\n")).values
    expected = np.array([float32(token) for token in tokens], np.float32)
    assert values.tobytes() == expected.tobytes()  # the sign of zero, too


GOOD = "2 50 20\n1 2:3\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a b c\n", ":1: the header 'a b c' is not 3 numbers: start the file with a line `rows"),
        ("2 5\n", ":1: the header '2 5' is not 3 numbers"),
        ("-2 5 5\n", ":1: the header '-2 5 5' is not 3 numbers"),
        ("0 5 5\n", ":1: the header's 0 rows are not from 1 to 2147483647"),
        ("2 5 99999999999\n", ":1: the header's 99999999999 labels are not from 1 to"),
        ("2 50 20\n1 2:3\n", ":1: the header says 2 rows, the file has 1"),
        ("1 50 20\n1 2:3\n1 2:3\n", ":3: more rows than the header's 1"),
        (GOOD + "1 99:1\n", ":3: feature index 99 is not below the header's 50 features"),
        (GOOD + "20 1:1\n", ":3: label 20 is not below the header's 20 labels"),
        (GOOD + "99999999999999999999 1:1\n", ":3: label 99999999999999999999 is not"),
        (GOOD + "1 18446744073709551617:1\n", ":3: feature index 18446744073709551617"),
        (GOOD + "-1 1:1\n", ":3: label '-1' is not a number from 0 up"),
        (GOOD + "x 1:1\n", ":3: label 'x' is not a number"),
        (GOOD + "1, 1:1\n", ":3: label '' is not a number"),
        (GOOD + "1,2:5 1:1\n", ":3: label '2:5' is not a number"),
        (GOOD + "1 -1:1\n", ":3: '-1:1' is not a feature index from 0 up with its value"),
        (GOOD + "1 7\n", ":3: '7' is not a feature index"),
        (GOOD + "1 7:\n", ":3: value '' is not a finite float32 number"),
        (GOOD + "1 7:abc\n", ":3: value 'abc' is not a finite float32"),
        (GOOD + "1 7:nan 8:1\n", ":3: value 'nan' is not a finite float32"),
        (GOOD + "1 7:-inf\n", ":3: value '-inf' is not a finite float32"),
        (GOOD + "1 7:1e39\n", ":3: value '1e39' is not a finite float32"),
        (GOOD + "1 7:1e999999999999\n", ":3: value '1e999999999999' is not a finite"),
        (GOOD + "1 7:1_0\n", ":3: value '1_0' is not a finite"),
        (GOOD + "1 7:0x10\n", ":3: value '0x10' is not a finite"),
        (GOOD + "1 7:1:2\n", ":3: value '1:2' is not a finite"),
        (GOOD + "1 7:3e38 7:3e38\n", ":3: a repeated feature adds up to infinity"),
        (GOOD.encode() + b"1 7:\xff\n", r":3: value '\\\\xff' is not a finite"),
    ],
)
def test_bad_rows_are_reported_with_their_line(tmp_path, text, message):
    path = write(tmp_path, text)
    assert_refused(f"^{path}.*{message}", read, path, "xmlrepo")


def test_duplicates_are_merged_and_counted(tmp_path):
    rows = read(write(tmp_path, "2 50 20\n3,1,3 9:1 2:0.5 9:2 2:0\n1 1:1\n"))
    assert as_lists(rows) == [([1, 3], {2: 0.5, 9: 3.0}), ([1], {1: 1.0})]
    assert (rows.num_duplicate_labels, rows.num_duplicate_features) == (1, 2)


def test_rows_without_labels_or_features_are_counted(tmp_path):
    rows = read(write(tmp_path, "5 50 20\n 1:1\n2:1 3:1\n4\n\n5 \n\n\n"))
    assert as_lists(rows) == [([], {1: 1}), ([], {2: 1, 3: 1}), ([4], {}), ([], {}), ([5], {})]
    assert (rows.num_unlabelled, rows.num_featureless) == (3, 3)


def test_svmlight_with_comments_and_query_ids(tmp_path):
    path = write(tmp_path, "# by hand\n#\n3,1 qid:7 2:0.5 9:2 # why\n 4:1\n7 1:1e-2")
    source = open_source(path)
    assert source.format == "svmlight"
    expected = [([1, 3], {2: 0.5, 9: 2.0}), ([], {4: 1.0}), ([7], {1: np.float32(0.01)})]
    assert as_lists(source.read(2)) == expected
    message = ":5: label 7 is not below the 5 labels: correct the row"
    assert_refused(message, read, path, num_labels=5)
    path = write(tmp_path, "# top\n1 1:1\n# note\n1 1:1\n")
    assert_refused(":3: a line without labels and features: remove it", read, path)
    path = write(tmp_path, "# a note\n# and no rows\n")
    assert_refused(":1: only comments at its start: give rows", read, path)


def test_svmlight_equals_sklearn(tmp_path):
    from scipy.sparse import random
    from sklearn.datasets import dump_svmlight_file

    matrix = random(40, 30, density=0.2, format="csr", dtype=np.float32, rng=1)
    targets = random(40, 10, density=0.3, format="csr", rng=2).astype(bool).astype(int)
    path = str(tmp_path / "train.svm")
    dump_svmlight_file(matrix, targets, path, multilabel=True, comment="generated")
    rows = read(path, rows_per_block=7)
    assert rows.features.tolist() == matrix.indices.tolist()
    assert rows.values.tolist() == matrix.data.tolist()
    assert rows.labels.tolist() == targets.indices.tolist()


def test_dense_rows_with_and_without_indices(tmp_path):
    vectors = "2 3 9\n4,2 0.5 -1 1e-3\n\t1 2 3\n"
    pairs = "2 3 9\n4,2 0:0.5 1:-1 2:1e-3\n 0:1 1:2 2:3\n"
    for text, format in ((vectors, "auto"), (pairs, "dense-text")):
        source = open_source(write(tmp_path, text), format)
        rows = source.read(1)
        assert source.kind == "dense"
        np.testing.assert_array_equal(rows.dense, np.float32([[0.5, -1, 1e-3], [1, 2, 3]]))
        assert rows.labels.tolist() == [2, 4]
        assert rows.label_splits.tolist() == [0, 2, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 3 9\n4 1 2\n", ":2: the row does not have the header's 3 values"),
        ("1 3 9\n4 1 2 3 4\n", ":2: the row does not have the header's 3 values"),
        ("1 3 9\n4 1 2 x\n", ":2: value 'x' is not a finite float32"),
        ("1 3 9\n9 1 2 3\n", ":2: label 9 is not below the header's 9 labels"),
        ("1 70000 9\n4 1 2 3\n", ":1: dense rows of 70000 values, more than 65536"),
    ],
)
def test_bad_dense_rows_are_reported(tmp_path, text, message):
    assert_refused(message, read, write(tmp_path, text), "dense-text")
