"""Features and labels in two files: text, scipy's CSR .npz or dense .npy, in any combination.

Each of the two is a matrix with a row per row of the data; `PairSource` zips them.
"""

import contextlib
import os
import re
import zipfile
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from solar_tf.datasets.number_text import NumberLines, check_width, counted_blocks, read_header
from solar_tf.datasets.source import (
    ID_LIMIT,
    MAX_WIDTH,
    Block,
    Source,
    fail,
    make_rows,
    row_of_first,
)
from solar_tf.datasets.streams import head
from solar_tf.errors import UserError

AGAIN = "save or download it again"
ZIP, NPY = b"PK\x03\x04", b"\x93NUMPY"


@dataclass(frozen=True)
class Matrix:
    """A file with a matrix, read in blocks of rows."""

    path: str
    num_rows: int
    num_columns: int
    things: str  # what the columns are: "features" or "labels"
    is_dense: bool = False

    header_lines: ClassVar[int] = 0  # row i is line i + 1 + header_lines

    def blocks(self, rows_per_block):
        raise NotImplementedError

    def parse(self, block):
        """CSR splits int64 [n + 1], columns int32, values float32; or dense float32 [n, d]."""
        raise NotImplementedError

    def fail(self, row, what, remedy):
        fail(self.path, row + 1 + self.header_lines, what, remedy)


class TextMatrix(Matrix):
    """A header `rows columns`, then lines `column:value ...`, or dense lines `value value ...`.

    The paper's Wiki-500K and Amazon-670K are `trn_ft_mat_dense.txt` beside `trn_lbl_mat.txt`.
    """

    header_lines = 1

    @classmethod
    def open(cls, path, things):
        num_rows, num_columns = read_header(path, ("rows", things))
        _, _, rows = head(path).partition(b"\n")
        first = rows.lstrip().partition(b"\n")[0]
        is_dense = things == "features" and bool(first) and b":" not in first
        if is_dense:
            check_width(path, num_columns, "write them as `column:value`")
        return cls(path, num_rows, num_columns, things, is_dense)

    def blocks(self, rows_per_block):
        return counted_blocks(self.path, self.num_rows, rows_per_block)

    def parse(self, block):
        limits = {"width" if self.is_dense else "max_features": self.num_columns}
        lines = NumberLines(self.path, labelled=False, things=self.things, **limits)
        _, _, *sparse = lines.parse(block)
        return sparse[-1].reshape(-1, self.num_columns) if self.is_dense else sparse


@contextlib.contextmanager
def _reading(path):
    """Any exception of numpy's and zipfile's decoders means a damaged file."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        fail(path, None, f"not a valid array file ({reason})", AGAIN)


class _Member:
    """One array of an .npz, read from front to back: `take` its next values."""

    def __init__(self, archive, name, kinds):
        info = archive.getinfo(f"{name}.npy")
        self.stream = archive.open(info)
        version = np.lib.format.read_magic(self.stream)
        read = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}[version]
        self.shape, _, self.dtype = getattr(np.lib.format, read)(self.stream)
        self.size = int(np.prod(self.shape, dtype=object))
        if self.dtype.kind not in kinds or self.dtype.itemsize > 64:
            raise ValueError(f"{name} is of the type {self.dtype}")
        if self.stream.tell() + self.size * self.dtype.itemsize != info.file_size:
            raise ValueError(f"{name} is cut short")

    def take(self, count):
        raw = self.stream.read(count * self.dtype.itemsize)
        return np.frombuffer(raw, self.dtype, count)

    def take_all(self):
        values = self.take(self.size)
        self.end()
        return values

    def end(self):
        if self.stream.read(1):  # reading to the end checks the CRC, too
            raise ValueError("more values than rows need")


class CsrMatrix(Matrix):
    """What scipy.sparse.save_npz makes of a CSR matrix; streamed, not loaded."""

    @classmethod
    def open(cls, path, things):
        with _reading(path), zipfile.ZipFile(path) as archive:
            stored = _Member(archive, "format", "SU").take_all().tolist()
            if stored not in ([b"csr"], ["csr"]):
                fail(path, None, f"a matrix in the form {stored}, not CSR", "save its .tocsr()")
            shape = _Member(archive, "shape", "iu").take_all().tolist()
            if len(shape) != 2 or not all(1 <= size <= ID_LIMIT for size in shape):
                raise ValueError(f"its shape is {shape}")
            return cls(path, *shape, things)

    def blocks(self, rows_per_block):
        with _reading(self.path), zipfile.ZipFile(self.path) as archive:
            splits = _Member(archive, "indptr", "iu").take_all().astype(np.int64)
            columns, values = _Member(archive, "indices", "iu"), _Member(archive, "data", "biuf")
            sizes = (len(splits), *splits[[0, -1]].tolist(), values.size)
            if sizes != (self.num_rows + 1, 0, columns.size, columns.size):
                raise ValueError("its arrays do not fit together")
            if np.any(np.diff(splits) < 0):
                raise ValueError("its indptr decreases")
            for first in range(0, self.num_rows, rows_per_block):
                part = splits[first : first + rows_per_block + 1]
                count = int(part[-1] - part[0])
                parts = (part - part[0], columns.take(count), values.take(count))
                yield Block(first, len(part) - 1, parts)
            columns.end()
            values.end()

    def parse(self, block):
        splits, columns, values = block.parts
        values = _float32(values)
        for bad, what in (
            ((columns < 0) | (columns >= self.num_columns), "a column beyond the matrix' shape"),
            (~np.isfinite(values), "a value that is not a finite float32"),
        ):
            if bad.any():
                self.fail(block.first_row + row_of_first(splits, bad), what, AGAIN)
        return splits, columns.astype(np.int32), values


class DenseMatrix(Matrix):
    """A two-dimensional .npy; blocks are ranges of rows, which the parsing process maps."""

    @classmethod
    def open(cls, path, things):
        return cls(path, *_mapped(path).shape, things, is_dense=True)

    def blocks(self, rows_per_block):
        for first in range(0, self.num_rows, rows_per_block):
            yield Block(first, min(rows_per_block, self.num_rows - first), ())

    def parse(self, block):
        rows = _mapped(self.path)[block.first_row : block.first_row + block.num_rows]
        rows = np.ascontiguousarray(_float32(rows))
        good = np.isfinite(rows).all(axis=1)
        if not good.all():
            row = block.first_row + int(np.argmin(good))
            self.fail(row, "a value that is not a finite float32", AGAIN)
        return rows


def _mapped(path):
    with _reading(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        rows, width = array.shape if array.ndim == 2 else (0, 0)
        if not (1 <= rows <= ID_LIMIT and 1 <= width <= MAX_WIDTH and array.dtype.kind in "biuf"):
            raise ValueError(f"its shape is {array.shape}, its type {array.dtype}")
        return array


def _float32(values):
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def open_matrix(path, things):
    """Text, .npz or .npy, by content."""
    start = head(path, 6)
    if start.startswith(ZIP):
        return CsrMatrix.open(path, things)
    if start.startswith(NPY):
        return DenseMatrix.open(path, things)
    return TextMatrix.open(path, things)


@dataclass(frozen=True)
class PairSource(Source):
    """Features and labels in two files, such as `trn_X_Xf.txt` and `trn_X_Y.txt`.

    A label counts where its value is positive; 0 and less are errors.
    """

    features: Matrix = field(kw_only=True)
    labels: Matrix = field(kw_only=True)

    format = "pair"

    @property
    def kind(self):
        return "dense" if self.features.is_dense else "sparse"

    @property
    def label_path(self):
        return self.labels.path

    @classmethod
    def open(cls, path, label_path=None):
        features = open_matrix(path, "features")
        labels = open_matrix(label_path or _label_path(path), "labels")
        if labels.is_dense:
            fail(labels.path, None, "labels in a dense matrix", "save them as a CSR .npz")
        if labels.num_rows != features.num_rows:
            what = f"{labels.num_rows} rows of labels for {features.num_rows} rows of features"
            fail(labels.path, None, what, "give two files of the same split")
        sizes = (features.num_rows, features.num_columns, labels.num_columns)
        return cls(path, *sizes, features=features, labels=labels)

    def blocks(self, rows_per_block):
        both = (self.features.blocks(rows_per_block), self.labels.blocks(rows_per_block))
        for features, labels in zip(*both, strict=True):
            yield Block(features.first_row, features.num_rows, (features, labels))

    def parse(self, block):
        features, labels = block.parts
        splits, columns, values = self.labels.parse(labels)
        if not np.all(values > 0):
            row = block.first_row + row_of_first(splits, ~(values > 0))
            self.labels.fail(row, "a label whose value is not positive", "leave the label out")
        line = block.first_row + 1 + self.features.header_lines
        inputs = {self.kind: self.features.parse(features)}
        return make_rows(self.path, line, splits, columns, **inputs)


_LABEL_NAMES = (  # how a file of features is called, and the file of its labels
    (r"_Xf(\.[^/]*)$", r"_Y\1"),  # trn_X_Xf.txt, trn_X_Y.txt
    (r"_ft_mat(_dense)?(\.[^/]*)$", r"_lbl_mat\2"),  # trn_ft_mat_dense.txt, trn_lbl_mat.txt
    (r"X(\.\w+)?\.np[yz]$", r"Y\1.npz"),  # trn_X.npy, trn_Y.npz; X.trn.npz, Y.trn.npz
    (r"X(\.\w+)?\.np[yz]$", r"Y\1.txt"),
)


def _label_path(path):
    """The file of labels that goes with a file of features, by its name."""
    for pattern, name in _LABEL_NAMES:
        found = re.sub(pattern, name, path)
        if found != path and os.path.exists(found):
            return found
    return fail(path, None, "no file of labels beside it", "name the file of its labels")
