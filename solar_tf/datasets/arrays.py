"""Data that is in memory already, as the Python API takes it: titles or matrices, and labels."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from solar_tf.datasets.dataset import Dataset
from solar_tf.datasets.source import ID_LIMIT, Block, Rows, Source, fail, merge_duplicates
from solar_tf.datasets.sparse_text import MAX_WIDTH, sparse_rows


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
        rows = [_row(row, of) for row, of in enumerate(Y)]
        splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        labels = np.concatenate([np.zeros(0, np.int64), *rows])
        stated = num_labels or int(labels.max(initial=-1)) + 1
    outside = (labels < 0) | (labels >= min(stated, ID_LIMIT))
    if outside.any():
        row = int(np.searchsorted(splits, np.argmax(outside), side="right")) - 1
        remedy = "number the labels from 0 up"
        what = f"label {labels[outside][0]} is not within 0 and {stated - 1}"
        fail("Y", row, what, remedy)
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
            rows = slice(first, min(first + rows_per_block, self.num_rows))
            splits = self.label_splits[rows.start : rows.stop + 1]
            labels = self.labels[splits[0] : splits[-1]]
            parts = self.inputs[rows], splits - splits[0], labels
            yield Block(first, rows.stop - rows.start, parts)

    def parse(self, block):
        inputs, splits, labels = block.parts
        if self.kind == "text":
            return Rows(splits, labels, texts=inputs)
        if self.kind == "dense":
            return Rows(splits, labels, dense=inputs)
        features = inputs.indptr.astype(np.int64), inputs.indices, inputs.data
        return sparse_rows(self.path, block.first_row, splits, labels, *features)


@dataclass(frozen=True)
class MemoryDataset(Dataset):
    """A dataset of MemorySources; it has no files."""

    def fingerprint(self):
        """As of files, of the content in memory."""
        source = self.train
        digest = hashlib.sha256()
        if source.kind == "text":
            pieces = ["\0".join(source.inputs).encode("utf-8", "surrogatepass")]
        elif source.kind == "sparse":
            pieces = [source.inputs.indptr, source.inputs.indices, source.inputs.data]
        else:
            pieces = [source.inputs]
        pieces += [source.label_splits, source.labels]
        pieces.append("\0".join(self.label_titles or ()).encode("utf-8", "surrogatepass"))
        size = 0
        for piece in pieces:
            view = memoryview(
                np.ascontiguousarray(piece) if not isinstance(piece, bytes) else piece
            )
            size += view.nbytes
            digest.update(view)
        return {"train": {"name": self.name, "bytes": size, "sha256": digest.hexdigest()}}


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
