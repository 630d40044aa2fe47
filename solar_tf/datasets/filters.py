"""filter_labels_test.txt: labels that must not be predicted for a row.

In the XML-Repo's datasets with label features a query can be one of the labels itself;
such pairs are left out of predictions and truth before they are evaluated.
"""

import re

import numpy as np

from solar_tf.datasets.source import fail, merge_duplicates
from solar_tf.datasets.streams import block_bytes, line_blocks
from solar_tf.runtime.ragged import row_splits

NAME = "filter_labels_test.txt"  # as the XML-Repo calls it, beside the test rows
_LINE = rb"[ \t]*[0-9]{1,10}[ \t]+[0-9]{1,10}[ \t]*\n"
_LINES = re.compile(rb"(?:%s)*+" % _LINE)


def read_label_filter(path, num_rows, num_labels):
    """Lines `row label` as CSR: splits int64 [num_rows + 1], labels int32, sorted in each row."""
    path = str(path)
    pieces = []
    for block in line_blocks(path, 100_000):
        data = block_bytes(path, block)
        good = _LINES.match(data).end()
        if good < len(data):
            line = block.first_row + data.count(b"\n", 0, good) + 1
            fail(path, line, "not `row label`", "write two numbers from 0 up")
        pairs = np.fromstring(data, np.int64, sep=" ").reshape(-1, 2)
        beyond = (pairs >= (num_rows, num_labels)).any(axis=1)
        if beyond.any():
            at = int(np.argmax(beyond))
            row, label = pairs[at]
            what = f"row {row}, label {label} is beyond {num_rows} rows, {num_labels} labels"
            remedy = "give the filter of these test rows, or --filter= for none"
            fail(path, block.first_row + at + 1, what, remedy)
        pieces.append(pairs)
    rows, labels = np.concatenate(pieces).T
    order = np.argsort(rows, kind="stable")
    splits = row_splits(np.bincount(rows, minlength=num_rows))
    return merge_duplicates(splits, labels[order].astype(np.int32))[:2]
