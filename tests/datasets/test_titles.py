"""Titles `label,label<TAB>text`, the XML-Repo's JSON titles, label titles."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.datasets import open_source, read_label_titles
from solar_tf.errors import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("titles")


def write(folder, text, name="train.txt"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def label_lists(rows):
    return [
        rows.labels[start:end].tolist()
        for start, end in zip(rows.label_splits, rows.label_splits[1:], strict=False)
    ]


labels = st.lists(st.integers(0, 99), max_size=5)
titles = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=20)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(labels, titles), min_size=1, max_size=20), size=st.integers(1, 9))
def test_titles_come_back_as_written(folder, rows, size):
    lines = [f"{','.join(map(str, labels))}\t{title}\n" for labels, title in rows]
    source = open_source(write(folder, "".join(lines)), "titles", num_labels=100)
    read = source.read(size)
    assert read.texts == [title for _, title in rows]
    assert label_lists(read) == [sorted(set(labels)) for labels, _ in rows]
    assert read.num_unlabelled == sum(not labels for labels, _ in rows)
    assert read.num_duplicate_labels == sum(len(x) - len(set(x)) for x, _ in rows)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(labels, titles), min_size=1, max_size=10), content=titles)
def test_json_titles_come_back_as_written(folder, rows, content):
    records = [{"uid": "B0", "title": t, "content": content, "target_ind": x} for x, t in rows]
    text = "\n".join(map(json.dumps, records))
    path = write(folder, gzip.compress(text.encode()), "trn.json.gz")
    read = open_source(path).read(3)
    assert read.texts == [title for _, title in rows]
    assert label_lists(read) == [sorted(set(labels)) for labels, _ in rows]
    read = open_source(path, "json-content").read(3)
    assert read.texts == [f"{title} {content}" for _, title in rows]


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
    with pytest.raises(UserError, match=message) as caught:
        open_source(path, "titles", num_labels=50).read()
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


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
    with pytest.raises(UserError, match=f"trn.json:2: {message}") as caught:
        open_source(path, num_labels=50).read()
    assert "\n" not in str(caught.value)


def test_label_titles(tmp_path):
    assert read_label_titles(write(tmp_path, "a b\n\nc\u2028d\n")) == ["a b", "", "c\u2028d"]
    records = '{"uid": 1, "title": "x"}\n{"title": "y"}\n'
    path = write(tmp_path, gzip.compress(records.encode()), "lbl.json.gz")
    assert read_label_titles(path) == ["x", "y"]
    assert read_label_titles(write(tmp_path, "a\rb\nc\r\nd")) == ["a b", "c", "d"]
    assert read_label_titles(write(tmp_path, '{"title": "two\\nlines"}')) == ["two lines"]
    with pytest.raises(UserError, match=":2: not UTF-8"):
        read_label_titles(write(tmp_path, b"a\n\xff\n"))
    with pytest.raises(UserError, match=":2: `title` is no valid text"):
        read_label_titles(write(tmp_path, '{"title": "a"}\n{"title": "\\ud800"}'))
    with pytest.raises(UserError, match=":2: no string `title`"):
        read_label_titles(write(tmp_path, '{"title": "a"}\n{"uid": 1}'))


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
