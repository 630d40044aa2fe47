"""Synthetic data of any size with a planted answer.

Every label has a few words of its own, drawn from a vocabulary in which some words are frequent
(power law). A row draws its labels, some frequent and most rare (power law), shows most of them
by two of their words each, and adds words of noise. A label that a row does not show, or that
training never showed, cannot be predicted; so the best possible accuracy is known: see the card.
"""

import contextlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from solar_tf.datasets.cards import NAME, sha256
from solar_tf.errors import UserError
from solar_tf.run.files import atomic_write
from solar_tf.runtime.console import progress
from solar_tf.runtime.ragged import row_numbers

ROWS_PER_BLOCK = 50_000
FORMATS = ("titles", "xmlrepo", "dense")
FILES = {  # of a format, by role
    "titles": {"train": "train.txt", "test": "test.txt", "labels": "labels.txt"},
    "xmlrepo": {"train": "train.txt", "test": "test.txt"},
    "dense": {
        "train": "trn_X.npy",
        "train_labels": "trn_Y.txt",
        "test": "tst_X.npy",
        "test_labels": "tst_Y.txt",
    },
}
LIMIT = 2**27  # of rows and labels
NO_LABELS = np.empty(0, np.int64), np.empty(0, np.int32)  # splits and labels
KS, RECALL_AT = (1, 3, 5, 10), 100


@dataclass(frozen=True)
class Recipe:
    """What is planted; with the seed it decides every byte."""

    rows: int
    test_rows: int
    labels: int
    labels_per_row: float = 4.0  # mean of a geometric distribution, repeats dropped
    hidden: float = 0.2  # share of a row's labels that do not show in its words
    noise_words: int = 2  # words of a row that have nothing to do with its labels
    label_exponent: float = 0.6  # of the power law of label frequencies
    word_exponent: float = 0.5
    dim: int = 512  # of dense rows
    seed: int = 0

    def __post_init__(self):
        for name, low, high in (
            ("rows", 1, LIMIT),
            ("test_rows", 0, LIMIT),
            ("labels", 1, LIMIT),
            ("labels_per_row", 1, 16),
            ("hidden", 0, 1),
            ("noise_words", 0, 100),
            ("label_exponent", 0, 0.99),
            ("word_exponent", 0, 0.99),
            ("dim", 1, 1 << 16),
            ("seed", 0, 2**32 - 1),
        ):
            if not low <= getattr(self, name) <= high:
                what = f"--{name} {getattr(self, name)}: give a number from {low} to {high}"
                raise UserError(what)

    @property
    def words(self):
        """The size of the vocabulary: half as many as labels, as in the paper's books (§5.1)."""
        return 1000 + self.labels // 2

    @property
    def stride(self):
        """Steps of this length visit every label once."""
        stride = round(self.labels * 0.618) or 1
        while math.gcd(stride, self.labels) > 1:
            stride += 1
        return stride


@dataclass(frozen=True)
class Planted:
    """Rows as they were planted."""

    label_splits: np.ndarray  # [n + 1]
    labels: np.ndarray
    shown: np.ndarray  # which labels show, as long as labels
    word_splits: np.ndarray  # [n + 1]
    words: np.ndarray


def plant(recipe, split, first, count):
    """`count` rows of a split ("train" or "test") from row `first` on."""
    from solar_tf.datasets import planted  # numba takes half a second to import

    label_splits, word_splits = np.zeros((2, count + 1), np.int64)
    labels = np.empty(count * planted.MOST_LABELS, np.int32)  # takes memory as it is filled
    shown = np.empty(len(labels), bool)
    most = planted.SHOWN_WORDS * planted.MOST_LABELS + recipe.noise_words
    words = np.empty(count * most, np.int32)
    planted.plant_rows(
        recipe.seed, {"train": planted.TRAIN, "test": planted.TEST}[split], first,
        recipe.labels, recipe.words, float(recipe.labels_per_row), float(recipe.hidden),
        recipe.noise_words, float(recipe.label_exponent), float(recipe.word_exponent),
        recipe.stride, label_splits, labels, shown, word_splits, words,
    )  # fmt: skip
    size = label_splits[-1]
    return Planted(label_splits, labels[:size], shown[:size], word_splits, words[: word_splits[-1]])


def synthesize(folder, recipe, format="titles"):
    """Write the data of a recipe and its card into a folder; returns the card's content."""
    folder = Path(folder)
    if not NAME.fullmatch(folder.name):
        raise UserError(f"{folder}: the folder's name is the dataset's: use letters, digits, ._-")
    files = {r: n for r, n in FILES[format].items() if recipe.test_rows or not r.startswith("test")}
    for name in (*files.values(), "card.json"):
        if (folder / name).exists():
            raise UserError(f"{folder / name}: exists already: choose another --out, or delete it")
    seen, facts = np.zeros(recipe.labels, bool), {}
    for split, rows in (("train", recipe.rows), ("test", recipe.test_rows)):
        if rows:
            paths = {role: folder / name for role, name in files.items() if role.startswith(split)}
            facts[split] = _write_split(paths, recipe, format, split, rows, seen)
    if "labels" in files:
        _write_label_titles(folder / files["labels"], recipe)
    card = _card(folder, recipe, format, files, facts)
    with atomic_write(folder / "card.json", "w") as file:
        file.write(json.dumps(card, indent=2) + "\n")
    return card


def _write_split(paths, recipe, format, split, rows, seen):
    """Write the files of a split; mark in `seen` what training shows. Returns its _Facts."""
    facts = _Facts(recipe.labels)
    with contextlib.ExitStack() as stack:
        files = {role: stack.enter_context(atomic_write(path)) for role, path in paths.items()}
        _write_headers(files, split, recipe, format, rows)
        bar = stack.enter_context(progress(rows, f"writing {split} rows", "row"))
        for first in range(0, rows, ROWS_PER_BLOCK):
            block = plant(recipe, split, first, min(ROWS_PER_BLOCK, rows - first))
            _write_block(files, split, recipe, format, block)
            if split == "train":
                seen[block.labels[block.shown]] = True
            facts.add(block, seen)
            bar.update(len(block.label_splits) - 1)
    return facts


class _Facts:
    """Counts of a split, and the best that a learner can be expected to reach on it."""

    def __init__(self, num_labels):
        self.rows = self.labels = self.words = 0
        self.sums = {f"P@{k}": 0.0 for k in KS}
        if num_labels > 10 * RECALL_AT:  # with fewer labels, guesses would count
            self.sums[f"R@{RECALL_AT}"] = 0.0

    def add(self, block, seen):
        counts = np.diff(block.label_splits)
        self.rows += len(counts)
        self.labels += len(block.labels)
        self.words += len(block.words)
        rows = row_numbers(block.label_splits)
        known = np.bincount(rows, block.shown & seen[block.labels], minlength=len(counts))
        for name in self.sums:
            k = int(name[2:])
            best = np.minimum(known, k) / (k if name.startswith("P") else counts)
            self.sums[name] += best.sum()

    def ceiling(self):
        return {name: round(float(100 * x / self.rows), 2) for name, x in self.sums.items()}


def _write_headers(files, split, recipe, format, rows):
    """The first line of the files that have one; an .npy says its shape."""
    if format == "xmlrepo":
        files[split].write(f"{rows} {recipe.words} {recipe.labels}\n".encode())
    elif format == "dense":
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, recipe.dim)}
        np.lib.format.write_array_header_1_0(files[split], header)
        files[f"{split}_labels"].write(f"{rows} {recipe.labels}\n".encode())


def _write_block(files, split, recipe, format, block):
    """Titles, bags of words, or vectors beside lines `label:1`."""
    from solar_tf.datasets import planted

    labels, words = (block.label_splits, block.labels), (block.word_splits, block.words)
    if format == "dense":
        vectors = np.empty((len(block.word_splits) - 1, recipe.dim), np.float32)
        planted.put_vectors(recipe.seed, *words, vectors)
        files[split].write(vectors.astype("<f4").data)
        files[f"{split}_labels"].write(_bytes(planted.put_bags, *NO_LABELS, *labels))
    else:
        kernel = planted.put_titles if format == "titles" else planted.put_bags
        files[split].write(_bytes(kernel, *labels, *words))


def _bytes(kernel, *arrays):
    """What a kernel of `planted` writes of these arrays, as a view of a large enough buffer."""
    out = np.empty(24 * sum(map(len, arrays)), np.uint8)
    return out[: kernel(*arrays, out)].data


def _write_label_titles(path, recipe):
    from solar_tf.datasets import planted

    bar = progress(recipe.labels, "writing label titles", "label")
    with atomic_write(path) as file, bar:
        for first in range(0, recipe.labels, ROWS_PER_BLOCK):
            count = min(ROWS_PER_BLOCK, recipe.labels - first)
            words = np.empty((count, planted.WORDS_PER_LABEL), np.int32)
            exponent = float(recipe.word_exponent)
            planted.label_words(recipe.seed, first, recipe.words, exponent, words)
            splits = np.arange(count + 1) * planted.WORDS_PER_LABEL
            file.write(_bytes(planted.put_titles, *NO_LABELS, splits, words.ravel()))
            bar.update(count)


def _card(folder, recipe, format, files, facts):
    rows, labels = (sum(getattr(f, name) for f in facts.values()) for name in ("rows", "labels"))
    counts = {
        **{split: part.rows for split, part in facts.items()},
        "labels": recipe.labels,
        "labels_per_query": round(labels / rows, 2),
        "labels_per_train_query": round(facts["train"].labels / facts["train"].rows, 2),
    }
    if format != "titles":
        counts["features"] = recipe.dim if format == "dense" else recipe.words
    small = recipe.labels < 300_000
    return {
        "name": folder.name,
        "title": f"synthetic data with planted labels, {recipe.rows:,} rows",
        "built_by": "solar synthesize",
        "licence": "none: it is made of random numbers",
        "format": "pair" if format == "dense" else format,
        "files": files,
        "sha256": {name: sha256(folder / name) for name in files.values()},
        "counts": counts,
        "words_per_query": round(facts["train"].words / facts["train"].rows, 2),
        "planted": {
            **asdict(recipe),
            "ceiling": facts["test" if "test" in facts else "train"].ceiling(),
        },
        "preset": "amazon670k" if format == "dense" else "debian" if small else "books",
    }
