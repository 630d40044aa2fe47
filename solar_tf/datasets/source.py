"""The interface of every reader: raw blocks of rows, and rows.

The process that reads a file only cuts it into blocks, which is cheap; any other
process parses them. So preprocessing runs in parallel whatever the format, and
needs the memory of a few blocks whatever the size of the file.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, NoReturn

import numpy as np

from solar_tf.errors import UserError
from solar_tf.runtime.console import progress
from solar_tf.runtime.ragged import row_numbers, row_splits
from solar_tf.runtime.workers import run_tasks

ID_LIMIT = 2**31 - 1  # labels and features are int32
COUNT_LIMIT = 2**28  # number of different labels or features; arrays have that length
MAX_WIDTH = 1 << 16  # values of a dense row; a false header must not take all memory
ROWS_PER_BLOCK = 16_384  # one task of a worker; in stage 1, one shard of the run


def fail(path, line, what, remedy) -> NoReturn:
    """Raise the one-line UserError `path:line: what: remedy`; `line` may be None."""
    place = path if line is None else f"{path}:{line}"
    raise UserError(f"{place}: {what}: {remedy}")


def count_ids(path, ids, things):
    """How often each id occurs, [largest + 1]; UserError where that would take all memory."""
    largest = int(ids.max(initial=-1))
    if largest >= COUNT_LIMIT:
        remedy = f"number the {things} from 0 up without gaps, at most {COUNT_LIMIT:,}"
        fail(path, None, f"{things[:-1]} {largest} is too large", remedy)
    return np.bincount(ids)


def add_counts(one, two):
    """The sum of two arrays of counts, the shorter one padded with zeros."""
    longer = max(len(one), len(two))
    return np.pad(one, (0, longer - len(one))) + np.pad(two, (0, longer - len(two)))


def quote(token):
    """A token of a file (str or bytes) for a message: printable, and not too long."""
    text = token.decode("utf-8", "backslashreplace") if isinstance(token, bytes) else token
    return repr(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a source, not parsed yet.

    `parts` is private to the source: whole lines as bytes, one part per file, or slices of arrays.
    """

    first_row: int
    num_rows: int
    parts: tuple
    share: float | None = None  # of the file that has been read so far, for a progress bar


@dataclass(frozen=True)
class Rows:
    """n parsed rows: their labels (CSR), and one of texts, sparse or dense features.

    Labels and features are sorted and unique within a row: a label named twice counts
    once, the values of a feature named twice are added up. The counters say how often.
    """

    label_splits: np.ndarray  # int64 [n + 1]
    labels: np.ndarray  # int32 [label_splits[n]]
    texts: list[str] | None = None  # [n]
    feature_splits: np.ndarray | None = None  # int64 [n + 1]
    features: np.ndarray | None = None  # int32 [feature_splits[n]]
    values: np.ndarray | None = None  # float32 [feature_splits[n]], finite
    dense: np.ndarray | None = None  # float32 [n, d], finite
    num_duplicate_labels: int = 0
    num_duplicate_features: int = 0

    def __len__(self):
        return len(self.label_splits) - 1

    @property
    def num_unlabelled(self):
        return int(np.count_nonzero(np.diff(self.label_splits) == 0))

    @property
    def num_featureless(self):
        """Rows without any input: an empty title, or no features."""
        if self.texts is not None:
            return sum(not text.strip() for text in self.texts)
        if self.dense is not None:
            return 0
        return int(np.count_nonzero(np.diff(self.feature_splits) == 0))


def make_rows(path, first_line, label_splits, labels, *, sparse=None, texts=None, dense=None):
    """Rows from labels (CSR) and inputs as a file has them, in any order and with duplicates.

    `sparse` is (splits, features, values). `path` and `first_line` are for error messages.
    """
    splits, labels, _, repeats = merge_duplicates(label_splits, labels)
    if sparse is None:
        return Rows(splits, labels, texts, dense=dense, num_duplicate_labels=repeats)
    *sparse, repeated_features = merge_duplicates(*sparse)
    if repeated_features and not np.isfinite(sparse[2]).all():
        line = first_line + row_of_first(sparse[0], ~np.isfinite(sparse[2]))
        fail(path, line, "a repeated feature adds up to infinity", "correct the row")
    return Rows(splits, labels, None, *sparse, None, repeats, repeated_features)


def concatenate(pieces):
    """One Rows of a non-empty sequence of them, in order."""

    def join(name, values):
        if values[0] is None:
            return None
        if name.startswith("num_"):
            return sum(values)
        if name == "texts":
            return [text for texts in values for text in texts]
        if name.endswith("_splits"):
            return row_splits(np.concatenate([np.diff(splits) for splits in values]))
        return np.concatenate(values)

    pieces = list(pieces)
    names = [field.name for field in fields(Rows)]
    return Rows(**{name: join(name, [getattr(p, name) for p in pieces]) for name in names})


@dataclass(frozen=True)
class Source:
    """One split (train or test) of a dataset. Small and picklable; holds no open file.

    What a file does not tell before it is read to its end is None.
    """

    path: str
    num_rows: int | None = None
    num_features: int | None = None
    num_labels: int | None = None

    kind: ClassVar[str]  # "text", "sparse" or "dense"
    format: ClassVar[str]  # its name in `formats.FORMATS`

    @classmethod
    def open(cls, path):
        """What is known of a file before its rows are read."""
        return cls(path)

    @property
    def label_path(self):
        """The file of the labels, where they have one of their own."""
        return None

    def blocks(self, rows_per_block) -> Iterator[Block]:
        """Stream the rows, `rows_per_block` at a time (fewer in the last block)."""
        raise NotImplementedError

    def parse(self, block) -> Rows:
        """The rows of a block, in any process; bad input is a UserError."""
        raise NotImplementedError

    def read(self, rows_per_block=10_000) -> Rows:
        """All rows at once, for data known to be small."""
        return concatenate(self.parse(block) for block in self.blocks(rows_per_block))

    def count_rows(self):
        """The number of rows, for which some formats have to be read to their end."""
        return self.num_rows or sum(block.num_rows for block in self.blocks(100_000))


@dataclass(frozen=True)
class Head:
    """The first blocks of a source, otherwise like it: a sample for cost estimates."""

    source: Source
    num_blocks: int
    num_rows = None

    def blocks(self, rows_per_block):
        return itertools.islice(self.source.blocks(rows_per_block), self.num_blocks)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "source"), name)


def tracked_blocks(source, bar, before=0):
    """The blocks of a source, which give a progress bar its total where no header states it.

    `before` is the number of rows of other sources on the same bar.
    """
    for block in source.blocks(ROWS_PER_BLOCK):
        if source.num_rows is None and block.share:
            bar.total = before + round((block.first_row + block.num_rows) / block.share)
        yield block


def map_blocks(function, source, workers, what="reading", start=()):
    """Yield the result of `function` for every block of a source, in order, with a progress bar.

    The function returns its number of rows and the result. `start` is the workers' initializer
    and its arguments, as `run_tasks` takes them.
    """
    with progress(source.num_rows, what, "row") as bar:
        for num_rows, result in run_tasks(function, tracked_blocks(source, bar), workers, *start):
            yield result
            bar.update(num_rows)


def merge_duplicates(splits, ids, values=None):
    """Sort the ids of every row; add up the values of equal ones, or drop the repeats.

    Takes and returns CSR arrays (splits [n + 1], ids, values or None), and the number of
    ids that were dropped.
    """
    rows = row_numbers(splits)
    keys = rows << 32 | ids
    if np.all(keys[1:] > keys[:-1]):  # nearly every file is in order
        return splits, ids, values, 0
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if values is not None:
        with np.errstate(over="ignore"):  # a sum beyond float32 is inf, for the caller to see
            sums = np.add.reduceat(values[order], first, dtype=np.float64)
            values = sums.astype(values.dtype)
    kept = order[first]
    splits = row_splits(np.bincount(rows[kept], minlength=len(splits) - 1))
    return splits, ids[kept], values, len(ids) - len(kept)


def group_pairs(rows, ids, num_rows):
    """Pairs (row, id) in any order as CSR: splits int64 [num_rows + 1], unique ids int32."""
    order = np.argsort(rows, kind="stable")
    splits = row_splits(np.bincount(rows, minlength=num_rows))
    return merge_duplicates(splits, ids[order].astype(np.int32))[:2]


def row_of_first(splits, bad):
    """The row of CSR `splits` [n + 1] that holds the first True of `bad`."""
    return int(np.searchsorted(splits, np.argmax(bad), side="right")) - 1
