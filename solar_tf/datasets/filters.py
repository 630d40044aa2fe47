"""filter_labels_test.txt: labels that must not be predicted for a row.

In the XML-Repo's datasets with label features a query can be one of the labels itself;
such pairs are left out of predictions before they are evaluated.
"""

import re

import numpy as np

from solar_tf.datasets.source import fail, merge_duplicates
from solar_tf.datasets.streams import decode, line_blocks


def read_label_filter(path, num_rows, num_labels):
    """Lines `row label` as CSR: splits int64 [num_rows + 1], labels int32, sorted in each row."""
    path = str(path)
    pairs = []
    for block in line_blocks(path, 100_000):
        for line, text in enumerate(decode(path, block), block.first_row + 1):
            match = re.fullmatch(r"\s*([0-9]{1,10})\s+([0-9]{1,10})\s*", text, re.ASCII)
            if not match:
                fail(path, line, "not `row label`", "write two numbers from 0 up")
            row, label = int(match[1]), int(match[2])
            if row >= num_rows or label >= num_labels:
                what = f"row {row}, label {label} is beyond {num_rows} rows, {num_labels} labels"
                fail(path, line, what, "give the filter that belongs to the data")
            pairs.append((row, label))
    rows, labels = np.array(sorted(pairs), np.int64).T
    splits = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num_rows))])
    return merge_duplicates(splits, labels.astype(np.int32))[:2]
