"""The interface of every reader: raw blocks of rows, and rows.

The process that reads a file only cuts it into blocks, which is cheap; any other
process parses them. So preprocessing runs in parallel whatever the format, and
needs the memory of a few blocks whatever the size of the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, NoReturn

import numpy as np

from solar_tf.errors import UserError
from solar_tf.runtime.ragged import row_splits

ID_LIMIT = 2**31 - 1  # labels and features are int32
COUNT_LIMIT = 2**28  # of different labels or features: there are arrays of that length


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


def quote(token):
    """A token of a file (str or bytes) for a message: printable, and not too long."""
    text = token.decode("utf-8", "backslashreplace") if isinstance(token, bytes) else token
    return repr(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a source, not parsed yet.

    `parts` is the source's own business: whole lines as bytes, one part per file, or
    slices of arrays.
    """

    first_row: int
    num_rows: int
    parts: tuple
    share: float | None = None  # of the file that is read with it; what a progress bar needs


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
            return np.cumsum(np.concatenate([[0], *map(np.diff, values)]), dtype=np.int64)
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


def merge_duplicates(splits, ids, values=None):
    """Sort the ids of every row; add up the values of equal ones, or drop the repeats.

    Takes and returns CSR arrays (splits [n + 1], ids, values or None), and the number of
    ids that went.
    """
    num_rows = len(splits) - 1
    rows = np.repeat(np.arange(num_rows), np.diff(splits))
    keys = rows << 32 | ids
    if np.all(keys[1:] > keys[:-1]):  # nearly every file is in order
        return splits, ids, values, 0
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if values is not None:
        with np.errstate(over="ignore"):  # a sum beyond float32 is inf, for the caller to see
            sums = np.add.reduceat(values[order], first, dtype=np.float64)
            values = sums.astype(values.dtype)
    kept = np.bincount(rows[order][first], minlength=num_rows)
    splits = row_splits(kept)
    return splits, ids[order][first], values, len(ids) - len(first)


def row_of_first(splits, bad):
    """The row of CSR `splits` [n + 1] that holds the first True of `bad`."""
    return int(np.searchsorted(splits, np.argmax(bad), side="right")) - 1
