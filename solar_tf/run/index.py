"""The inverted index of a chunk, bucket -> labels (§3.1): build, pickle, safe load.

The file is a pickle of one dict of plain values: a format number, the counts, and the two
arrays as raw little-endian bytes beside their dtype strings. A pickled numpy array calls into
numpy to be rebuilt; a loader of numbers, strings and bytes allows no call at all, and the file is
the same, byte for byte, under every numpy. Without this module an index reads as
`np.frombuffer(content["labels"], content["labels_dtype"])`.
"""

import io
import os
import pickle
import pickletools
import stat
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from solar_tf.errors import UserError
from solar_tf.run.files import atomic_write
from solar_tf.runtime.ragged import row_splits

FORMAT = 1
PROTOCOL = 4
OFFSETS_DTYPE, LABELS_DTYPE = "<u4", "<i4"

# What a dict of numbers, strings and bytes needs. Without tuples, calls and numbered memo slots a
# pickle cannot run code, ask for more memory than it has bytes, or build keys that hash for ever.
PLAIN_OPCODES = {
    *("PROTO", "FRAME", "STOP", "MEMOIZE", "MARK", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("BININT", "BININT1", "BININT2", "SHORT_BINUNICODE"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
}
MOST_OPCODES = 64  # a saved index has about 40
OVERHEAD = 1024  # bytes of a file beside its arrays, about 180


class InvertedIndex(NamedTuple):
    """Bucket b holds `labels[offsets[b]:offsets[b + 1]]`, ascending."""

    offsets: np.ndarray  # uint32 [B + 1]
    labels: np.ndarray  # int32 [N], each label once

    @property
    def num_buckets(self):
        return len(self.offsets) - 1

    @property
    def num_labels(self):
        return len(self.labels)

    def bucket(self, bucket):
        """The labels of one bucket, ascending."""
        return self.labels[self.offsets[bucket] : self.offsets[bucket + 1]]

    def label_buckets(self):
        """The bucket of every label, int32 [N]: what the index was built from."""
        buckets = np.empty(self.num_labels, np.int32)
        buckets[self.labels] = np.repeat(np.arange(self.num_buckets), np.diff(self.offsets))
        return buckets


def build_index(label_buckets, num_buckets):
    """Invert the chunk's `label_buckets` [N] (§3.1): an InvertedIndex over B buckets."""
    sizes = np.bincount(label_buckets, minlength=num_buckets)
    if len(sizes) > num_buckets:
        raise ValueError(f"bucket {len(sizes) - 1} is not below num_buckets={num_buckets}")
    offsets = row_splits(sizes).astype(np.uint32)
    # A stable sort keeps the labels of a bucket ascending.
    return InvertedIndex(offsets, np.argsort(label_buckets, kind="stable").astype(np.int32))


def save_index(path, index):
    """Write the index to `path`, the same bytes for the same index."""
    content = {
        "format": FORMAT,
        "num_buckets": index.num_buckets,
        "num_labels": index.num_labels,
        "offsets_dtype": OFFSETS_DTYPE,
        "offsets": index.offsets.astype(OFFSETS_DTYPE).tobytes(),
        "labels_dtype": LABELS_DTYPE,
        "labels": index.labels.astype(LABELS_DTYPE).tobytes(),
    }
    content["crc32"] = _checksum(content)
    with atomic_write(path) as file:
        pickle.dump(content, file, protocol=PROTOCOL)


def load_index(path, num_buckets=None, num_labels=None):
    """The index saved at `path`; any other content is a UserError, and never runs.

    With B and N of the run's config, an index of other sizes is refused, too.
    """
    try:
        content = _unpickle(_read(path, num_buckets, num_labels))
        index = _parse(content)
        _validate(index)
        for name, expected in (("num_buckets", num_buckets), ("num_labels", num_labels)):
            if expected not in (None, content[name]):
                raise _Refused(f"{name} is {content[name]}, the run's config has {expected}")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: run preprocess.py again") from None
    except _Refused as reason:
        raise UserError(f"{path}: {reason}: delete it and run preprocess.py again") from None
    return index


def _read(path, num_buckets, num_labels):
    """The bytes of a file, unless it is longer than an index of these sizes can be."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise _Refused("not a file")
    if None not in (num_buckets, num_labels):
        most = 4 * (num_buckets + 1 + num_labels) + OVERHEAD
        if status.st_size > most:
            raise _Refused(f"{status.st_size} bytes, where an index has {most} at most")
    return Path(path).read_bytes()


class _Refused(Exception):
    """Why a file is not an index; load_index adds its name and what to do."""


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every global: a second lock behind the list of opcodes."""

    def find_class(self, module, name):
        raise _Refused(f"its pickle asks for {module}.{name}")

    def persistent_load(self, pid):
        raise _Refused("its pickle asks for an outside object")


def _unpickle(data):
    """The plain value pickled in `data`, read only if all its opcodes are plain."""
    try:
        # genops walks the opcodes without acting on them, and refuses any size beyond the data.
        for count, (opcode, _, position) in enumerate(pickletools.genops(data)):
            if opcode.name not in PLAIN_OPCODES or count == MOST_OPCODES:
                raise _Refused(f"not an index: {opcode.name} in its pickle, byte {position}")
        if position + 1 != len(data):
            raise _Refused(f"not an index: more data after byte {position}")
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused:
        raise
    except Exception:  # damaged data makes pickle raise anything
        raise _Refused("not an index, or damaged") from None


def _parse(content):
    """Turn the unpickled content into an InvertedIndex, trusting none of it."""
    if type(content) is not dict or "format" not in content:
        raise _Refused("not an index: no format number")
    if content["format"] != FORMAT:
        # Only a number is printed: another value may be as long as the file.
        found = content["format"] if type(content["format"]) is int else "unknown"
        raise _Refused(f"index format {found}, this version reads {FORMAT}")
    types = {
        **dict.fromkeys(("format", "num_buckets", "num_labels"), int),
        **dict.fromkeys(("offsets_dtype", "labels_dtype", "crc32"), str),
        **dict.fromkeys(("offsets", "labels"), bytes),
    }
    if {key: type(value) for key, value in content.items()} != types:
        raise _Refused("not an index: its fields are not those of the format")
    if (content["offsets_dtype"], content["labels_dtype"]) != (OFFSETS_DTYPE, LABELS_DTYPE):
        raise _Refused(f"its arrays are not of dtypes {OFFSETS_DTYPE} and {LABELS_DTYPE}")
    for name, count in (("offsets", content["num_buckets"] + 1), ("labels", content["num_labels"])):
        if len(content[name]) != 4 * count:
            raise _Refused(f"damaged: {len(content[name])} bytes of {name} do not fit its counts")
    if content["crc32"] != _checksum(content):
        raise _Refused("damaged: its checksum is wrong")
    # astype copies: native byte order, aligned, writable, and the file's bytes can go.
    return InvertedIndex(
        np.frombuffer(content["offsets"], OFFSETS_DTYPE).astype(np.uint32),
        np.frombuffer(content["labels"], LABELS_DTYPE).astype(np.int32),
    )


def _checksum(content):
    return f"{zlib.crc32(content['labels'], zlib.crc32(content['offsets'])):08x}"


def _validate(index):
    """Check what lookups without bounds checks rely on."""
    offsets, labels, size = index.offsets, index.labels, index.num_labels
    if not (len(offsets) > 1 and offsets[0] == 0 and offsets[-1] == size):
        raise _Refused("damaged: its buckets do not cover its labels")
    if (offsets[1:] < offsets[:-1]).any():
        raise _Refused("damaged: its offsets descend")
    if size and (labels.min() != 0 or labels.max() != size - 1 or np.bincount(labels).max() > 1):
        raise _Refused("damaged: its labels are not 0 to N - 1, each once")
    ascends = np.ones(size + 1, dtype=bool)
    ascends[1:-1] = labels[1:] > labels[:-1]
    ascends[offsets] = True  # a new bucket may start lower
    if not ascends.all():
        raise _Refused("damaged: the labels of a bucket are not ascending")


def open_index(run, chunk):
    """The index of a chunk; its sizes must be the run's."""
    sizes = run.config.num_buckets, run.dataset["num_labels"]
    return load_index(run.paths.index(chunk), *sizes)


def load_balance(index):
    """Bucket sizes beside their expectation (§3.1: "load-balanced").

    Hashing makes the sizes binomial(N, 1/B), not equal. The expected min and max are the sizes
    that one bucket in B falls below or exceeds. Returns {"measured": {...}, "binomial": {...}},
    each with min, max, mean, std and p99.
    """
    from scipy.stats import binom  # slow to import, and retrieval's workers do not need it

    sizes = np.diff(index.offsets.astype(np.int64))
    expected = binom(index.num_labels, 1 / index.num_buckets)
    rare = 1 / index.num_buckets
    measured = sizes.min(), sizes.max(), sizes.mean(), sizes.std(), np.percentile(sizes, 99)
    binomial = (
        *(expected.ppf(rare), expected.isf(rare)),
        *(expected.mean(), expected.std(), expected.ppf(0.99)),
    )
    names = ("min", "max", "mean", "std", "p99")
    return {
        "measured": dict(zip(names, map(float, measured), strict=True)),
        "binomial": dict(zip(names, map(float, binomial), strict=True)),
    }
