"""Titles `label,label<TAB>text`, the XML-Repo's JSON titles, label titles."""

import json

import numpy as np
import pytest
from conftest import open_titles, small_config, stage
from conftest import write_titles as write_topics
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.datasets import read_label_titles
from solar_tf.datasets.source import Rows
from solar_tf.datasets.titles import add_own_labels, index_titles
from solar_tf.errors import UserError
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.files import read_arrays
from solar_tf.runtime.ragged import row_splits

from .files import assert_refused, label_lists, read, write

labels = st.lists(st.integers(0, 99), max_size=5)
titles = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=20)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(labels, titles), min_size=1, max_size=20), size=st.integers(1, 9))
def test_titles_come_back_as_written(folder, rows, size):
    lines = [f"{','.join(map(str, labels))}\t{title}\n" for labels, title in rows]
    path = write(folder, "".join(lines))
    found = read(path, "titles", num_labels=100, rows_per_block=size)
    assert found.texts == [title for _, title in rows]
    assert label_lists(found) == [sorted(set(labels)) for labels, _ in rows]
    assert found.num_unlabelled == sum(not labels for labels, _ in rows)
    assert found.num_duplicate_labels == sum(len(x) - len(set(x)) for x, _ in rows)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(labels, titles), min_size=1, max_size=10), content=titles)
def test_json_titles_come_back_as_written(folder, rows, content):
    records = [{"uid": "B0", "title": t, "content": content, "target_ind": x} for x, t in rows]
    path = write(folder, "\n".join(map(json.dumps, records)), "trn.json.gz")
    found = read(path)
    assert found.texts == [title for _, title in rows]
    assert label_lists(found) == [sorted(set(labels)) for labels, _ in rows]
    assert read(path, "json-content").texts == [f"{title} {content}" for _, title in rows]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("1\ta\nno tab\n", ":2: no TAB between labels and text: write rows as"),
        ("1\ta\n\n2\tb\n", ":2: no TAB"),
        ("1\ta\n2,x\tb\n", ":2: label 'x' is not a number from 0 up"),
        ("1\ta\n2,\tb\n", ":2: label '' is not a number"),
        ("1\ta\n-1\tb\n", ":2: label '-1' is not a number from 0 up"),
        ("1\ta\n1_0\tb\n", ":2: label '1_0' is not a number"),
        ("1\ta\n٣\tb\n", ":2: label '٣' is not a number"),
        ("1\ta\n1, 2\tb\n", ":2: label ' 2' is not a number"),
        ("1\ta\n50\tb\n", ":2: label 50 is not below the 50 label titles"),
        ("1\ta\n" + "9" * 30 + "\tb\n", ":2: label 9{30} is not below the 50"),
        ("1\ta\n" + "9" * 9000 + "\tb\n", r":2: label 9+\.\.\. is not below the 50"),
        (b"1\ta\n2\tcaf\xe9\n", r":2: not UTF-8 \(byte 0xe9\): convert the file"),
    ],
)
def test_bad_titles_are_reported_with_their_line(tmp_path, text, message):
    path = write(tmp_path, text)
    assert_refused(f"^{path}.*{message}", read, path, "titles", num_labels=50)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("3", "no string `title`"),
        ('{"title": 3, "target_ind": []}', "no string `title`"),
        ('{"title": "a"}', "`target_ind` is no list of labels"),
        ('{"title": "a", "target_ind": [1.5]}', "`target_ind` is no list of labels"),
        ('{"title": "a", "target_ind": [true]}', "`target_ind` is no list of labels"),
        ('{"title": "a", "target_ind": [1, -1]}', "label -1 is not from 0 to below 50"),
        ('{"title": "a", "target_ind": [50]}', "label 50 is not from 0 to below 50"),
        ('{"title": "\\ud800", "target_ind": [1]}', "`title` is no valid text"),
    ],
)
def test_bad_json_is_reported_with_its_line(tmp_path, line, message):
    path = write(tmp_path, '{"title": "good", "target_ind": [1]}\n' + line, "trn.json")
    assert_refused(f"trn.json:2: {message}", read, path, num_labels=50)


def test_label_titles(tmp_path):
    assert read_label_titles(write(tmp_path, "a b\n\nc\u2028d\n")) == ["a b", "", "c\u2028d"]
    records = '{"uid": 1, "title": "x"}\n{"title": "y"}\n'
    assert read_label_titles(write(tmp_path, records, "lbl.json.gz")) == ["x", "y"]
    assert read_label_titles(write(tmp_path, "a\rb\nc\r\nd")) == ["a b", "c", "d"]
    assert read_label_titles(write(tmp_path, '{"title": "two\\nlines"}')) == ["two lines"]
    for text, message in (
        (b"a\n\xff\n", ":2: not UTF-8"),
        ('{"title": "a"}\n{"title": "\\ud800"}', ":2: `title` is no valid text"),
        ('{"title": "a"}\n{"uid": 1}', ":2: no string `title`"),
    ):
        assert_refused(message, read_label_titles, write(tmp_path, text))


@settings(max_examples=150, deadline=None)
@given(places=st.lists(st.integers(0), max_size=3), end=st.integers(0))
def test_damaged_label_titles_are_an_error_or_as_many_lines(folder, places, end):
    for content in (b'{"title": "x"}\n{"title": "y"}\n', b"caf\xc3\xa9\ntwo\n"):
        damaged = bytearray(content)
        for place in places:
            damaged[place // 8 % len(damaged)] ^= 1 << place % 8
        damaged = bytes(damaged[: end % (len(damaged) + 1)])
        try:
            titles = read_label_titles(write(folder, damaged, "lbl.json"))
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert len(titles) == len(damaged.removesuffix(b"\n").split(b"\n"))
            assert not any(set(title) & {"\n", "\r"} for title in titles)


TITLES = st.sampled_from(["a", "b", "B", "a b", ""])
ROWS = st.lists(st.tuples(TITLES, st.sets(st.integers(0, 5), max_size=4)), max_size=12)


@given(ROWS, st.lists(TITLES, min_size=6, max_size=6))
def test_a_row_has_its_labels_and_those_of_its_title(rows, titles):
    splits = row_splits([len(labels) for _, labels in rows])
    labels = np.array([label for _, labels in rows for label in sorted(labels)], np.int32)
    before = Rows(splits, labels, [text for text, _ in rows])
    after = add_own_labels(before, index_titles(titles))
    assert after.texts == before.texts
    assert after.labels.dtype == np.int32
    assert (label_lists(after) if rows else []) == [
        sorted({*labels, *(i for i, title in enumerate(titles) if title == text)})
        for text, labels in rows
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_only_training_rows_get_them(tmp_path, workers):
    folder = write_topics(tmp_path / "data", num_train=20, num_test=5, num_labels=4)
    titles = (folder / "labels.txt").read_text().splitlines()
    for split in ("train", "test"):
        with open(folder / f"{split}.txt", "a") as file:
            file.write(f"0\t{titles[3]}\n\t{titles[1]}\n")
    config = small_config(own_label="add")
    run = preprocess(tmp_path / "run", open_titles(folder), config, workers)
    for split, expected in (("train", [[0, 3], [1]]), ("test", [[0], []])):
        rows = read_arrays(run.paths.rows(split, 0), "preprocess.py")
        splits, labels = rows["label_splits"], rows["labels"]
        assert [labels[splits[-3] : splits[-2]].tolist(), labels[splits[-2] :].tolist()] == expected


def test_without_titles_of_labels_there_is_nothing_to_add(tmp_path):
    folder = write_topics(tmp_path, num_train=20, num_test=5)
    flags = ("--train", folder / "train.txt", "--own_label", "add", "--run", tmp_path / "run")
    done = stage("preprocess", *flags, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: own_label=add needs titles of rows and labels: give --labels, or leave it\n"
    )
    assert not (tmp_path / "run" / "config.json").exists()
