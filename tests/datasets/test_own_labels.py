"""Labels that rows have by their own title, against a loop over the rows."""

import numpy as np
import pytest
from conftest import open_titles, small_config, stage, write_titles
from hypothesis import given
from hypothesis import strategies as st
from solar_tf.datasets.own_labels import add_own_labels, index_titles

from solar_tf.datasets.titles import text_rows
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.directory import read_arrays

TITLES = st.sampled_from(["a", "b", "B", "a b", ""])
ROWS = st.lists(st.tuples(TITLES, st.lists(st.integers(0, 5), max_size=4)), max_size=12)


@given(ROWS, st.lists(TITLES, min_size=6, max_size=6))
def test_a_row_has_its_labels_and_those_of_its_title(rows, titles):
    counts = [len(labels) for _, labels in rows]
    labels = np.array([label for _, labels in rows for label in labels], np.int64)
    before = text_rows(counts, labels, [text for text, _ in rows])
    after = add_own_labels(before, index_titles(titles))
    assert after.texts == before.texts
    assert after.labels.dtype == np.int32
    for row, (text, labels) in enumerate(rows):
        expected = {*labels, *(i for i, title in enumerate(titles) if title == text)}
        found = after.labels[after.label_splits[row] : after.label_splits[row + 1]]
        assert found.tolist() == sorted(expected)


@pytest.mark.parametrize("workers", [1, 2])
def test_only_training_rows_get_them(tmp_path, workers):
    folder = write_titles(tmp_path / "data", num_train=20, num_test=5, num_labels=4)
    titles = (folder / "labels.txt").read_text().splitlines()
    for split in ("train", "test"):
        with open(folder / f"{split}.txt", "a") as file:
            file.write(f"0\t{titles[3]}\n\t{titles[1]}\n")
    config = small_config(own_label="add")
    run = preprocess(tmp_path / "run", open_titles(folder), config, workers)
    for split, expected in (("train", [[0, 3], [1]]), ("test", [[0], []])):
        rows = read_arrays(run.paths.rows(split, 0), "preprocess.py")
        splits, labels = rows["label_splits"], rows["labels"]
        assert [labels[splits[-3] : splits[-2]].tolist(), labels[splits[-2] :].tolist()] == expected


def test_without_titles_of_labels_there_is_nothing_to_add(tmp_path):
    folder = write_titles(tmp_path, num_train=20, num_test=5)
    flags = ("--train", folder / "train.txt", "--own_label", "add", "--run", tmp_path / "run")
    done = stage("preprocess", *flags, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: own_label=add needs titles of rows and labels: give --labels, or leave it\n"
    )
    assert not (tmp_path / "run" / "config.json").exists()
