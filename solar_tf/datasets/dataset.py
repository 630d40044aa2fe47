"""A dataset: its training and test rows, the titles of its labels, and what its card says."""

import os
import re
from dataclasses import dataclass

import numpy as np

from solar_tf.datasets.cards import PROPENSITY_DEFAULT, load_card, sha256
from solar_tf.datasets.formats import open_source
from solar_tf.datasets.source import Source, fail, group_pairs
from solar_tf.datasets.streams import block_bytes, line_blocks
from solar_tf.datasets.titles import read_label_titles
from solar_tf.errors import UserError

PRESET = "debian"  # for data without a card: small catalogues
FILTER = "filter_labels_test.txt"  # the XML-Repo's name for it, beside the test rows
_PAIRS = re.compile(rb"(?:[ \t]*[0-9]{1,10}[ \t]+[0-9]{1,10}[ \t]*\n)*+")


@dataclass(frozen=True)
class Dataset:
    name: str
    train: Source
    test: Source | None = None  # a catalogue that is only searched needs none
    label_titles: list[str] | None = None  # [N]
    label_path: str | None = None  # of the titles
    filter_path: str | None = None  # labels that are not evaluated, per test row
    propensity: tuple[float, float] = PROPENSITY_DEFAULT  # a and b
    preset: str = PRESET

    @property
    def kind(self):
        return self.train.kind

    @property
    def num_features(self):
        return self.train.num_features

    @property
    def num_labels(self):
        return len(self.label_titles) if self.label_titles else self.train.num_labels

    @property
    def paths(self):
        """The files by role; some roles have none."""
        paths = {"train": self.train.path, "train_labels": self.train.label_path}
        if self.test:
            paths |= {"test": self.test.path, "test_labels": self.test.label_path}
        paths |= {"labels": self.label_path, "filter": self.filter_path}
        return {role: path for role, path in paths.items() if path}

    def fingerprint(self):
        """Name, size and sha256 of every file, by role: what makes two datasets the same."""
        return {
            role: {
                "name": os.path.basename(path),
                "bytes": os.path.getsize(path),
                "sha256": sha256(path),
            }
            for role, path in self.paths.items()
        }


def open_named(name):
    """The dataset of a card, with its files checked against it."""
    card = load_card(name)
    card.verify()
    return open_files(
        **card.paths(),
        format=card.content.get("format", "auto"),
        name=card.name,
        propensity=card.propensity,
        preset=card.content.get("preset", PRESET),
    )


def open_files(
    train,
    test=None,
    labels=None,
    format="auto",
    *,
    train_labels=None,
    test_labels=None,
    filter=None,
    name=None,
    propensity=PROPENSITY_DEFAULT,
    preset=PRESET,
):
    """The dataset of a user's own files; the format is recognised unless it is named.

    `labels` are the labels' titles; `train_labels` and `test_labels` the rows' labels where
    they have files of their own that are not found by their names. `filter` is a
    filter_labels_test.txt; None takes the one beside the test rows, if there is one, "" none.
    """
    titles = read_label_titles(labels) if labels else None
    num_labels = len(titles) if titles else None
    train = open_source(train, format, label_path=train_labels, num_labels=num_labels)
    if test:
        num_labels = num_labels or train.num_labels
        expected = {"num_features": train.num_features, "num_labels": num_labels}
        test = open_source(test, format, label_path=test_labels, **expected)
        if test.kind != train.kind:
            fail(test.path, None, f"{test.kind} rows, where training has {train.kind} ones",
                 "give files of the same dataset")  # fmt: skip
    name = name or os.path.basename(train.path).split(".")[0]
    label_path, filter = labels and os.fspath(labels), _filter_path(filter, test)
    return Dataset(name, train, test or None, titles, label_path, filter, propensity, preset)


def _filter_path(path, test):
    """The filter that was named, or that lies beside the test rows."""
    if path is None and test:
        beside = os.path.join(os.path.dirname(test.path), FILTER)
        return beside if os.path.isfile(beside) else None
    if path and not test:
        raise UserError(f"{path}: a filter of test rows, and there are none: give them, too")
    return os.fspath(path) if path else None


def read_label_filter(path, num_rows, num_labels):
    """Lines `row label` of labels that are not evaluated for a row, as CSR.

    In the XML-Repo's datasets with label features, a query can be one of the labels itself.
    Returns splits int64 [num_rows + 1] and labels int32, sorted in each row.
    """
    path, pieces = str(path), []
    for block in line_blocks(path, 100_000):
        data = block_bytes(path, block)
        good = _PAIRS.match(data).end()
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
    return group_pairs(*np.concatenate(pieces).T, num_rows)
