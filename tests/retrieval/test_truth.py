import numpy as np
from conftest import open_titles, small_config

from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.truth import removed_labels, true_labels


def test_true_labels_are_those_of_the_test_file(preprocessed, titles):
    splits, labels = true_labels(preprocessed)
    rows = [line.split("\t")[0].split(",") for line in (titles / "test.txt").open()]
    assert np.diff(splits).tolist() == [len(row) for row in rows]
    assert labels.tolist() == [int(label) for row in rows for label in row]
    assert removed_labels(preprocessed)[0].tolist() == [0] * (len(rows) + 1)


def test_filtered_labels_are_left_out(tmp_path, titles):
    for name in ("train", "test", "labels"):
        (tmp_path / f"{name}.txt").write_bytes((titles / f"{name}.txt").read_bytes())
    first = (titles / "test.txt").read_text().split("\t")[0].split(",")
    (tmp_path / "filter_labels_test.txt").write_text(f"0 {first[0]}\n")
    run = preprocess(tmp_path / "run", open_titles(tmp_path), small_config(), 1)
    splits, labels = true_labels(run)
    assert labels[: splits[1]].tolist() == [int(first[1])]
    assert removed_labels(run)[1].tolist() == [int(first[0])]
