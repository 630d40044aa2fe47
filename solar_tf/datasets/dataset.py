"""A dataset: its training and test rows, the titles of its labels, and what its card says."""

import os
from dataclasses import dataclass

from solar_tf.datasets.cards import load_card, sha256
from solar_tf.datasets.formats import open_source
from solar_tf.datasets.source import Source, fail
from solar_tf.datasets.titles import read_label_titles
from solar_tf.errors import UserError
from solar_tf.metrics import PROPENSITY_DEFAULT


@dataclass(frozen=True)
class Dataset:
    name: str
    train: Source
    test: Source | None = None  # a catalogue that is only searched needs none
    label_titles: list[str] | None = None  # [N]
    label_path: str | None = None
    propensity: tuple[float, float] = PROPENSITY_DEFAULT  # a and b
    preset: str = "debian"

    @property
    def kind(self):
        return self.train.kind

    @property
    def num_features(self):
        return self.train.num_features

    @property
    def num_labels(self):
        return len(self.label_titles) if self.label_titles else self.train.num_labels

    def fingerprint(self):
        """Name, size and sha256 of every file, by role: what makes two datasets the same."""
        paths = {"train": self.train.path, "labels": self.label_path}
        if self.test:
            paths["test"] = self.test.path
        return {
            role: {
                "name": os.path.basename(path),
                "bytes": os.path.getsize(path),
                "sha256": sha256(path),
            }
            for role, path in paths.items()
            if path
        }


def open_named(name):
    """The dataset of a card, with its files checked against it."""
    card = load_card(name)
    card.verify()
    files = {role: card.file(role) for role in card.content["files"]}
    propensity = card.content.get("propensity", {})
    return open_files(
        **files,
        format=card.content.get("format", "auto"),
        name=name,
        propensity=tuple(propensity.get(key, default) for key, default in _PROPENSITY.items()),
    )


_PROPENSITY = dict(zip("ab", PROPENSITY_DEFAULT, strict=True))


def open_files(
    train, test=None, labels=None, format="auto", name=None, propensity=PROPENSITY_DEFAULT
):
    """The dataset of a user's own files; the format is recognised unless it is named."""
    titles = read_label_titles(labels) if labels else None
    num_labels = len(titles) if titles else None
    train = open_source(train, format, num_labels=num_labels)
    if test:
        test = open_source(
            test, format, num_features=train.num_features, num_labels=num_labels or train.num_labels
        )
        if test.kind != train.kind:
            fail(test.path, None, f"{test.kind} rows, where training has {train.kind} ones",
                 "give files of the same dataset")  # fmt: skip
    if name is None:
        name = os.path.basename(train.path).split(".")[0]
    if titles is not None and not titles:
        raise UserError(f"{labels}: no label titles in it: give one title a line")
    return Dataset(name, train, test or None, titles, labels and os.fspath(labels), propensity)
