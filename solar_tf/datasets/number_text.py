"""Rows of numbers in text: XML-Repo, svmlight, dense vectors. `byte_parser` has the kernels."""

import re
from dataclasses import dataclass, replace

import numpy as np

from solar_tf.datasets.source import ID_LIMIT, MAX_WIDTH, Block, Source, fail, make_rows, quote
from solar_tf.datasets.streams import block_bytes, count, head, line_blocks
from solar_tf.runtime.ragged import row_numbers

MAX_NUMBER = 1000  # characters of a number; converting longer ones could take ages
AGAIN = "download the file again, or correct its header"
NOT_DATA = re.compile(rb"#[^\n]*|(?<=[ \t])qid:[0-9]+(?=[ \t\n])")  # of svmlight


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
    width: int = 0  # number of values in a line without `f:`; 0: any number of `f:v`
    things: str = "features"  # what the `f` of `f:v` number: "features" or "labels"
    whose: str = "the header's"  # who set the limits, for messages

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

        def too_large(thing, limit, things):
            limit = f"{self.whose} {limit} {things}" if limit else ID_LIMIT
            return f"{thing} {quote(number)[1:-1]} is not below {limit}", mend

        return {
            codes.BAD_LABEL: (f"label {quote(whole)} is not a number from 0 up", shape),
            codes.LABEL_RANGE: too_large("label", self.max_labels, "labels"),
            codes.BAD_FEATURE: (f"{quote(whole)} is not a {thing} from 0 up with its value", shape),
            codes.FEATURE_RANGE: too_large(thing, self.max_features, self.things),
            codes.BAD_VALUE: (f"value {quote(whole)} is not a finite float32 number", mend),
            codes.ROW_WIDTH: (f"the row does not have the header's {self.width} values", mend),
        }[error]


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


def check_width(path, width, remedy):
    """Refuse dense rows that are too wide."""
    if width > MAX_WIDTH:
        fail(path, 1, f"dense rows of {width} values, more than {MAX_WIDTH}", remedy)


@dataclass(frozen=True)
class XmlRepoSource(Source):
    """XML-Repo text: a header `rows features labels`, then lines `label,label feature:value ...`.

    Rows without labels start with a blank, or with their first feature.
    """

    kind = "sparse"
    format = "xmlrepo"

    @classmethod
    def open(cls, path):
        return cls(path, *read_header(path, ("rows", "features", "labels")))

    def blocks(self, rows_per_block):
        return counted_blocks(self.path, self.num_rows, rows_per_block)

    def parse(self, block):
        lines = NumberLines(self.path, 1, self.num_labels, self.num_features)
        splits, labels, *sparse = lines.parse(block)
        return make_rows(self.path, block.first_row + 2, splits, labels, sparse=sparse)


@dataclass(frozen=True)
class DenseTextSource(XmlRepoSource):
    """Vectors: a header `rows values labels`, then lines `label,label value value ...`.

    Lines `label,label feature:value ...` are accepted, too; what they leave out is 0.
    """

    pairs: bool = False  # lines have `feature:value`

    kind = "dense"
    format = "dense-text"

    @classmethod
    def open(cls, path):
        num_rows, width, num_labels = read_header(path, ("rows", "values", "labels"))
        check_width(path, width, "read the file as xmlrepo")
        _, _, rows = head(path).partition(b"\n")
        return cls(path, num_rows, width, num_labels, b":" in rows.partition(b"\n")[0])

    def parse(self, block):
        if self.pairs:
            rows = super().parse(block)
            dense = np.zeros((len(rows), self.num_features), np.float32)
            dense[row_numbers(rows.feature_splits), rows.features] = rows.values
            return replace(rows, feature_splits=None, features=None, values=None, dense=dense)
        lines = NumberLines(self.path, 1, self.num_labels, width=self.num_features)
        splits, labels, _, _, values = lines.parse(block)
        dense = values.reshape(-1, self.num_features)
        return make_rows(self.path, block.first_row + 2, splits, labels, dense=dense)


@dataclass(frozen=True)
class SvmlightSource(Source):
    """svmlight: lines `label,label feature:value ... # comment`, no header, qid ignored.

    Features keep the numbers that they have, from 0 or from 1: feature hashing does not care.
    Lines of comment are accepted at the top of the file only, so that rows stay countable.
    """

    skip: int = 0  # lines of comment at the top

    kind = "sparse"
    format = "svmlight"

    @classmethod
    def open(cls, path):
        start = head(path)
        top = re.match(rb"(?:#[^\n]*(?:\n|$))*", start)[0]
        if top == start:
            fail(path, 1, "only comments at its start", "give rows, or a shorter comment")
        return cls(path, skip=top.count(b"\n"))

    def blocks(self, rows_per_block):
        return line_blocks(self.path, rows_per_block, self.skip)

    def parse(self, block):
        lines = NumberLines(self.path, self.skip, self.num_labels, self.num_features, whose="the")
        splits, labels, *sparse = lines.parse(block, without=NOT_DATA)
        first_line = self.skip + block.first_row + 1
        rows = make_rows(self.path, first_line, splits, labels, sparse=sparse)
        empty = (np.diff(rows.label_splits) == 0) & (np.diff(rows.feature_splits) == 0)
        if empty.any():
            line = first_line + int(np.argmax(empty))
            fail(self.path, line, "a line without labels and features", "remove it")
        return rows
