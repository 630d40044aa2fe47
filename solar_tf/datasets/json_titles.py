"""Raw titles of the XML-Repo: a JSON object a line with `title`, `content`, `target_ind`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solar_tf.datasets.source import ID_LIMIT, Source, fail
from solar_tf.datasets.streams import decode, line_blocks
from solar_tf.datasets.titles import check_text, parse_json, text_rows


@dataclass(frozen=True)
class JsonTitlesSource(Source):
    """Lines `{"uid": ..., "title": ..., "content": ..., "target_ind": [label, ...]}`: the title."""

    fields: ClassVar[tuple] = ("title",)

    kind = "text"
    format = "json"

    def blocks(self, rows_per_block):
        return line_blocks(self.path, rows_per_block)

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
            texts.append(" ".join(self._field(line, record, field) for field in self.fields))
            labels += targets
            counts.append(len(targets))
        return text_rows(counts, np.array(labels, np.int64), texts)

    def _field(self, line, record, field):
        text = record.get(field, "")
        check_text(self.path, line, field, text)
        return text


@dataclass(frozen=True)
class JsonContentSource(JsonTitlesSource):
    """The same with the title and the content as text."""

    fields = ("title", "content")
    format = "json-content"
