"""Data that is in memory already, as the Python API takes it: titles or matrices, and labels."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from solar_tf.datasets.dataset import Dataset
from solar_tf.datasets.source import (
    ID_LIMIT,
    MAX_WIDTH,
    Block,
    Source,
    fail,
    make_rows,
    merge_duplicates,
    row_of_first,
)
from solar_tf.runtime.ragged import row_splits, slice_rows


def as_inputs(X: Any) -> tuple[str, Any]:
    """The kind of some inputs and the inputs: texts, a CSR matrix, or float32 [n, d]."""
    if isinstance(X, str | os.PathLike):
        fail("X", None, "a single text", "give a list of texts")
    if scipy.sparse.issparse(X):
        matrix = scipy.sparse.csr_matrix(X)
        _check_numbers(matrix.data)
        return "sparse", matrix.astype(np.float32)
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        if X.ndim != 2 or not 1 <= X.shape[1] <= MAX_WIDTH:
            remedy = f"give rows of 1 to {MAX_WIDTH} numbers"
            fail("X", None, f"an array of the shape {X.shape}", remedy)
        _check_numbers(X)
        return "dense", np.ascontiguousarray(X, np.float32)
    texts = list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            remedy = "give a list of texts, a scipy matrix or an array of numbers"
            fail("X", row, f"a {type(text).__name__}, not a text", remedy)
    return "text", [str(text) for text in texts]


def _check_numbers(values):
    with np.errstate(over="ignore"):
        good = np.isfinite(values.astype(np.float32)).all()
    if not good:
        fail("X", None, "NaN, Inf or a number beyond float32", "leave such values out")


def as_labels(Y: Any, num_labels: int | None = None) -> tuple[np.ndarray, np.ndarray, int]:
    """Labels of rows as CSR: splits int64 [n + 1], labels int32, and their number N.

    Y is a matrix [n, N] whose non-zeros are the labels, or a list of labels for each row.
    """
    if scipy.sparse.issparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2):
        matrix = scipy.sparse.csr_matrix(Y)
        matrix.eliminate_zeros()
        splits, labels = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        stated = matrix.shape[1]
        if num_labels not in (None, stated):
            what = f"{stated} columns, where there are {num_labels} labels"
            fail("Y", None, what, "give a column for each label")
    else:
        rows = [_row(row, labels) for row, labels in enumerate(Y)]
        splits = row_splits(list(map(len, rows)))
        labels = np.concatenate([np.zeros(0, np.int64), *rows])
        stated = num_labels or int(labels.max(initial=-1)) + 1
    outside = (labels < 0) | (labels >= min(stated, ID_LIMIT))
    if outside.any():
        what = f"label {labels[outside][0]} is not within 0 and {stated - 1}"
        fail("Y", row_of_first(splits, outside), what, "number the labels from 0 up")
    splits, labels, _, _ = merge_duplicates(splits, labels.astype(np.int32))
    return splits, labels, stated


def _row(row, labels):
    array = np.asarray(labels if np.iterable(labels) else [labels])
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        fail("Y", row, f"{labels!r:.40} are no labels", "give a list of numbers for each row")
    return array.astype(np.int64)


@dataclass(frozen=True)
class MemorySource(Source):
    """Rows in memory. Blocks carry their rows, so what goes to other processes stays small."""

    inputs: Any = field(default=None, kw_only=True, repr=False, compare=False)
    label_splits: Any = field(default=None, kw_only=True, repr=False, compare=False)
    labels: Any = field(default=None, kw_only=True, repr=False, compare=False)
    kind: str = field(default="text", kw_only=True)  # type: ignore[misc]

    format = "memory"

    def __getstate__(self):
        return self.__dict__ | {"inputs": None, "label_splits": None, "labels": None}

    def blocks(self, rows_per_block):
        for first in range(0, self.num_rows, rows_per_block):
            last = min(first + rows_per_block, self.num_rows)
            labels = slice_rows(self.label_splits, self.labels, first, last)
            yield Block(first, last - first, (self.inputs[first:last], *labels))

    def parse(self, block):
        inputs, *labels = block.parts
        if self.kind == "sparse":
            inputs = inputs.indptr.astype(np.int64), inputs.indices, inputs.data
        name = "texts" if self.kind == "text" else self.kind
        return make_rows(self.path, block.first_row, *labels, **{name: inputs})


@dataclass(frozen=True)
class MemoryDataset(Dataset):
    """A dataset of MemorySources; it has no files."""

    def fingerprint(self):
        """The same as for files, but of the content in memory."""
        source = self.train
        if source.kind == "text":
            inputs = [_joined(source.inputs)]
        elif source.kind == "sparse":
            inputs = [source.inputs.indptr, source.inputs.indices, source.inputs.data]
        else:
            inputs = [source.inputs]
        digest, size = hashlib.sha256(), 0
        for piece in (
            *inputs,
            source.label_splits,
            source.labels,
            _joined(self.label_titles or ()),
        ):
            view = memoryview(piece if isinstance(piece, bytes) else np.ascontiguousarray(piece))
            size += view.nbytes
            digest.update(view)
        return {"train": {"name": self.name, "bytes": size, "sha256": digest.hexdigest()}}


def _joined(texts):
    return "\0".join(texts).encode("utf-8", "surrogatepass")


def open_arrays(X: Any, Y: Any, label_titles: Sequence[str] | None = None) -> MemoryDataset:
    """The dataset of training rows in memory."""
    kind, inputs = as_inputs(X)
    titles = None
    if label_titles is not None:
        titles = [" ".join(str(title).splitlines()) for title in label_titles]
    splits, labels, num_labels = as_labels(Y, titles and len(titles))
    num_rows = inputs.shape[0] if kind != "text" else len(inputs)
    if num_rows != len(splits) - 1:
        what = f"{len(splits) - 1} rows, where X has {num_rows}"
        fail("Y", None, what, "give the labels of every row")
    if not num_rows:
        fail("X", None, "no rows", "give some")
    width = None if kind == "text" else inputs.shape[1]
    source = MemorySource(
        "X", num_rows, width, num_labels,
        inputs=inputs, label_splits=splits, labels=labels, kind=kind,
    )  # fmt: skip
    return MemoryDataset("memory", source, None, titles)
