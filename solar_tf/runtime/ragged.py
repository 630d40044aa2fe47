"""Ragged rows in CSR form: row i of `values` is values[splits[i]:splits[i + 1]]."""

import numpy as np


def row_splits(counts):
    """The splits int64 [n + 1] of rows with these numbers of entries [n]."""
    splits = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=splits[1:])
    return splits


def row_numbers(splits):
    """The row of every entry, int64 [splits[-1] - splits[0]]."""
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))


def slice_rows(splits, values, start, stop):
    """The rows `start` to `stop`, as splits from 0 and values."""
    return splits[start : stop + 1] - splits[start], values[splits[start] : splits[stop]]


def take_rows(splits, rows):
    """The chosen rows: their splits [len(rows) + 1], and the places of their entries."""
    counts = np.diff(splits)[rows]
    chosen = row_splits(counts)
    return chosen, np.arange(chosen[-1]) + np.repeat(splits[rows] - chosen[:-1], counts)
