"""TFRecord files of tf.train.Example protos, written and checked without TensorFlow.

Stage 1 (§3.1, §3.2) writes one such file per chunk and shard: a row's hashed token
indices and weights, and the OR of its labels' buckets. Dense inputs are the same in
every chunk, so they have files of their own that all chunks share, and the chunk's
files then hold the buckets alone.

Rows are handled as columns, `{feature: (splits [n+1], values [splits[-1]])}`: row i of
a feature is `values[splits[i]:splits[i+1]]`. Float columns become float lists, integer
columns int64 lists. The bytes are those of TensorFlow's own writer with
`SerializeToString(deterministic=True)`; `solar_tf.training.batches` reads them back.
"""

from pathlib import Path

import numpy as np

from solar_tf.errors import UserError
from solar_tf.run.checksums import HashedFile
from solar_tf.run.files import atomic_write
from solar_tf.runtime.compiled import compiled

IDS = "ids"  # hashed token indices, int64 list
VALUES = "values"  # weights of the tokens, float list as long as the ids
BUCKETS = "buckets"  # OR'ed target buckets, int64 list
DENSE = "dense"  # dense input, float list of one fixed length

ROWS_PER_WRITE = 4_096  # bounds memory; blocks that fit into the CPU's cache are also faster

# A frame is: length (uint64), masked crc of the length, data, masked crc of the data.
HEADER = 12
FOOTER = 4

# Protobuf tags, field number << 3 | wire type 2 (length-delimited). Example.features,
# Features.feature, FloatList.value, Int64List.value and a map entry's key are all field 1.
FIELD_1 = 0x0A
ENTRY_VALUE = 0x12
FLOAT_LIST = 0x12
INT64_LIST = 0x1A


def encode(columns):
    """Serialise n rows as TFRecord frames. Returns [bytes] uint8."""
    names = sorted(columns)
    packed = [_pack(*columns[name]) for name in names]
    keys = [np.frombuffer(name.encode(), np.uint8) for name in names]
    features = np.zeros(_count_rows(columns), np.int64)  # their size in each row
    for key, (_, splits, _) in zip(keys, packed, strict=True):
        _add_entry_sizes(features, len(key), splits)
    starts, cursors = _lay_out_frames(features)
    out = np.empty(starts[-1], np.uint8)
    for key, (tag, splits, payload) in zip(keys, packed, strict=True):
        _write_entries(out, cursors, key, tag, splits, payload)
    _write_frames(out, starts, features)
    return out


def write_records(path, columns):
    """Write the rows of `columns` as the TFRecord file `path`, which appears when complete.

    Returns the file's facts (checksums.py).
    """
    with atomic_write(path) as file:
        file = HashedFile(file)
        for row in range(0, _count_rows(columns), ROWS_PER_WRITE):
            block = slice(row, row + ROWS_PER_WRITE + 1)
            rows = {name: (splits[block], values) for name, (splits, values) in columns.items()}
            file.write(encode(rows))
    return file.facts


def count_records(path):
    """The number of records in a TFRecord file, from the frames' lengths alone."""
    return _count(path, check=False)


def verify_records(path):
    """Check every record's checksums and return their number; UserError names the first bad."""
    return _count(path, check=True)


def _count(path, check):
    try:
        size = Path(path).stat().st_size
    except FileNotFoundError:
        raise UserError(f"{path}: no such file: run preprocess.py again")
    # An empty file is valid, but cannot be mapped.
    data = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    count, end = _count_frames(data, check)
    if end != size:
        raise UserError(
            f"{path}: record {count} (at byte {end}) is corrupt or cut short: "
            "delete the file and run preprocess.py again"
        )
    return count


def _count_rows(columns):
    counts = {name: len(splits) - 1 for name, (splits, _) in columns.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(f"columns must have the same number of rows: {counts}")
    return counts.popitem()[1]


def _pack(splits, values):
    """A column's list tag, and its packed payload as (splits [n+1], [bytes] uint8)."""
    splits = np.asarray(splits, np.int64)
    values = np.asarray(values)[splits[0] : splits[-1]]
    splits = splits - splits[0]
    if splits[-1] != len(values):
        raise ValueError(f"row splits end at {splits[-1]}, but there are {len(values)} values")
    if np.issubdtype(values.dtype, np.floating):
        return FLOAT_LIST, 4 * splits, np.ascontiguousarray(values, "<f4").view(np.uint8)
    # As in protobuf, a negative number is its 64-bit two's complement.
    values = np.ascontiguousarray(values, np.int64).view(np.uint64)
    return INT64_LIST, *_pack_varints(splits, values)


def _crc_tables():
    """Tables of the CRC-32C (Castagnoli) for eight bytes at a time. Returns [8, 256] uint32."""
    tables = np.empty((8, 256), np.uint32)
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    tables[0] = table
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ table[tables[k - 1] & 0xFF]
    return tables


CRC_TABLES = _crc_tables()


@compiled
def _masked_crc(data, start, end):
    """CRC-32C of data[start:end], rotated and offset as TFRecord stores it."""
    crc = np.uint32(0xFFFFFFFF)
    while start + 8 <= end:
        crc ^= (
            np.uint32(data[start])
            | np.uint32(data[start + 1]) << np.uint32(8)
            | np.uint32(data[start + 2]) << np.uint32(16)
            | np.uint32(data[start + 3]) << np.uint32(24)
        )
        crc = (
            CRC_TABLES[7, crc & np.uint32(0xFF)]
            ^ CRC_TABLES[6, (crc >> np.uint32(8)) & np.uint32(0xFF)]
            ^ CRC_TABLES[5, (crc >> np.uint32(16)) & np.uint32(0xFF)]
            ^ CRC_TABLES[4, crc >> np.uint32(24)]
            ^ CRC_TABLES[3, data[start + 4]]
            ^ CRC_TABLES[2, data[start + 5]]
            ^ CRC_TABLES[1, data[start + 6]]
            ^ CRC_TABLES[0, data[start + 7]]
        )
        start += 8
    while start < end:
        crc = CRC_TABLES[0, (crc ^ data[start]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        start += 1
    crc = np.uint32(~crc)  # numba computes in 64 bits
    return np.uint32((crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8))


@compiled
def _varint_size(value):
    """Bytes of a number as a varint."""
    value, size = np.uint64(value), 1
    while value > np.uint64(127):
        value >>= np.uint64(7)
        size += 1
    return size


@compiled
def _put_varint(out, at, value):
    """Write a varint at out[at]. Returns the position behind it."""
    value = np.uint64(value)
    while value > np.uint64(127):
        out[at] = np.uint8(value & np.uint64(127)) | np.uint8(128)
        value >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(value)
    return at + 1


@compiled
def _put_fixed(out, at, value, size):
    """Write the low `size` bytes of a number at out[at], least significant first."""
    for k in range(size):
        out[at + k] = np.uint8((np.uint64(value) >> np.uint64(8 * k)) & np.uint64(0xFF))


@compiled
def _get_fixed(data, at, size):
    value = np.uint64(0)
    for k in range(size):
        value |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return value


@compiled
def _pack_varints(splits, values):
    """The rows of an integer column as varints. Returns splits [n+1] and [bytes] uint8."""
    size = 0
    for value in values:
        size += _varint_size(value)
    out = np.empty(size, np.uint8)
    out_splits = np.empty_like(splits)
    at = 0
    for row in range(len(splits) - 1):
        out_splits[row] = at
        for value in values[splits[row] : splits[row + 1]]:
            at = _put_varint(out, at, value)
    out_splits[-1] = at
    return out_splits, out


@compiled
def _nested_sizes(key_size, payload_size):
    """Sizes of a list message, of the Feature around it and of the map entry around that."""
    values = 0 if payload_size == 0 else 1 + _varint_size(payload_size) + payload_size
    feature = 1 + _varint_size(values) + values
    entry = 1 + _varint_size(key_size) + key_size + 1 + _varint_size(feature) + feature
    return values, feature, entry


@compiled
def _add_entry_sizes(features, key_size, splits):
    """Add the size of a packed column's map entries to the rows' features [n]."""
    for row in range(len(features)):
        entry = _nested_sizes(key_size, splits[row + 1] - splits[row])[2]
        features[row] += 1 + _varint_size(entry) + entry


@compiled
def _lay_out_frames(features):
    """Where each frame starts [n+1], and its first map entry [n]."""
    starts = np.zeros(len(features) + 1, np.int64)
    cursors = np.empty(len(features), np.int64)
    for row in range(len(features)):
        cursors[row] = starts[row] + HEADER + 1 + _varint_size(features[row])
        starts[row + 1] = cursors[row] + features[row] + FOOTER
    return starts, cursors


@compiled
def _write_entries(out, cursors, key, tag, splits, payload):
    """Write a packed column's map entries at the rows' cursors [n], and advance these."""
    for row in range(len(cursors)):
        at, start, end = cursors[row], splits[row], splits[row + 1]
        values, feature, entry = _nested_sizes(len(key), end - start)
        out[at] = FIELD_1
        at = _put_varint(out, at + 1, entry)
        out[at] = FIELD_1
        at = _put_varint(out, at + 1, len(key))
        for byte in key:
            out[at] = byte
            at += 1
        out[at] = ENTRY_VALUE
        at = _put_varint(out, at + 1, feature)
        out[at] = tag
        at = _put_varint(out, at + 1, values)
        if end > start:
            out[at] = FIELD_1
            at = _put_varint(out, at + 1, end - start)
            for k in range(start, end):
                out[at + k - start] = payload[k]
            at += end - start
        cursors[row] = at


@compiled
def _write_frames(out, starts, features):
    """Write lengths and checksums around the rows' map entries; a row has `features` [n] bytes."""
    for row in range(len(features)):
        data, end = starts[row] + HEADER, starts[row + 1] - FOOTER
        out[data] = FIELD_1
        _put_varint(out, data + 1, features[row])
        _put_fixed(out, data - HEADER, end - data, 8)
        _put_fixed(out, data - 4, _masked_crc(out, data - HEADER, data - 4), 4)
        _put_fixed(out, end, _masked_crc(out, data, end), 4)


@compiled
def _count_frames(data, check):
    """The number of frames before the end or the first damaged one, and where they end."""
    count, at = 0, 0
    while at + HEADER + FOOTER <= len(data):
        length = _get_fixed(data, at, 8)
        if length > np.uint64(len(data) - at - HEADER - FOOTER):
            break
        end = at + HEADER + np.int64(length)
        if check and (
            _get_fixed(data, at + 8, 4) != _masked_crc(data, at, at + 8)
            or _get_fixed(data, end, 4) != _masked_crc(data, at + HEADER, end)
        ):
            break
        at = end + FOOTER
        count += 1
    return count, at
