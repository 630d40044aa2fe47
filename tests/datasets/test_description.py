"""Statistics for people: the tables, the plots, and a card beside its files."""

import numpy as np
import pytest

from solar_tf.datasets import cards, description
from solar_tf.datasets.dataset import open_files
from solar_tf.datasets.description import DIFFERS, OK, collect_splits, save_plot, text_plot
from solar_tf.datasets.statistics import Frequencies

from .files import assert_refused, write


@pytest.fixture
def dataset(tmp_path):
    train = write(tmp_path, "0,1\tone two\n1\tthree\n1,1\t\n")
    test = write(tmp_path, "3\tfour\n1\tone\n", "test.txt")
    return open_files(train, test, write(tmp_path, "a\nb\nc\nd\n", "labels.txt"))


def describe(dataset):
    return description.describe(dataset, collect_splits(dataset))


def cells(text, name):
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()]
    (row,) = [row for row in rows if row[0] == name]
    return row[1:]


def test_a_description_says_what_is_in_the_files(dataset):
    text = describe(dataset)
    assert cells(text, "rows") == ["3", "2"]
    assert cells(text, "labels a row: mean") == ["1.33", "1.00"]
    assert cells(text, "words a row: mean") == ["1.00", "1.00"]
    assert cells(text, "without words") == ["1", "0"]
    assert cells(text, "... named twice") == ["1", "0"]
    assert cells(text, "labels (N)") == ["4"]
    assert cells(text, "unseen in training") == ["50.00%"]
    assert cells(text, "occurrences in test of labels unseen in training") == ["50.00%"]


def test_rows_of_numbers_are_described(tmp_path):
    dense = open_files(write(tmp_path, "2 3 5\n1,2 0.5 1 0\n4 1 2 3\n"))
    assert cells(describe(dense), "values a row") == ["3"]
    text = describe(open_files(write(tmp_path, "2 9 5\n 1:1\n\n")))
    assert "(no label occurs)" in text
    assert cells(text, "distinct features") == ["1"]


def test_the_plot_falls_from_the_left_to_the_right():
    lines = text_plot(Frequencies.of(np.arange(1, 1001))).splitlines()
    heights = [
        min(row for row, line in enumerate(lines) if line[12 + column : 13 + column] == "*")
        for column in range(64)
    ]
    assert heights == sorted(heights)
    assert (heights[0], heights[-1]) == (0, 13)
    assert lines[-1].split() == ["rank", "1", "1,000"]
    assert "*" in text_plot(Frequencies.of(np.ones(1, int)))


def test_the_plot_can_be_a_picture(tmp_path):
    frequencies = Frequencies.of(np.arange(100))
    save_plot(tmp_path / "labels.png", "name", frequencies)
    assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")
    missing = tmp_path / "missing" / "labels.png"
    assert_refused("cannot be written", save_plot, missing, "name", frequencies)


def verdicts(tmp_path, dataset, **content):
    card = cards.Card(tmp_path, {"name": "one", **content})
    rows = description.compare(card, dataset, collect_splits(dataset))
    return {name: verdict for name, _, _, verdict in rows}


def test_a_card_is_compared_with_the_files(tmp_path, dataset):
    digest = cards.sha256(dataset.train.path)
    counts = {"train": 3, "test": 2, "labels": 4, "labels_per_query": 1.2}
    found = verdicts(tmp_path, dataset, counts=counts, sha256={"train.txt": digest})
    assert set(found.values()) == {OK, "-"}
    assert found["sha256 of train"] == found["labels per query"] == OK
    assert found["features"] == found["labels per train query"] == "-"
    wrong = {"train": 4, "test": 2, "labels": 5, "labels_per_train_query": 1.35, "features": 9}
    found = verdicts(tmp_path, dataset, counts=wrong, sha256={"train.txt": "0" * 64})
    for name in ("sha256 of train", "train", "labels", "labels per train query"):
        assert found[name] == DIFFERS
    assert found["test"] == OK
    assert found["features"] == "-"  # words of titles are not the card's bag of words


def test_features_of_sparse_rows_are_compared(tmp_path):
    dataset = open_files(write(tmp_path, "1 9 5\n1 3:1\n"))
    found = verdicts(tmp_path, dataset, counts={"features": 8})
    assert found["features"] == DIFFERS
