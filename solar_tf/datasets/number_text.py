"""Lines of numbers: the kernels of `byte_parser` behind one class that words their errors."""

import re
from dataclasses import dataclass

import numpy as np

from solar_tf.datasets.source import ID_LIMIT, Block, fail, quote
from solar_tf.datasets.streams import block_bytes, count, head, line_blocks

MAX_NUMBER = 1000  # characters; nobody needs more, and converting them must not take ages
AGAIN = "download the file again, or correct its header"


@dataclass(frozen=True)
class NumberLines:
    """How to parse the lines of one file: `l,l f:v f:v`, or a part of that.

    A limit that is None is 2^31 - 1.
    """

    path: str
    skip: int = 1  # lines of header
    max_labels: int | None = None
    max_features: int | None = None
    labelled: bool = True  # lines start with `l,l`
    width: int = 0  # lines have so many values, without `f:`; 0: any number of `f:v`
    things: str = "features"  # what the `f` of `f:v` number: "features" or "labels"
    whose: str = "the header's"  # who set the limits

    def parse(self, block, without=None):
        """The rows of a block of lines, in the file's order.

        `without` is a regular expression of what to leave out of them. Returns label_splits
        [n + 1], labels, feature_splits [n + 1], features and values.
        """
        from solar_tf.datasets import byte_parser  # numba takes half a second to import

        data, num_rows = block_bytes(self.path, block), block.num_rows
        if without:
            data = without.sub(b"", data)
        num_values = len(data) // 2 + num_rows if self.width else count(data, b":")
        label_splits, feature_splits = np.zeros((2, num_rows + 1), np.int64)
        labels = np.empty(count(data, b",") + num_rows, np.int32)
        features = np.empty(0 if self.width else num_values, np.int32)
        values = np.empty(num_values, np.float32)
        doubtful = np.empty((num_values, 2), np.int64)  # takes no memory until it is filled
        error, place, num_doubtful = byte_parser.parse_rows(
            np.frombuffer(data, np.uint8), self.labelled, self.width,
            self.max_labels or ID_LIMIT, self.max_features or ID_LIMIT,
            label_splits, labels, feature_splits, features, values, doubtful,
        )  # fmt: skip
        for position, start in doubtful[:num_doubtful].tolist():
            values[position] = _python_float32(_token(data, start, rb"\s"))
            if not np.isfinite(values[position]):
                error, place = byte_parser.BAD_VALUE, start
                break
        if error:
            line = self.skip + block.first_row + data.count(b"\n", 0, place) + 1
            fail(self.path, line, *self._words(error, data, place))
        labels, num_values = labels[: label_splits[-1]], feature_splits[-1]
        return label_splits, labels, feature_splits, features[:num_values], values[:num_values]

    def _words(self, error, data, place):
        """What is wrong, and the remedy."""
        from solar_tf.datasets import byte_parser as codes

        whole, number = _token(data, place, rb"[\s,]"), _token(data, place, rb"[\s,:]")
        thing = "feature index" if self.things == "features" else "label"
        shape = "write rows as `" + "label,label " * self.labelled
        shape += "value value ...`" if self.width else f"{thing.split()[0]}:value ...`"
        mend = "correct the row or the header" if "header" in self.whose else "correct the row"
        return {
            codes.BAD_LABEL: (f"label {quote(whole)} is not a number from 0 up", shape),
            codes.LABEL_RANGE: (self._too_large("label", number, self.max_labels, "labels"), mend),
            codes.BAD_FEATURE: (f"{quote(whole)} is not a {thing} from 0 up with its value", shape),
            codes.FEATURE_RANGE: (
                self._too_large(thing, number, self.max_features, self.things),
                mend,
            ),
            codes.BAD_VALUE: (f"value {quote(whole)} is not a finite float32 number", mend),
            codes.ROW_WIDTH: (f"the row does not have the header's {self.width} values", mend),
        }[error]

    def _too_large(self, thing, number, limit, things):
        limit = f"{self.whose} {limit} {things}" if limit else ID_LIMIT
        return f"{thing} {quote(number)[1:-1]} is not below {limit}"


def _token(data, place, ends):
    end = re.compile(ends).search(data, place)
    return data[place : end.start()]


def _python_float32(token):
    """A valid decimal number as float32; infinite when it is too large or too long."""
    with np.errstate(over="ignore"):
        return np.float32(float(token) if len(token) <= MAX_NUMBER else np.inf)


def read_header(path, names):
    """The numbers of a header line such as `rows features labels`, each 1 or more."""
    first = head(path).partition(b"\n")[0]
    remedy = f"start the file with a line `{' '.join(names)}`"
    tokens = first.split()
    if len(tokens) != len(names) or not all(re.fullmatch(rb"[0-9]{1,18}", t) for t in tokens):
        fail(path, 1, f"the header {quote(first)} is not {len(names)} numbers", remedy)
    for name, number in zip(names, map(int, tokens), strict=True):
        if not 1 <= number <= ID_LIMIT:
            fail(path, 1, f"the header's {number} {name} are not from 1 to {ID_LIMIT}", remedy)
    return [int(token) for token in tokens]


def counted_blocks(path, num_rows, rows_per_block):
    """The blocks of a file whose first line says how many rows follow.

    An empty line is a row without labels and features; those after the last row are ignored.
    """
    found = 0
    for block in line_blocks(path, rows_per_block, skip=1):
        found = block.first_row + block.num_rows
        keep = max(min(num_rows - block.first_row, block.num_rows), 0)
        if keep < block.num_rows:
            lines = block_bytes(path, block).split(b"\n")
            if b"".join(lines[keep:]).strip():
                fail(path, num_rows + 2, f"more rows than the header's {num_rows}", AGAIN)
            block = Block(block.first_row, keep, (b"\n".join(lines[:keep]) + b"\n",))
        if keep:
            yield block
    if found < num_rows:
        fail(path, 1, f"the header says {num_rows} rows, the file has {found}", AGAIN)
