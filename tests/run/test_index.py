import copyreg
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest
from conftest import flipped, taking_at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solar_tf.errors import UserError
from solar_tf.preprocessing.hashing import label_buckets
from solar_tf.run import index as index_module
from solar_tf.run.index import InvertedIndex, build_index, load_balance, load_index, save_index

NUM_LABELS, NUM_BUCKETS = 40, 7
on_disk = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def index():
    return build_index(label_buckets(NUM_LABELS, 0, NUM_BUCKETS), NUM_BUCKETS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chunk_00.pkl"


@pytest.fixture
def saved(path, index):
    """The bytes of a valid index file."""
    save_index(path, index)
    return path.read_bytes()


def same(first, second):
    return all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(first, second, strict=True)
    )


def refusal(path, data, **counts):
    """The message with which a file of these bytes is refused."""
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        load_index(path, **counts)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith(": delete it and run preprocess.py again")
    assert len(message) < len(str(path)) + 200  # however long the values in the file are
    return message


@given(st.lists(st.integers(0, 8)), st.integers(9, 12))
def test_a_bucket_holds_its_labels_ascending(buckets, num_buckets):
    index = build_index(np.array(buckets, dtype=np.int32), num_buckets)
    assert (index.offsets.dtype, index.labels.dtype) == (np.uint32, np.int32)
    assert (index.num_buckets, index.num_labels) == (num_buckets, len(buckets))
    for bucket in range(num_buckets):
        expected = [label for label, place in enumerate(buckets) if place == bucket]
        assert index.bucket(bucket).tolist() == expected


def test_a_bucket_beyond_the_last_is_an_error():
    with pytest.raises(ValueError, match="bucket 5 is not below num_buckets=5"):
        build_index(np.array([0, 5]), 5)


@on_disk
@given(st.lists(st.integers(0, 8)))
def test_round_trip(path, buckets):
    index = build_index(np.array(buckets, dtype=np.int32), 9)
    save_index(path, index)
    loaded = load_index(path, num_buckets=9, num_labels=len(buckets))
    assert same(loaded, index)
    assert all(array.flags.writeable and array.flags.aligned for array in loaded)


def test_same_index_same_bytes(path, saved, index):
    save_index(path, InvertedIndex(index.offsets.astype(np.int64), index.labels[:]))
    assert path.read_bytes() == saved


def test_file_is_plain_values_that_any_unpickler_reads(saved, index):
    content = pickle.loads(saved)
    assert {type(value) for value in content.values()} <= {int, str, bytes}
    labels = np.frombuffer(content["labels"], content["labels_dtype"])
    np.testing.assert_array_equal(labels, index.labels)
    opcodes = [opcode.name for opcode, _, _ in pickletools.genops(saved)]
    assert set(opcodes) <= index_module.PLAIN_OPCODES
    assert len(opcodes) < index_module.MOST_OPCODES


def test_what_is_no_index_file_is_refused_unread(path, tmp_path):
    for place in (path, tmp_path):
        with pytest.raises(UserError, match=r"run preprocess\.py again"):
            load_index(place)
    os.mkfifo(path)  # reading would wait for ever
    with pytest.raises(UserError, match=r"chunk_00\.pkl: not a file: delete it and run prepro"):
        load_index(path)
    path.unlink()
    with open(path, "wb") as file:
        file.truncate(2**40)  # takes no room on the disk, but would in memory
    with pytest.raises(UserError, match=r"1099511627776 bytes, where an index has 1216 at most"):
        load_index(path, NUM_BUCKETS, NUM_LABELS)


def edited(saved, **changes):
    """A well-formed pickle of the valid content with some fields changed, its checksum right."""
    content = pickle.loads(saved)
    content.update({name: value for name, value in changes.items() if name != "crc32"})
    if {"offsets", "labels"} <= content.keys() and type(content["labels"]) is bytes:
        content["crc32"] = index_module._checksum(content)
    content.update(changes)
    return pickle.dumps(content, protocol=4)


def test_other_format_says_which_stage_to_run(path, saved):
    assert "index format 2, this version reads 1" in refusal(path, edited(saved, format=2))
    for odd in ("1", b"x" * 10_000, {}, -(2**31)):
        assert "index format" in refusal(path, edited(saved, format=odd))


@pytest.mark.parametrize("counts", [{"num_buckets": 8}, {"num_labels": 39}])
def test_index_of_another_config(path, saved, counts):
    (name,) = counts
    message = refusal(path, saved, **counts)
    assert f"{name} is" in message
    assert f"the run's config has {counts[name]}" in message


def raw(dtype, *values):
    return np.array(values, dtype=dtype).tobytes()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": True}, "not an index"),
        ({"extra": 1}, "fields"),
        ({"labels": "text"}, "fields"),
        ({"num_labels": b"3"}, "fields"),
        ({"labels": {}}, "fields"),
        ({"labels_dtype": "O"}, "dtypes"),
        ({"labels_dtype": "<f4"}, "dtypes"),
        ({"num_labels": 10**9}, "do not fit"),
        ({"num_buckets": 10**9}, "do not fit"),
        ({"num_buckets": -1, "offsets": b""}, "cover"),
        ({"num_buckets": 0, "offsets": raw("<u4", 0)}, "cover"),
        ({"labels": b"123"}, "do not fit"),
        ({"crc32": "00000000"}, "checksum"),
        ({"offsets": raw("<u4", 1, 2, 3)}, "cover"),
        ({"offsets": raw("<u4", 0, 2, 2)}, "cover"),
        ({"offsets": raw("<u4", 0, 4, 3)}, "descend"),
        ({"labels": raw("<i4", -1, 0, 1)}, "each once"),
        ({"labels": raw("<i4", 0, 1, 3)}, "each once"),
        ({"labels": raw("<i4", 0, 2, 2)}, "each once"),
        ({"labels": raw("<i4", 1, 0, 2)}, "ascending"),
    ],
)
def test_inconsistent_content_is_refused(path, saved, changes, reason):
    offsets, labels = raw("<u4", 0, 2, 3), raw("<i4", 0, 2, 1)
    small = edited(saved, num_buckets=2, num_labels=3, offsets=offsets, labels=labels)
    path.write_bytes(small)
    load_index(path)  # fine in itself, so the change is what gets refused
    assert reason in refusal(path, edited(small, **changes))


class Reduces:
    """Pickles as a call."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments, state)

    def __reduce__(self):
        return self.reduced


def raw_pickles(command):
    """Hand-written pickles; each would harm a plain pickle.loads, or waste its time or memory."""
    text = command.encode()
    system = b"cposix\nsystem\n"
    call = b"(X" + struct.pack("<I", len(text)) + text + b"tR"
    deep = b"\x80\x04" + b"N" + b"\x85" * 100_000 + b"."
    nested_key = b"\x80\x04}" + b"N\x85" + b"2\x86" * 60 + b"Ns."
    return {
        "global and reduce": system + call + b".",
        "stack global": b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + call + b".",
        "inst": b"(X" + struct.pack("<I", len(text)) + text + b"iposix\nsystem\n.",
        "obj": b"(" + system + b"X" + struct.pack("<I", len(text)) + text + b"o.",
        "newobj": b"\x80\x04cbuiltins\neval\n(\x8c\x011t\x81.",
        "extension registry": b"\x80\x02\x82\x01(" + b"\x8c\x01a" + b"tR.",
        "persistent id, text": b"Psecret\n.",
        "persistent id, binary": b"\x80\x04\x8c\x06secretQ.",
        "call inside a value": b"\x80\x04}\x8c\x06format" + system + call + b"s.",
        "memo slot two billion": b"\x80\x04Nr\xff\xff\xff\x7f.",
        "memo slot, text": b"Np999999999\n.",
        "unset memo slot": b"\x80\x04j\xff\xff\xff\x7f.",
        "bytes beyond the file": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
        "bytes beyond the machine": b"\x80\x04\x8e" + b"\xff" * 8 + b"x.",
        "short bytes beyond the file": b"\x80\x04B\xff\xff\xff\x7fx.",
        "bytearray beyond the file": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
        "string beyond the file": b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"x.",
        "frame beyond the file": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.",
        "integer of 255 bytes": b"\x80\x04\x8a\xff" + b"\x7f" * 255 + b".",
        "integer of 100,000 digits": b"I" + b"9" * 100_000 + b"\n.",
        "long integer": b"\x80\x04\x8b" + struct.pack("<i", 100_000) + b"\x7f" * 100_000 + b".",
        "not an integer": b"I" + b"x" * 100_000 + b"\n.",
        "out-of-band buffer": b"\x80\x05\x97.",
        "deep tuple": deep,
        "key that hashes for ever": nested_key,
        "unhashable key": b"\x80\x04}}Ns.",
        "empty dicts": b"\x80\x04" + b"}" * 1_000_000 + b".",
        "empty stack": b"\x80\x04.",
        "no stop": b"\x80\x04}",
        "empty file": b"",
        "later protocol": b"\x80\xff}.",
    }


def object_pickles(command):
    """What pickle itself makes of hostile objects and of honest numpy ones."""
    array = np.arange(4)
    scalar = np.int64(1).__reduce__()[0]  # multiarray.scalar, unpickles objects on its own
    return {
        "os.system": Reduces(os.system, command),
        "eval": Reduces(eval, "1"),
        "exec": Reduces(exec, f"import os; os.system({command!r})"),
        "getattr": Reduces(getattr, "", "join"),
        "nested reduce": Reduces(os.system, Reduces(str, command)),
        "numpy.load": Reduces(np.load, "file.npy", None, True),
        "numpy.fromfile": Reduces(np.fromfile, "/dev/zero"),
        "numpy.zeros": Reduces(np.zeros, 10**12),
        "numpy scalar": Reduces(scalar, np.dtype("O"), pickle.dumps(Reduces(os.system, command))),
        "copyreg": Reduces(copyreg._reconstructor, InvertedIndex, object, None),
        "array": array,
        "object array": np.array([Reduces(os.system, command)], dtype=object),
        "array with a hostile state": Reduces(
            array.__reduce__()[0],
            *array.__reduce__()[1],
            state=(1, (2**40,), np.dtype("O"), False, b"x"),
        ),
        "dtype": np.dtype("i4"),
        "named tuple": InvertedIndex(array, array),
        "set": {1},
        "bytearray": bytearray(4),
        "tuple": (1, 2),
        "list": [1, 2],
        "float": 1.0,
    }


@pytest.mark.parametrize("name", raw_pickles("true"))
def test_crafted_opcodes_are_refused(path, tmp_path, name):
    refuse_cheaply(path, raw_pickles(f"touch {tmp_path}/executed")[name])
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", object_pickles("true"))
def test_pickled_objects_are_refused_anywhere(path, tmp_path, saved, name, protocol):
    value = object_pickles(f"touch {tmp_path}/executed")[name]
    content = pickle.loads(saved)
    for hidden in (value, {"format": value}, {**content, "labels": value}, [content, value]):
        refuse_cheaply(path, pickle.dumps(hidden, protocol))
    assert not (tmp_path / "executed").exists()


def refuse_cheaply(path, data):
    """Refused, without asking for more than a small multiple of the file's size."""
    with taking_at_most(8 * len(data) + 1_000_000):
        refusal(path, data)


def test_second_lock_refuses_globals_on_its_own(path, saved, monkeypatch):
    """Even with every opcode allowed, no global and no persistent object gets through."""
    every = {opcode.name for opcode in pickletools.opcodes}
    monkeypatch.setattr(index_module, "PLAIN_OPCODES", every)
    assert "asks for posix.system" in refusal(path, pickle.dumps(Reduces(os.system, "false")))
    assert "outside object" in refusal(path, b"Psecret\n.")


def test_every_truncation_and_data_after_the_end_are_refused(path, saved):
    assert "more data" in refusal(path, saved + b"\0")
    for size in range(len(saved)):
        refusal(path, saved[:size])


def assert_refused_or_same(path, data, index):
    path.write_bytes(data)
    try:
        loaded = load_index(path)
    except UserError:
        return
    assert same(loaded, index)


def test_every_flipped_bit_is_refused_or_harmless(path, saved, index):
    for bit in range(8 * len(saved)):
        assert_refused_or_same(path, flipped(saved, bit), index)


@on_disk
@given(st.binary(max_size=400))
def test_random_bytes(path, data):
    refusal(path, data)
    refusal(path, b"\x80\x04" + data)


@on_disk
@given(data=st.data())
def test_random_edits_are_refused_or_harmless(path, saved, index, data):
    damaged = bytearray(saved)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged)))
        end = data.draw(st.integers(start, min(start + 9, len(damaged))))
        damaged[start:end] = data.draw(st.binary(max_size=9))
    assert_refused_or_same(path, damaged, index)


@on_disk
@given(data=st.data())
def test_random_plain_opcodes_are_refused_or_harmless(path, saved, index, data):
    """Shuffled, repeated and dropped opcodes of a valid file: well-formed, but senseless."""
    starts = [position for _, _, position in pickletools.genops(saved)]
    pieces = [
        saved[start:end] for start, end in zip(starts, [*starts[1:], len(saved)], strict=True)
    ]
    chosen = data.draw(st.lists(st.sampled_from(pieces[2:-1]), max_size=50))
    assert_refused_or_same(path, b"\x80\x04" + b"".join(chosen) + b".", index)


def test_load_balance_beside_the_binomial():
    """§3.1: "each bucket will have the same number of labels" is true of the mean."""
    balance = load_balance(build_index(label_buckets(100_000, 0, 1000), 1000))
    measured, binomial = balance["measured"], balance["binomial"]
    assert measured.keys() == binomial.keys() == {"min", "max", "mean", "std", "p99"}
    assert measured["mean"] == binomial["mean"] == 100
    assert measured["std"] == pytest.approx(binomial["std"], rel=0.1)
    assert binomial["std"] == pytest.approx(np.sqrt(100 * (1 - 1 / 1000)))
    for name in ("min", "max", "p99"):
        assert measured[name] == pytest.approx(binomial[name], rel=0.15)


def test_load_balance_of_a_lopsided_index():
    measured = load_balance(build_index(np.zeros(50, dtype=np.int32), 5))["measured"]
    assert measured == {"min": 0, "max": 50, "mean": 10, "std": 20, "p99": pytest.approx(48)}
