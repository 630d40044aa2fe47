"""Titles as rows, `label,label<TAB>text` or JSON, and the titles of the labels."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import repeat
from typing import ClassVar

import numpy as np

from solar_tf.datasets.source import ID_LIMIT, Source, fail, group_pairs, make_rows, quote
from solar_tf.datasets.streams import decode, head, line_blocks, numbered_lines
from solar_tf.runtime.ragged import row_numbers, row_splits

ROW = "write rows as `label,label<TAB>text`"


@dataclass(frozen=True)
class TitlesSource(Source):
    """UTF-8 lines `label,label<TAB>text`. The label part may be empty; the text may hold TABs."""

    kind = "text"
    format = "titles"

    def blocks(self, rows_per_block):
        return line_blocks(self.path, rows_per_block)

    def parse(self, block):
        lines = decode(self.path, block)
        fields, tabs, texts = zip(*map(str.partition, lines, repeat("\t")), strict=True)
        if not all(tabs):
            line = block.first_row + tabs.index("") + 1
            fail(self.path, line, "no TAB between labels and text", ROW)
        counts = [field.count(",") + 1 if field else 0 for field in fields]
        named = ",".join(filter(None, fields))
        try:
            if named and not (named.isascii() and named.replace(",", "0").isdigit()):
                raise ValueError
            labels = np.array(list(map(int, named.split(","))) if named else [], np.int64)
            if len(labels) and labels.max() >= (self.num_labels or ID_LIMIT):
                raise OverflowError
        except (ValueError, OverflowError):
            self._explain(fields, block.first_row)
        return self._rows(counts, labels, list(texts))

    def _rows(self, counts, labels, texts):
        labels = np.asarray(labels, np.int32)
        return make_rows(self.path, None, row_splits(counts), labels, texts=texts)

    def _explain(self, fields, first_row):
        """Find and report the first bad label of a block."""
        for line, field in enumerate(fields, first_row + 1):
            for label in field.split(",") if field else ():
                if not re.fullmatch("[0-9]+", label):
                    what = f"label {quote(label)} is not a number from 0 up"
                    fail(self.path, line, what, ROW)
                # The length first: Python refuses to convert numbers of thousands of digits.
                if len(label.lstrip("0")) > 10 or int(label) >= (self.num_labels or ID_LIMIT):
                    limit = f"the {self.num_labels} label titles" if self.num_labels else ID_LIMIT
                    what = f"label {quote(label)[1:-1]} is not below {limit}"
                    remedy = "give the label file that belongs to it, or correct the row"
                    fail(self.path, line, what, remedy)


@dataclass(frozen=True)
class JsonTitlesSource(TitlesSource):
    """The XML-Repo's `{"title": ..., "content": ..., "target_ind": [label, ...]}`: the title."""

    fields: ClassVar[tuple] = ("title",)
    format = "json"

    def parse(self, block):
        texts, labels, counts = [], [], []
        limit = self.num_labels or ID_LIMIT
        for line, text in enumerate(decode(self.path, block), block.first_row + 1):
            record = parse_json(self.path, line, text)
            targets = record.get("target_ind")
            if not isinstance(targets, list) or not all(type(label) is int for label in targets):
                fail(self.path, line, "`target_ind` is no list of labels", "add the row's labels")
            if targets and not 0 <= min(targets) <= max(targets) < limit:
                bad = next(label for label in targets if not 0 <= label < limit)
                what = f"label {bad} is not from 0 to below {limit}"
                fail(self.path, line, what, "give the label file that belongs to it")
            parts = [json_text(self.path, line, record, field) for field in self.fields]
            texts.append(" ".join(parts))
            labels += targets
            counts.append(len(targets))
        return self._rows(counts, labels, texts)


@dataclass(frozen=True)
class JsonContentSource(JsonTitlesSource):
    """The same with the title and the content as text."""

    fields = ("title", "content")
    format = "json-content"


def parse_json(path, line, text):
    """A JSON object with a string `title`, as in the XML-Repo's raw titles."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(path, line, f"not valid JSON ({error})", "write one object a line")
    if not isinstance(record, dict) or not isinstance(record.get("title"), str):
        fail(path, line, "no string `title`", "write one object a line with a `title`")
    return record


def json_text(path, line, record, field):
    """A field that can be encoded: JSON can escape half a character."""
    text = record.get(field, "")
    try:
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        fail(path, line, f"`{field}` is no valid text", "correct the row")
    return text


def read_label_titles(path):
    """The titles of all labels, [N] str: line i is label i (or a JSON object with its title).

    Line breaks within a title become blanks, since a run keeps one title a line.
    """
    is_json = head(path, 1) == b"{"
    titles = []
    for line, title in numbered_lines(path):
        if is_json:
            title = json_text(path, line, parse_json(path, line, title), "title")
        titles.append(title.replace("\n", " ").replace("\r", " "))
    return titles


def index_titles(titles):
    """The labels of each title; several labels may share one."""
    index = defaultdict(list)
    for label, title in enumerate(titles):
        index[title].append(label)
    return index


def add_own_labels(rows, index):
    """Rows of texts, where a row whose title is also a label's title gets that label, too.

    A catalogue in which queries and labels are the same kind of thing seldom relates a thing
    to itself, though nothing is closer to it.
    """
    own = [index.get(text, ()) for text in rows.texts]
    owners = row_numbers(row_splits(list(map(len, own))))
    added = np.array([label for labels in own for label in labels], np.int32)
    splits, labels = group_pairs(
        np.concatenate([row_numbers(rows.label_splits), owners]),
        np.concatenate([rows.labels, added]),
        len(own),
    )
    return replace(rows, label_splits=splits, labels=labels)
