"""TFRecord files of tf.train.Example protos, read back into columns without TensorFlow.

TensorFlow makes an object of every row and looks at it several times, which in an epoch takes a
share of the cores that the trainer needs. Here a block of rows is a copy of its bytes with the
places where frames begin, and the rows of a batch are decoded straight into the batch's arrays.
Any valid proto is read: fields in any order, packed or not, others between them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solar_tf.errors import UserError
from solar_tf.run.records import (
    ENTRY_VALUE,
    FIELD_1,
    FLOAT_LIST,
    FOOTER,
    HEADER,
    INT64_LIST,
    damaged,
    map_records,
    walk_frames,
)
from solar_tf.runtime.compiled import compiled

# Protobuf's wire types: the low three bits of a tag.
VARINT, FIXED_64, DELIMITED, FIXED_32 = 0, 1, 2, 5
FIELD_1_VARINT, FIELD_1_FIXED = 0x08, 0x0D  # single values of lists that are not packed
BAD = -1  # in the place of a position: what is read is cut short, or no proto
SOUND = -1  # in the place of a row: there is no bad one


@dataclass(frozen=True)
class Block:
    """Rows as they are in the files, one after the other."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]  # of the rows' protos, and their ends
    ends: NDArray[np.int64]
    origins: list[tuple]  # (first row, its file, its number there), for messages

    def __len__(self):
        return len(self.starts)

    def bad_row(self, row):
        """The error that says which record is sound, but no row of a chunk."""
        first, path, number = [origin for origin in self.origins if origin[0] <= row][-1]
        return UserError(
            f"{path}: record {number + row - first} is no row of this chunk: "
            "delete the file and run preprocess.py again"
        )


def read_blocks(paths, size):
    """All rows of the files in their order, `size` to a block; every checksum is verified."""
    pieces, missing = [], size
    for path in paths:
        data, at, number = map_records(path), 0, 0
        while at < len(data):
            bounds = walk_frames(data, at, missing, True)
            if len(bounds) == 1:
                raise damaged(path, number, at)
            pieces.append((path, number, np.array(data[at : bounds[-1]]), bounds - at))
            at, number = bounds[-1], number + len(bounds) - 1
            missing -= len(bounds) - 1
            if not missing:
                yield _joined(pieces)
                pieces, missing = [], size
    if pieces:
        yield _joined(pieces)


def _joined(pieces):
    """Pieces of files, each its bytes and the bounds of its frames, as one block."""
    starts, ends, origins, at, row = [], [], [], 0, 0
    for path, number, data, bounds in pieces:
        starts.append(at + bounds[:-1] + HEADER)
        ends.append(at + bounds[1:] - FOOTER)
        origins.append((row, path, number))
        at, row = at + len(data), row + len(bounds) - 1
    data = pieces[0][2] if len(pieces) == 1 else np.concatenate([piece[2] for piece in pieces])
    return Block(data, np.concatenate(starts), np.concatenate(ends), origins)


def decode(block, rows, types):
    """The rows numbered `rows` of a block, as columns of the features that `types` names.

    {feature: (splits int32 [n+1], values)}: a feature whose dtype is a float has float lists, the
    others have int64 lists; where a row lacks the feature it is empty.
    """
    if not types:
        return {}
    names = [np.frombuffer(name.encode(), np.uint8) for name in types]
    kinds = [np.dtype(kind) for kind in types.values()]
    tags = np.array([FLOAT_LIST if kind.kind == "f" else INT64_LIST for kind in kinds])
    keys, key_splits = np.concatenate(names), np.cumsum([0] + [len(name) for name in names])
    spans = np.zeros((len(names), len(rows), 2), np.int64)
    starts, ends = block.starts[rows], block.ends[rows]
    bad = _find_lists(block.data, starts, ends, keys, key_splits, tags, spans)
    columns = {}
    for name, kind, found in zip(types, kinds, spans, strict=True):
        splits = np.zeros(len(rows) + 1, np.int32)
        room = int((found[:, 1] - found[:, 0]).sum())  # every value takes a byte, floats take four
        if kind.kind == "f":
            values = np.empty(room // 4, kind)
            wrong = _read_floats(block.data, found, splits, values.view(np.uint8))
        else:
            values = np.empty(room, kind)
            wrong = _read_integers(block.data, found, splits, values)
        bad = wrong if bad == SOUND else bad
        columns[name] = splits, values[: splits[-1]]
    if bad != SOUND:
        raise block.bad_row(rows[bad])
    return columns


@compiled
def _get_varint(data, at, end):
    """The number at data[at] and the position behind it, which is BAD if it has no end."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return value, at
        shift += np.uint64(7)
    return value, BAD


@compiled
def _get_field(data, at, end):
    """The tag of the field at data[at], where its content begins, and where it ends or BAD."""
    tag, at = _get_varint(data, at, end)
    if at == BAD:
        return tag, at, BAD
    wire = np.int64(tag & np.uint64(7))
    if wire == DELIMITED:
        size, at = _get_varint(data, at, end)
        if at == BAD or size > np.uint64(end - at):
            return tag, at, BAD
        return tag, at, at + np.int64(size)
    if wire == VARINT:
        return tag, at, _get_varint(data, at, end)[1]
    stop = at + (8 if wire == FIXED_64 else 4)
    if stop > end or wire not in (FIXED_64, FIXED_32):
        return tag, at, BAD
    return tag, at, stop


@compiled
def _find_lists(data, starts, ends, keys, key_splits, tags, spans):
    """Where the lists of the wanted features are: spans [features, n, 2], zeros before.

    Returns the first row that is no Example, or SOUND.
    """
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        while at < end:
            tag, inner, at = _get_field(data, at, end)
            if at == BAD:
                return row
            if tag == FIELD_1 and not _find_in_map(
                data, inner, at, keys, key_splits, tags, spans, row
            ):
                return row
    return SOUND


@compiled
def _find_in_map(data, at, end, keys, key_splits, tags, spans, row):
    """The same for the map of one row; returns whether it is sound."""
    while at < end:
        tag, part, at = _get_field(data, at, end)
        if at == BAD:
            return False
        if tag != FIELD_1:
            continue
        key = key_end = value = value_end = part
        while part < at:
            tag, inner, part = _get_field(data, part, at)
            if part == BAD:
                return False
            if tag == FIELD_1:
                key, key_end = inner, part
            elif tag == ENTRY_VALUE:
                value, value_end = inner, part
        wanted = _look_up(data, key, key_end, keys, key_splits)
        while wanted >= 0 and value < value_end:
            tag, inner, value = _get_field(data, value, value_end)
            if value == BAD or tag != tags[wanted]:
                return False
            spans[wanted, row, 0], spans[wanted, row, 1] = inner, value
    return True


@compiled
def _look_up(data, start, end, keys, key_splits):
    """Which of the keys data[start:end] is, or -1."""
    for k in range(len(key_splits) - 1):
        if key_splits[k + 1] - key_splits[k] != end - start:
            continue
        same = True
        for i in range(end - start):
            same &= keys[key_splits[k] + i] == data[start + i]
        if same:
            return k
    return -1


@compiled
def _read_integers(data, spans, splits, values):
    """The values of Int64Lists, and where rows divide them; returns the first bad row or SOUND."""
    count = 0
    for row in range(len(spans)):
        at, end = spans[row]
        while at < end:
            tag, inner, at = _get_field(data, at, end)
            if at == BAD or (tag != FIELD_1 and tag != FIELD_1_VARINT):
                return row
            while inner < at:
                value, inner = _get_varint(data, inner, at)
                if inner == BAD:
                    return row
                values[count] = value
                count += 1
        splits[row + 1] = count
    return SOUND


@compiled
def _read_floats(data, spans, splits, out):
    """The same of FloatLists; `out` is the bytes of the values."""
    count = 0
    for row in range(len(spans)):
        at, end = spans[row]
        while at < end:
            tag, inner, at = _get_field(data, at, end)
            if at == BAD or (at - inner) % 4 or (tag != FIELD_1 and tag != FIELD_1_FIXED):
                return row
            for k in range(at - inner):
                out[count + k] = data[inner + k]
            count += at - inner
        splits[row + 1] = count // 4
    return SOUND
