import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solar_tf.errors import UserError
from solar_tf.run.records import encode, write_records
from solar_tf.training.record_reader import Block, decode, read_blocks

TYPES = {"ids": np.int32, "values": np.float32, "buckets": np.int32}
integers = st.integers(-(2**31), 2**31 - 1)
floats = st.floats(width=32, allow_nan=False)


def block_of(protos):
    """Serialised protos as rows of one block."""
    ends = np.cumsum([len(proto) for proto in protos])
    starts = ends - [len(proto) for proto in protos]
    return Block(np.frombuffer(b"".join(protos), np.uint8), starts, ends, [(0, "file", 0)])


def assert_decodes_as_protobuf(protos):
    columns = decode(block_of(protos), np.arange(len(protos)), TYPES)
    features = [tf.train.Example.FromString(proto).features.feature for proto in protos]
    for name, kind in TYPES.items():
        splits, values = columns[name]
        assert values.dtype == kind
        for row, feature in enumerate(features):
            of = feature[name].float_list if kind is np.float32 else feature[name].int64_list
            assert values[splits[row] : splits[row + 1]].tolist() == list(of.value)


def varint(value):
    value %= 2**64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def delimited(tag, content):
    return bytes([tag]) + varint(len(content)) + content


def list_of(values, packed):
    """A FloatList or an Int64List, with all its values in one field or one field each."""
    if not values:
        return b""
    real = isinstance(values[0], float)
    each = [np.float32(v).tobytes() if real else varint(v) for v in values]
    if packed:
        return delimited(0x0A, b"".join(each))
    return b"".join(bytes([0x0D if real else 0x08]) + one for one in each)


unknown = st.sampled_from(
    [b"", delimited(0x3A, b"xyz"), b"\x38\x96\x01", b"\x3d1234", b"\x3912345678"]
)


@st.composite
def example_protos(draw):
    """Any way to write an Example: order, packing, unknown fields and features, none at all."""
    entries = []
    for name, kind in draw(st.permutations([*TYPES.items(), ("other", np.int32), ("id", float)])):
        if draw(st.booleans()):
            continue
        real = kind in (np.float32, float)
        values = draw(st.lists(floats if real else integers, max_size=6))
        content = list_of(values, draw(st.booleans()))
        feature = delimited(0x12 if real else 0x1A, content)
        key, value = delimited(0x0A, name.encode()), delimited(0x12, feature)
        entry = key + value if draw(st.booleans()) else value + key
        entries.append(delimited(0x0A, entry) + draw(unknown))
    return delimited(0x0A, b"".join(entries)) + draw(unknown)


@settings(deadline=None, max_examples=200)
@given(st.lists(example_protos(), min_size=1, max_size=5))
@example([b""])
def test_any_example_is_decoded_as_protobuf_does(protos):
    assert_decodes_as_protobuf(protos)


def test_negative_and_long_numbers_are_those_of_protobuf():
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 0, 127, 128, 2**31 - 1]))
    proto = tf.train.Example(features=tf.train.Features(feature={"ids": feature}))
    assert_decodes_as_protobuf([proto.SerializeToString()])


def test_of_two_entries_of_a_key_the_last_counts():
    entry = [
        delimited(
            0x0A, delimited(0x0A, b"ids") + delimited(0x12, delimited(0x1A, list_of(v, True)))
        )
        for v in ([1, 2], [3])
    ]
    splits, values = decode(block_of([delimited(0x0A, b"".join(entry))]), np.arange(1), TYPES)[
        "ids"
    ]
    assert splits.tolist() == [0, 1]
    assert values.tolist() == [3]


def sound_proto():
    values = delimited(0x12, delimited(0x12, list_of([1.5, 2.5], True)))
    ids = delimited(0x12, delimited(0x1A, list_of([300, 5], True)))
    entries = [delimited(0x0A, b"ids") + ids, delimited(0x0A, b"values") + values]
    return delimited(0x0A, b"".join(delimited(0x0A, entry) for entry in entries))


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 100), st.integers(0, 100))
@example(b"\x0a" + b"\xff" * 12, 0, 0)
def test_what_is_no_example_is_an_error_or_a_row_but_never_a_crash(noise, at, cut):
    """Read from the middle of an array: what is outside the row must not show."""
    proto = sound_proto()
    for bad in (noise, proto[:at] + noise + proto[at:], proto[: -1 - cut]):
        for around in (b"\x00" * 20, b"\xff" * 20):
            data = np.frombuffer(around + bad + around, np.uint8)
            span = np.array([20]), np.array([20 + len(bad)])
            try:
                columns = decode(Block(data, *span, [(0, "file", 0)]), np.arange(1), TYPES)
            except UserError as error:
                result = str(error)
            else:
                result = {name: column[1].tobytes() for name, column in columns.items()}
            if around[0] == 0:
                first = result
        assert result == first


@pytest.mark.parametrize("cut", range(1, len(sound_proto())))
def test_a_row_that_is_cut_short_is_named(cut):
    block = block_of([sound_proto(), sound_proto()[:cut]])
    block.origins.insert(0, (-5, "other", 0))
    with pytest.raises(UserError, match="file: record 1 .*preprocess"):
        decode(block, np.array([0, 1]), TYPES)


def test_a_list_of_another_kind_is_an_error():
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"7"]))
    proto = tf.train.Example(features=tf.train.Features(feature={"ids": feature}))
    with pytest.raises(UserError, match="record 0"):
        decode(block_of([proto.SerializeToString()]), np.arange(1), TYPES)


@pytest.mark.parametrize("size", [1, 7, 25, 30, 1000])
def test_blocks_go_across_files(tmp_path, size):
    paths, first = [], 0
    for shard, count in enumerate((10, 0, 25, 1, 14)):
        paths.append(tmp_path / f"{shard}.tfrecord")
        splits = np.arange(count + 1)
        write_records(paths[-1], {"ids": (splits, np.arange(first, first + count))})
        first += count
    blocks = list(read_blocks(paths, size))
    assert [len(block) for block in blocks[:-1]] == [size] * ((first - 1) // size)
    rows = [decode(block, np.arange(len(block)), {"ids": np.int32})["ids"][1] for block in blocks]
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(first))
    assert list(read_blocks([paths[1]], size)) == []


def test_damage_is_found_before_any_row_of_its_block_is_given(tmp_path):
    path = tmp_path / "a.tfrecord"
    data = encode({"ids": (np.arange(31), np.arange(30))})
    data[len(data) // 30 * 17 + 14] ^= 1
    data.tofile(path)
    blocks = read_blocks([path], 15)
    assert len(next(blocks)) == 15
    with pytest.raises(UserError, match=r"a\.tfrecord: record 17 \(at byte \d+\) is corrupt"):
        next(blocks)
