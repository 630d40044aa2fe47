"""Rows of numbers in one text file: XML-Repo, svmlight, dense vectors."""

import re
from dataclasses import dataclass, replace

import numpy as np

from solar_tf.datasets.number_text import NumberLines, counted_blocks, read_header
from solar_tf.datasets.source import Rows, Source, fail, merge_duplicates, row_of_first
from solar_tf.datasets.streams import head, line_blocks

MAX_WIDTH = 1 << 16  # values of a dense row; a false header must not take all memory


def sparse_rows(path, first_line, label_splits, labels, feature_splits, features, values):
    """Rows of CSR labels and features in a file's order, with duplicates."""
    label_splits, labels, _, repeated_labels = merge_duplicates(label_splits, labels)
    feature_splits, features, values, repeats = merge_duplicates(feature_splits, features, values)
    if repeats and not np.isfinite(values).all():
        line = first_line + row_of_first(feature_splits, ~np.isfinite(values))
        fail(path, line, "a repeated feature adds up to infinity", "correct the row")
    return Rows(
        label_splits,
        labels,
        feature_splits=feature_splits,
        features=features,
        values=values,
        num_duplicate_labels=repeated_labels,
        num_duplicate_features=repeats,
    )


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
        return sparse_rows(self.path, block.first_row + 2, *lines.parse(block))


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
        if width > MAX_WIDTH:
            what = f"dense rows of {width} values, more than {MAX_WIDTH}"
            fail(path, 1, what, "read the file as xmlrepo")
        _, _, rows = head(path).partition(b"\n")
        return cls(path, num_rows, width, num_labels, b":" in rows.partition(b"\n")[0])

    def parse(self, block):
        if self.pairs:
            rows = super().parse(block)
            dense = np.zeros((len(rows), self.num_features), np.float32)
            row_of = np.repeat(np.arange(len(rows)), np.diff(rows.feature_splits))
            dense[row_of, rows.features] = rows.values
            return replace(rows, feature_splits=None, features=None, values=None, dense=dense)
        lines = NumberLines(self.path, 1, self.num_labels, width=self.num_features)
        splits, labels, _, _, values = lines.parse(block)
        splits, labels, _, repeats = merge_duplicates(splits, labels)
        dense = values.reshape(-1, self.num_features)
        return Rows(splits, labels, dense=dense, num_duplicate_labels=repeats)


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
        top = re.match(rb"(?:#[^\n]*(?:\n|$))*", head(path))
        return cls(path, skip=top[0].count(b"\n"))

    def blocks(self, rows_per_block):
        return line_blocks(self.path, rows_per_block, self.skip)

    def parse(self, block):
        lines = NumberLines(self.path, self.skip, self.num_labels, self.num_features, whose="the")
        rows = sparse_rows(
            self.path, self.skip + block.first_row + 1, *lines.parse(block, without=_NOT_DATA)
        )
        empty = (np.diff(rows.label_splits) == 0) & (np.diff(rows.feature_splits) == 0)
        if empty.any():
            line = self.skip + block.first_row + int(np.argmax(empty)) + 1
            fail(self.path, line, "a line without labels and features", "remove it")
        return rows


_NOT_DATA = re.compile(rb"#[^\n]*|(?<=[ \t])qid:[0-9]+(?=[ \t\n])")
