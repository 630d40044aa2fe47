"""A dataset of any form, opened and preprocessed as its user would."""

import gzip
import json
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import small_config, stage

from solar_tf.datasets import cards
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.errors import UserError
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.files import read_arrays

from . import files

NUM_LABELS, NUM_FEATURES = 12, 30


def draw(generator, num_rows, num_columns, chosen):
    """A matrix with `chosen` ones in each row."""
    rows = [generator.choice(num_columns, chosen, replace=False) for _ in range(num_rows)]
    ones = np.ones(num_rows * chosen, np.float32)
    splits = chosen * np.arange(num_rows + 1)
    matrix = sp.csr_matrix((ones, np.concatenate(rows), splits), (num_rows, num_columns))
    matrix.sort_indices()
    return matrix


GENERATOR = np.random.default_rng(0)
ROWS = {  # of each split: features and labels
    split: (draw(GENERATOR, count, NUM_FEATURES, 4), draw(GENERATOR, count, NUM_LABELS, 2))
    for split, count in (("trn", 25), ("tst", 9))
}
FORMS = {
    "titles": (files.write_titles, "text"),
    "titles.gz": (partial(files.write_titles, suffix=".gz"), "text"),
    "titles.xz": (partial(files.write_titles, suffix=".xz"), "text"),
    "json": (files.write_json, "text"),
    "xmlrepo": (files.write_xml_repo, "sparse"),
    "svmlight": (files.write_svmlight, "sparse"),
    "pair": (files.write_pair, "sparse"),
    "csr": (partial(files.write_pair, form="npz"), "sparse"),
    "npy": (partial(files.write_pair, form="npy"), "dense"),
    "dense text": (files.write_dense_text, "dense"),
    "dense pair": (partial(files.write_pair, form="dense"), "dense"),
}


def write_splits(folder, form):
    """The files of training and test rows."""
    paths = [FORMS[form][0](folder, split, *rows) for split, rows in ROWS.items()]
    return [path if isinstance(path, str) else path[0] for path in paths]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The targets that every form must lead to: those of the plain titles."""
    folder = tmp_path_factory.mktemp("titles")
    return targets_of(preprocessed(folder, "titles"))


def preprocessed(folder, form):
    return preprocess(folder / "run", open_files(*write_splits(folder, form)), small_config(), 1)


def targets_of(run):
    """The labels of the test rows, and how often each label is in training."""
    rows = read_arrays(run.paths.rows("test", 0), "preprocess.py")
    splits, labels = rows["label_splits"].tolist(), rows["labels"].tolist()
    return splits, labels, np.load(run.paths.label_counts).tolist()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_run(form, tmp_path, expected):
    run, kind = preprocessed(tmp_path, form), FORMS[form][1]
    assert targets_of(run) == expected
    assert run.dataset["kind"] == kind
    assert run.summary["train"]["rows"] == 25
    if kind != "dense":
        rows = read_arrays(run.paths.rows("train", 0), "preprocess.py")
        assert np.diff(rows["feature_splits"]).tolist() == [4] * 25


def test_the_fingerprint_has_every_file(tmp_path):
    train, test = write_splits(tmp_path, "pair")
    (tmp_path / "filter_labels_test.txt").write_text("0 1\n")
    (tmp_path / "labels.txt").write_text("a\n" * NUM_LABELS)
    before = open_files(train, test, tmp_path / "labels.txt").fingerprint()
    assert before.keys() == {"train", "train_labels", "test", "test_labels", "labels", "filter"}
    assert before["test_labels"]["name"] == "tst_X_Y.txt"
    for name, role in (("trn_X_Y.txt", "train_labels"), ("filter_labels_test.txt", "filter")):
        with open(tmp_path / name, "a") as file:
            file.write("\n")
        after = open_files(train, test, tmp_path / "labels.txt").fingerprint()
        assert [key for key in before if before[key] != after[key]] == [role]
        before = after


def test_files_of_labels_can_be_named(tmp_path):
    write_splits(tmp_path, "pair")
    paths = [(tmp_path / f"{s}_X_Xf.txt").rename(tmp_path / f"{s}.txt") for s in ("trn", "tst")]
    named = {"train_labels": tmp_path / "trn_X_Y.txt", "test_labels": tmp_path / "tst_X_Y.txt"}
    assert len(open_files(*paths, **named).test.read().labels) == 18
    with pytest.raises(UserError, match=r"trn.txt: no file of labels beside it: name the file"):
        open_files(*paths)


def test_the_filter_beside_the_test_rows_is_found_unless_told_otherwise(tmp_path):
    train, test = write_splits(tmp_path, "xmlrepo")
    assert open_files(train, test).filter_path is None
    beside = tmp_path / "filter_labels_test.txt"
    beside.write_text("0 1\n8 11\n")
    assert open_files(train, test).filter_path == str(beside)
    assert open_files(train, test, filter="").filter_path is None
    assert open_files(train).filter_path is None
    other = tmp_path / "other.txt"
    other.write_text("2 3\n2 1\n")
    run = preprocess(tmp_path / "run", open_files(train, test, filter=other), small_config(), 1)
    stored = read_arrays(run.paths.test_filter, "preprocess.py")
    assert stored["splits"].tolist() == [0, 0, 0, 2, 2, 2, 2, 2, 2, 2]
    assert stored["labels"].tolist() == [1, 3]
    with pytest.raises(UserError, match=r"other.txt: a filter of test rows, and there are none"):
        open_files(train, filter=other)


def test_a_filter_of_other_data_leaves_nothing_behind(tmp_path):
    (tmp_path / "filter_labels_test.txt").write_text("0 1\n9 1\n")
    message = "filter_labels_test.txt:2: row 9, label 1 is beyond 9 rows"
    with pytest.raises(UserError, match=message):
        preprocessed(tmp_path, "titles")
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert all(path.suffix == ".lock" for path in left)


def test_a_card_brings_its_files_its_preset_and_its_constants(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "FOLDERS", (tmp_path,))
    folder = tmp_path / "one"
    folder.mkdir()
    write_splits(folder, "dense pair")
    named = {"train": "trn_ft_mat_dense.txt", "train_labels": "trn_lbl_mat.txt"}
    named |= {"test": "tst_ft_mat_dense.txt", "test_labels": "tst_lbl_mat.txt"}
    card = {"name": "one", "format": "pair", "files": named, "preset": "wiki500k"}
    card["propensity"] = {"a": 0.5, "b": 0.4}
    (folder / "card.json").write_text(json.dumps(card))
    dataset = open_named("ONE")
    assert (dataset.name, dataset.kind, dataset.preset) == ("one", "dense", "wiki500k")
    assert dataset.propensity == (0.5, 0.4)
    assert dataset.num_labels == NUM_LABELS


def test_test_rows_of_another_dataset_are_an_error(tmp_path):
    train, _ = write_splits(tmp_path, "xmlrepo")
    for header, message in (
        ("1 30 11", "11 labels, where 12"),
        ("1 29 12", "29 features, where 30"),
    ):
        files.assert_refused(
            message, open_files, train, files.write(tmp_path, f"{header}\n1 1:1\n")
        )
    titles = files.write(tmp_path, "1\tone\n")
    files.assert_refused("text rows, where training has sparse ones", open_files, train, titles)


def test_too_many_labels_are_an_error(tmp_path):
    (tmp_path / "train.txt").write_text("2000000000\ta\n")
    with pytest.raises(UserError, match=r"train.txt: 2,000,000,001 labels are too many: number"):
        preprocess(tmp_path / "run", open_files(tmp_path / "train.txt"), small_config(), 1)


CONFIG = [f"--{name}={value}" for name, value in small_config().to_dict().items()]


def test_the_flags_of_the_program(tmp_path):
    write_splits(tmp_path, "pair")
    write_splits(tmp_path, "json")
    (tmp_path / "filter_labels_test.txt").write_text("0 1\n")
    titles = "".join(json.dumps({"uid": i, "title": f"label {i}"}) + "\n" for i in range(12))
    (tmp_path / "lbl.json.gz").write_bytes(gzip.compress(titles.encode()))
    flags = *CONFIG, "--workers=1"
    raw = "--train=trn.json.gz", "--test=tst.json.gz", "--labels=lbl.json.gz"
    done = stage("preprocess", *flags, *raw, "--run=raw", cwd=tmp_path)
    assert "1 labels of rows are not evaluated" in done.stdout
    assert (tmp_path / "raw/labels/titles.txt").read_text().splitlines()[11] == "label 11"
    named = "--train=trn_X_Xf.txt", "--test=tst_X_Xf.txt", "--test_labels=tst_X_Y.txt", "--filter="
    done = stage("preprocess", *flags, *named, "--run=pair", cwd=tmp_path)
    assert "not evaluated" not in done.stdout
    done = stage("preprocess", "--dataset=Eurlex-4K", "--run=none", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "get the dataset Eurlex-4K from http://" in done.stderr
    assert not (tmp_path / "none").exists()
