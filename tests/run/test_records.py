import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from conftest import flipped
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solar_tf.errors import UserError
from solar_tf.run.records import (
    BUCKETS,
    DENSE,
    IDS,
    VALUES,
    count_records,
    encode,
    verify_records,
    write_records,
)
from solar_tf.runtime.ragged import row_splits

floats = st.floats(width=32, allow_nan=False)
tokens = st.integers(0, 2**31 - 1) | st.sampled_from([0, 127, 128, 16383, 16384, 2**31 - 1])
rows = st.tuples(
    st.lists(st.tuples(tokens, floats), max_size=40),
    st.lists(tokens, max_size=5),
)


def column(lists, dtype):
    splits = np.cumsum([0] + [len(values) for values in lists])
    return splits, np.array([value for values in lists for value in values], dtype)


def to_columns(some_rows):
    return {
        IDS: column([[token for token, _ in pairs] for pairs, _ in some_rows], np.int32),
        VALUES: column([[value for _, value in pairs] for pairs, _ in some_rows], np.float32),
        BUCKETS: column([buckets for _, buckets in some_rows], np.int32),
    }


def to_proto(columns, row):
    """The row as TensorFlow itself would write it."""
    features = {}
    for name, (splits, values) in columns.items():
        row_values = values[splits[row] : splits[row + 1]].tolist()
        if values.dtype == np.float32:
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=row_values))
        else:
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=row_values))
    return tf.train.Example(features=tf.train.Features(feature=features))


def write_with_tensorflow(path, columns, num_rows):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(num_rows):
            writer.write(to_proto(columns, row).SerializeToString(deterministic=True))


def random_columns(num_rows, seed=0):
    generator = np.random.default_rng(seed)
    tokens = row_splits(generator.poisson(9, num_rows))
    targets = row_splits(generator.poisson(4, num_rows))
    return {
        IDS: (tokens, generator.integers(100_000, size=tokens[-1], dtype=np.int32)),
        VALUES: (tokens, generator.random(tokens[-1], np.float32)),
        BUCKETS: (targets, generator.integers(30_000, size=targets[-1], dtype=np.int32)),
    }


@settings(deadline=None, max_examples=60)
@given(st.lists(rows, max_size=8))
@example([([], [])])
@example([([(1, 0.5)] * 5000, [2**31 - 1] * 5000)])  # lengths that are varints of three bytes
def test_the_bytes_are_those_of_tensorflow(tmp_path_factory, some_rows):
    columns = to_columns(some_rows)
    path = tmp_path_factory.mktemp("records") / "tensorflow.tfrecord"
    write_with_tensorflow(path, columns, len(some_rows))
    assert encode(columns).tobytes() == path.read_bytes()


@settings(deadline=None, max_examples=30)
@given(st.lists(rows, min_size=1, max_size=8))
def test_parse_example_reads_what_was_written(tmp_path_factory, some_rows):
    columns = to_columns(some_rows)
    path = tmp_path_factory.mktemp("records") / "ours.tfrecord"
    write_records(path, columns)
    features = {
        name: tf.io.RaggedFeature(tf.float32 if name == VALUES else tf.int64) for name in columns
    }
    serialised = list(tf.data.TFRecordDataset(str(path)))
    parsed = tf.io.parse_example(tf.stack(serialised), features)
    for name, (splits, values) in columns.items():
        np.testing.assert_array_equal(parsed[name].row_splits, splits)
        np.testing.assert_array_equal(parsed[name].values, values)


def test_a_file_of_many_blocks_equals_one_block(tmp_path, monkeypatch):
    monkeypatch.setattr("solar_tf.run.records.ROWS_PER_WRITE", 7)
    columns = random_columns(100)
    write_records(tmp_path / "a.tfrecord", columns)
    assert (tmp_path / "a.tfrecord").read_bytes() == encode(columns).tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["a.tfrecord"]


def test_dense_rows_and_their_buckets_are_written_apart(tmp_path):
    dense = np.random.default_rng(0).normal(size=(20, 512)).astype(np.float32)
    columns = {DENSE: (np.arange(21) * 512, dense.ravel())}
    write_with_tensorflow(tmp_path / "tensorflow.tfrecord", columns, 20)
    write_records(tmp_path / "ours.tfrecord", columns)
    ours = (tmp_path / "ours.tfrecord").read_bytes()
    assert ours == (tmp_path / "tensorflow.tfrecord").read_bytes()


def test_columns_must_agree_on_their_rows_and_values():
    columns = random_columns(5)
    columns[BUCKETS] = (columns[BUCKETS][0][:-1], columns[BUCKETS][1])
    with pytest.raises(ValueError, match="same number of rows"):
        encode(columns)
    with pytest.raises(ValueError, match="row splits end at 9"):
        encode({IDS: (np.array([0, 9]), np.arange(8))})


@pytest.mark.parametrize("num_rows", [0, 1, 100])
def test_a_sound_file_is_counted_and_verified(tmp_path, num_rows):
    path = tmp_path / "a.tfrecord"
    write_records(path, random_columns(num_rows))
    assert count_records(path) == verify_records(path) == num_rows


def test_every_flipped_bit_is_found_and_its_record_named(tmp_path):
    columns, path = random_columns(3), tmp_path / "a.tfrecord"
    sound = encode(columns).tobytes()
    first = [{name: (s[:k], v) for name, (s, v) in columns.items()} for k in range(1, 5)]
    starts = [len(encode(rows)) for rows in first]
    for at in range(len(sound)):
        path.write_bytes(flipped(sound, 8 * at + at % 8))
        record = np.searchsorted(starts, at, side="right") - 1
        with pytest.raises(UserError, match=rf"a\.tfrecord: record {record} .*preprocess\.py"):
            verify_records(path)
    for size in {*range(len(sound))} - {*starts}:
        path.write_bytes(sound[:size])
        for function in (count_records, verify_records):
            with pytest.raises(UserError, match=r"a\.tfrecord: record \d .*preprocess\.py"):
                function(path)
    path.unlink()
    with pytest.raises(UserError, match=r"a\.tfrecord: no such file.*preprocess\.py"):
        verify_records(path)


def test_the_writer_does_not_import_tensorflow():
    code = "import sys, solar_tf.run.records; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
