"""Titles: lines `label,label<TAB>text`, and the titles of the labels."""

import json
import re
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from solar_tf.datasets.source import ID_LIMIT, Rows, Source, fail, merge_duplicates, quote
from solar_tf.datasets.streams import decode, head, line_blocks
from solar_tf.runtime.ragged import row_splits

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
        return text_rows(counts, labels, list(texts))

    def _explain(self, fields, first_row):
        """Find and report what `parse` tripped over."""
        for line, field in enumerate(fields, first_row + 1):
            for label in field.split(",") if field else ():
                check_label(self.path, line, label, self.num_labels)


def check_label(path, line, label, num_labels):
    """Raise unless the string `label` is a number below `num_labels` (None: below 2^31 - 1)."""
    if not re.fullmatch("[0-9]+", label):
        fail(path, line, f"label {quote(label)} is not a number from 0 up", ROW)
    # The length first: Python refuses to convert numbers of thousands of digits.
    if len(label.lstrip("0")) > 10 or int(label) >= (num_labels or ID_LIMIT):
        limit = f"the {num_labels} label titles" if num_labels else ID_LIMIT
        what = f"label {quote(label)[1:-1]} is not below {limit}"
        fail(path, line, what, "give the label file that belongs to it, or correct the row")


def text_rows(counts, labels, texts):
    """Rows of texts from the number of labels of each and all their labels."""
    splits = row_splits(counts)
    splits, labels, _, repeats = merge_duplicates(splits, labels.astype(np.int32))
    return Rows(splits, labels, texts=texts, num_duplicate_labels=repeats)


def read_label_titles(path):
    """The titles of all labels, [N] str: line i is label i (or a JSON object with its title).

    Line breaks within a title become blanks, since a run keeps one title a line.
    """
    is_json = head(path, 1) == b"{"
    titles = []
    for block in line_blocks(path, 100_000):
        lines = decode(path, block)
        if is_json:
            lines = [json_title(path, n, s) for n, s in enumerate(lines, len(titles) + 1)]
        titles += [line.replace("\r", " ") if "\r" in line else line for line in lines]
    return titles


def json_title(path, line, text):
    """The title of a JSON object, as one line of valid text."""
    title = parse_json(path, line, text)["title"]
    check_text(path, line, "title", title)
    return title.replace("\n", " ")


def check_text(path, line, field, text):
    """Raise unless `text` can be encoded: JSON can escape half a character."""
    try:
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        fail(path, line, f"`{field}` is no valid text", "correct the row")


def parse_json(path, line, text):
    """A JSON object with a string `title`, as in the XML-Repo's raw titles."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(path, line, f"not valid JSON ({error})", "write one object a line")
    if not isinstance(record, dict) or not isinstance(record.get("title"), str):
        fail(path, line, "no string `title`", "write one object a line with a `title`")
    return record
