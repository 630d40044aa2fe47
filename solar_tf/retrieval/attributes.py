"""Attributes of labels, by which a search can filter.

A file of attributes is tab-separated text: a header of names, then a line for each label, in
order; an empty field is no value. `conditions` has the syntax of filters. If all values of an
attribute are numbers, they are compared as numbers. A label without a value meets no condition,
not even `name!=value`, except `name=""`, which asks for such labels.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solar_tf.datasets.source import fail
from solar_tf.datasets.streams import decode, line_blocks
from solar_tf.errors import UserError
from solar_tf.retrieval.conditions import Condition, parse_conditions

_ORDER = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
NONE = -1  # the code of no value
LISTED = 100  # values of an attribute to choose from, the most frequent first
REMEMBERED = 8  # selections of labels
SHOWN = 10  # values in a message
MOST_COMPARED = 2000  # values in which a misspelt one is looked up


class Column:
    """One attribute: every value once, and for each label the number of its value."""

    def __init__(self, codes: NDArray[np.int32], values: dict[str, int]):
        self.codes, self.values = codes, values  # [N], NONE for no value; codes by text

    @cached_property
    def texts(self) -> list[str]:
        """The values in the order of their codes."""
        return list(self.values)

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The values as numbers, if all of them are."""
        try:
            numbers = np.array(self.texts, np.str_).astype(np.float64)
        except ValueError:
            return None
        return numbers if len(numbers) and np.isfinite(numbers).all() else None

    def value(self, code: int) -> str | float | int:
        """A value by its code: a number where all are."""
        if self.numbers is None:
            return self.texts[code]
        number = float(self.numbers[code])
        return int(number) if number.is_integer() else number

    def meets(self, condition: Condition) -> NDArray[np.bool_]:
        """Which labels meet a condition, bool [N]; each value is tested once."""
        text, name, sign, wanted = condition
        met = np.zeros(len(self.values) + 1, bool)  # the last is for labels without a value
        given = [value for value in wanted if value]
        if sign in _ORDER:
            if self.numbers is None:
                raise UserError(f"{text!r}: the values of {name} are not all numbers")
            if len(wanted) > 1:
                raise UserError(f"{text!r}: compare with one number")
            met[:-1] = _ORDER[sign](self.numbers, _number(text, wanted[0]))
            return met[self.codes]
        if self.numbers is not None:
            met[:-1] = np.isin(self.numbers, [_number(text, value) for value in given])
        else:
            met[[self._code(text, name, value) for value in given]] = True
        if sign == "=":
            met[-1] = len(given) < len(wanted)
        else:
            met[:-1] = ~met[:-1]
        return met[self.codes]

    def _code(self, text, name, value):
        if value in self.values:
            return self.values[value]
        compared = self.texts if len(self.values) <= MOST_COMPARED else []
        if near := difflib.get_close_matches(value[:100], compared, 3):
            remedy = f"did you mean {' or '.join(near)}?"
        else:
            more = ", ..." if len(self.values) > SHOWN else ""
            remedy = f"choose of {', '.join(self.texts[:SHOWN])}{more}"
        raise UserError(f"{text!r}: no label has the {name} {value[:60]!r}: {remedy}")

    def extended(self, num_labels: int, rows: Iterable[tuple[int, str]] = ()) -> "Column":
        """The column with more labels; `rows` has the values of some."""
        codes = np.full(num_labels, NONE, np.int32)
        codes[: len(self.codes)] = self.codes
        values = dict(self.values)
        for label, text in rows:
            codes[label] = values.setdefault(text, len(values))
        return Column(codes, values)

    def describe(self, name: str, allowed: NDArray[np.bool_] | None) -> dict[str, Any]:
        """The values to choose from, among the labels that may be found."""
        codes = self.codes if allowed is None else self.codes[allowed]
        counts = np.bincount(codes[codes >= 0], minlength=len(self.values))
        used = np.flatnonzero(counts)
        facts = {"name": name, "labels": int(counts.sum()), "distinct": len(used)}
        if self.numbers is not None:
            of = self.numbers[used]
            ends = (float(of.min()), float(of.max())) if len(of) else (None, None)
            return facts | {"kind": "number", "least": ends[0], "most": ends[1], "values": []}
        order = used[np.argsort(-counts[used], kind="stable")][:LISTED]
        values = [{"value": self.texts[code], "labels": int(counts[code])} for code in order]
        return facts | {"kind": "text", "least": None, "most": None, "values": values}


class Attributes:
    """Columns of attributes, each with a value for every label, or for some.

    >>> attributes = Attributes({"colour": ["red", "blue", "red"], "year": [1990, 2000, 2010]})
    >>> attributes.select("colour=red year>=2000").tolist()
    [False, False, True]
    >>> attributes.of(1)
    {'colour': 'blue', 'year': 2000}
    """

    def __init__(self, columns: Mapping[str, Any]):
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        lengths = {len(array) for array in arrays.values() if array.ndim == 1}
        if len(lengths) != 1 or any(array.ndim != 1 for array in arrays.values()):
            raise UserError("attributes: give columns of the same length, a value for each label")
        coded = {name: _coded(array.tolist()) for name, array in arrays.items()}
        self._set(coded, lengths.pop())

    def _set(self, columns: dict[str, Column], num_labels: int) -> None:
        self.columns, self.num_labels = columns, num_labels
        # People keep a filter while they type.
        self._selected = lru_cache(REMEMBERED)(self._select)

    @classmethod
    def of_columns(cls, columns: dict[str, Column], num_labels: int) -> "Attributes":
        """Attributes of finished columns; there may be none."""
        attributes = cls.__new__(cls)
        attributes._set(columns, num_labels)
        return attributes

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Attributes":
        """The attributes in a file, which may be compressed (.gz, .xz)."""
        path, names = os.fspath(path), None
        values: list[dict[str, int]] = []
        codes: list[list[NDArray[np.int32]]] = []
        for block in line_blocks(path, 100_000):
            lines, first = decode(path, block), block.first_row + 1
            if names is None:
                names, lines, first = lines[0].split("\t"), lines[1:], 2
                if len({*names}) < len(names) or not all(names):
                    fail(path, 1, "not a header of different names", "name every column")
                values, codes = [{"": NONE} for _ in names], [[] for _ in names]
            tabs = list(map(str.count, lines, repeat("\t")))
            if tabs.count(len(names) - 1) < len(tabs):
                row = next(row for row, count in enumerate(tabs) if count != len(names) - 1)
                what = f"{tabs[row] + 1} fields under a header of {len(names)}"
                fail(path, first + row, what, "write one value for each name, with TABs between")
            fields = "\t".join(lines).split("\t") if lines else []
            for place, (known, parts) in enumerate(zip(values, codes, strict=True)):
                parts.append(_codes(fields[place :: len(names)], known))
        if names is None or not sum(map(len, codes[0])):
            fail(path, None, "no labels in it", "write a header and a line for each label")
        columns = {
            name: Column(np.concatenate(parts), _without_none(known))
            for name, known, parts in zip(names, values, codes, strict=True)
        }
        return cls.of_columns(columns, len(columns[names[0]].codes))

    def extended(
        self, num_labels: int, rows: Mapping[int, Mapping[str, str]] | None = None
    ) -> "Attributes":
        """The attributes with labels that were added since; `rows` has their attributes by label.

        Rows of labels that are here already do not count.
        """
        if num_labels < self.num_labels:
            raise UserError(f"attributes of {self.num_labels} labels, and there are {num_labels}")
        new: dict[str, list[tuple[int, str]]] = {name: [] for name in self.columns}
        for label, row in (rows or {}).items():
            for name, text in row.items() if label >= self.num_labels else ():
                new.setdefault(name, []).append((label, text))
        empty = Column(np.full(self.num_labels, NONE, np.int32), {})
        columns = {
            name: self.columns.get(name, empty).extended(num_labels, pairs)
            for name, pairs in new.items()
        }
        return Attributes.of_columns(columns, num_labels)

    def select(self, conditions: str, num_labels: int | None = None) -> NDArray[np.bool_]:
        """The labels that meet all conditions, bool [N], as the option `allow` takes them.

        Labels that were added after the attributes have no values.
        """
        if num_labels is not None and num_labels != self.num_labels:
            return self.extended(num_labels).select(conditions)
        return self._selected(conditions).copy()

    def _select(self, conditions):
        mask = np.ones(self.num_labels, bool)
        for condition in parse_conditions(conditions):
            mask &= self._column(condition.name, condition.text).meets(condition)
        return mask

    def of(self, label: int) -> dict[str, str | float | int]:
        """The values of a label, by name."""
        codes = {name: int(column.codes[label]) for name, column in self.columns.items()}
        return {name: self.columns[name].value(codes[name]) for name in codes if codes[name] >= 0}

    def describe(self, allowed: NDArray[np.bool_] | None = None) -> list[dict[str, Any]]:
        """Name, kind and values of each attribute, counted among the `allowed` labels."""
        return [column.describe(name, allowed) for name, column in self.columns.items()]

    def row(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The attributes of a new label as files keep them; UserError if they do not fit."""
        row = {}
        for name, value in given.items():
            text = _text(value)
            if text and self._column(name, name).numbers is not None:
                _number(f"{name}={text}", text)
            if text:
                row[name] = text
        return row

    def _column(self, name, text):
        if name not in self.columns:
            if not self.columns:
                raise UserError(f"{text!r}: the labels have no attributes: give a file of them")
            names = ", ".join(self.columns)
            raise UserError(f"{text!r}: no such attribute: choose of {names}")
        return self.columns[name]


def _codes(texts, values):
    """The codes of texts; new texts are added to the dict `values`."""
    for text in dict.fromkeys(texts):  # in their order
        values.setdefault(text, len(values) - 1)
    return np.fromiter(map(values.__getitem__, texts), np.int32, len(texts))


def _without_none(values):
    return {text: code for text, code in values.items() if text}


def _coded(values):
    known = {"": NONE}
    codes = _codes([_text(value) for value in values], known)
    return Column(codes, _without_none(known))


def _text(value):
    """A value as a file would have it; empty for none."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _number(text, value):
    try:
        number = float(value)
    except ValueError:
        raise UserError(f"{text!r}: {value[:60]!r} is not a number")
    if not np.isfinite(number):
        raise UserError(f"{text!r}: {value[:60]!r} is not a number to compare with")
    return number
