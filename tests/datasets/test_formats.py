"""Formats are recognised by content; damaged files of every format end in an error or rows."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from conftest import open_titles
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.datasets import FORMATS, open_source
from solar_tf.datasets.source import Head
from solar_tf.errors import UserError

from . import files
from .files import assert_refused


def array_file(save, *arrays):
    file = io.BytesIO()
    save(file, *arrays)
    return file.getvalue()


MATRIX = np.float32([[0.5, 0, 1e-3], [0, 0, -2]])
SAMPLES = {
    "titles": b"1,2\tA title\n\tno labels\n3\tcaf\xc3\xa9\n",
    "json": b'{"uid": "a", "title": "A", "target_ind": [1, 2]}\n{"title": "B", "target_ind": []}\n',
    "xmlrepo": b"3 9 5\n1,2 3:0.5 8:1e-3\n 1:2\n4 0:1\n",
    "dense-text": b"2 3 5\n1,2 0.5 1 1e-3\n4 1 2 3\n",
    "svmlight": b"1,2 3:0.5 8:1e-3\n4 0:1 # note\n",
    "pair": b"2 9\n3:0.5 8:1e-3\n\n",
}


FUZZED = [  # every reader: a format and the bytes of a file
    *SAMPLES.items(),
    ("json-content", SAMPLES["json"]),
    ("pair", b"2 3\n0.5 0 1e-3\n0 0 -2\n"),
    ("pair", array_file(np.save, MATRIX)),
    ("pair", array_file(scipy.sparse.save_npz, scipy.sparse.csr_array(MATRIX))),
]


def write(folder, data, suffix=""):
    (folder / "trn_X_Y.txt").write_bytes(b"2 5\n1:1 2:1\n\n")
    return files.write(folder, data, f"trn_X_Xf.txt{suffix}")


def options_of(folder, format):
    return {"label_path": folder / "trn_X_Y.txt"} if format == "pair" else {}


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("format", SAMPLES)
def test_the_format_is_recognised_whatever_the_compression(tmp_path, format, suffix):
    path = write(tmp_path, SAMPLES[format], suffix)
    options = options_of(tmp_path, format)
    source = open_source(path, **options)
    assert source.format == format
    assert source == open_source(path, format, **options)
    block = next(source.blocks(1))
    assert len(pickle.loads(pickle.dumps(source)).parse(pickle.loads(pickle.dumps(block)))) == 1


def test_every_format_has_a_sample():
    assert set(SAMPLES) | {"json-content"} == set(FORMATS)


@pytest.mark.parametrize(("format", "content"), FUZZED)
@settings(max_examples=150, deadline=None)
@given(data=st.data(), suffix=st.sampled_from(["", "", ".gz", ".xz"]))
def test_damage_ends_in_an_error_or_in_sound_rows(folder, format, content, data, suffix):
    path = write(folder, content, suffix)
    with open(path, "rb") as file:
        damaged = bytearray(file.read())
    for place in data.draw(st.lists(st.integers(0, 8 * len(damaged) - 1), max_size=3)):
        damaged[place // 8] ^= 1 << place % 8
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    with open(path, "wb") as file:
        file.write(damaged)
    for chosen in ("auto", format):
        try:
            source = open_source(path, chosen, num_labels=5, **options_of(folder, chosen))
            rows = source.read(2)
        except UserError as error:
            assert "\n" not in str(error)
            continue
        assert rows.label_splits[0] == 0
        assert rows.label_splits[-1] == len(rows.labels)
        assert np.all((rows.labels >= 0) & (rows.labels < 5))
        if source.kind == "text":
            assert len(rows.texts) == len(rows)
        elif source.kind == "dense":
            assert rows.dense.shape == (len(rows), source.num_features)
            assert np.isfinite(rows.dense).all()
        else:
            assert rows.feature_splits[-1] == len(rows.features) == len(rows.values)
            assert np.isfinite(rows.values).all()


def test_what_cannot_be_opened_says_why(tmp_path):
    path = write(tmp_path, b"hello\n")
    unknown = ":1: the format is not recognised: name it: one of titles"
    assert_refused(unknown, open_source, path)
    assert_refused("unknown format 'csv': choose auto or one of titles", open_source, path, "csv")
    assert_refused("no such file", open_source, tmp_path / "missing")
    other = {"label_path": "labels.txt"}
    assert_refused("has its labels in the same file", open_source, path, "titles", **other)
    path = write(tmp_path, SAMPLES["xmlrepo"])
    expected = "5 labels, where 6 are expected: give files of the same"
    assert_refused(expected, open_source, path, num_labels=6)


def test_a_head_ends_after_its_blocks_and_parses_like_its_source(titles):
    source = open_titles(titles).train
    blocks = list(Head(source, 2).blocks(100))
    assert [len(source.parse(block)) for block in blocks] == [100, 100]
    assert Head(source, 2).parse(blocks[1]).texts == source.read().texts[100:200]


def test_a_worker_that_is_sent_a_head_loads_no_tensorflow(titles):
    """The stage's workers start in milliseconds, and so must those that are measured."""
    sent = pickle.dumps(Head(open_titles(titles).train, 1)).hex()
    program = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1])); "
    program += "sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program, sent]).returncode == 0
