"""Attributes of labels, and the labels that have some: filters for searches.

A file of attributes is tab-separated text: a header of names, then a line for each label, in
their order. Conditions are written as `section=web|net year>=1990 licence!=none`: all of them
must hold; a `|` separates values of which one must be met. Where every value of an attribute is
a number, <, <=, > and >= compare numbers.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solar_tf.datasets.source import fail
from solar_tf.datasets.streams import decode, line_blocks
from solar_tf.errors import UserError

_CONDITION = re.compile(r"([^\s=!<>]+?)(!=|<=|>=|=|<|>)(\S*)")
_ORDER = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


class Attributes:
    """Columns of attributes, each with a value for every label.

    >>> attributes = Attributes({"colour": ["red", "blue", "red"], "year": [1990, 2000, 2010]})
    >>> attributes.select("colour=red year>=2000").tolist()
    [False, False, True]
    """

    def __init__(self, columns: Mapping[str, Any]):
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        lengths = {len(array) for array in arrays.values() if array.ndim == 1}
        if len(lengths) != 1 or any(array.ndim != 1 for array in arrays.values()):
            raise UserError("attributes: give columns of the same length, a value for each label")
        self.columns = arrays
        self.num_labels = lengths.pop()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Attributes":
        """The attributes in a file."""
        path, names, rows = os.fspath(path), None, []
        for block in line_blocks(path, 100_000):
            for line, text in enumerate(decode(path, block), block.first_row + 1):
                fields = text.rstrip("\r").split("\t")
                if names is None:
                    names = fields
                    if len({*names}) < len(names) or not all(names):
                        fail(path, 1, "not a header of different names", "name every column")
                elif len(fields) != len(names):
                    what = f"{len(fields)} fields under a header of {len(names)}"
                    fail(path, line, what, "write one value for each name, with TABs between")
                else:
                    rows.append(fields)
        if not rows or names is None:
            fail(path, None, "no labels in it", "write a header and a line for each label")
        columns = zip(names, map(np.array, zip(*rows, strict=True)), strict=True)
        return cls({name: _as_numbers(values) for name, values in columns})

    def select(self, conditions: str, num_labels: int | None = None) -> NDArray[np.bool_]:
        """The labels that meet all conditions, bool [N]: what `allow` of a search takes.

        Labels beyond the attributes, such as those added later, meet none.
        """
        mask = np.ones(self.num_labels, bool)
        for text in conditions.split():
            mask &= self._meets(text)
        if num_labels is None:
            return mask
        if num_labels < self.num_labels:
            raise UserError(f"attributes of {self.num_labels} labels, and there are {num_labels}")
        return np.pad(mask, (0, num_labels - self.num_labels))

    def _meets(self, text):
        match = _CONDITION.fullmatch(text)
        if not match:
            raise UserError(f"{text!r}: no condition: write it as name=value, or name>=number")
        name, sign, wanted = match.groups()
        if name not in self.columns:
            raise UserError(f"{text!r}: no such attribute: choose of {', '.join(self.columns)}")
        column = self.columns[name]
        numeric = column.dtype.kind in "iufb"
        values = wanted.split("|")
        if numeric or sign in _ORDER:
            try:
                values = [float(value) for value in values]
            except ValueError:
                raise UserError(f"{text!r}: {wanted!r} is not a number")
            if not numeric:
                raise UserError(f"{text!r}: the values of {name} are not all numbers")
        if sign in _ORDER:
            if len(values) > 1:
                raise UserError(f"{text!r}: compare with one number")
            return _ORDER[sign](column, values[0])
        return np.isin(column, values) == (sign == "=")


def _as_numbers(values):
    """A column of text as numbers, if it is all numbers."""
    try:
        numbers = values.astype(np.float64)
    except ValueError:
        return values
    return numbers if np.isfinite(numbers).all() else values
