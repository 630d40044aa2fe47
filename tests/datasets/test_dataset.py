"""A dataset of any form, opened and preprocessed as its user would."""

import gzip
import json
import lzma

import numpy as np
import pytest
import scipy.sparse
from conftest import small_config, stage

from solar_tf.datasets import cards
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.errors import UserError
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.files import read_arrays

NUM_LABELS, NUM_FEATURES = 12, 30
GENERATOR = np.random.default_rng(0)
ROWS = {  # of each split: labels and features
    split: [
        (
            sorted(GENERATOR.choice(NUM_LABELS, 2, replace=False).tolist()),
            sorted(GENERATOR.choice(NUM_FEATURES, 4, replace=False).tolist()),
        )
        for _ in range(count)
    ]
    for split, count in (("trn", 25), ("tst", 9))
}


def words(features):
    return " ".join(f"word{i}" for i in features)


def join(numbers):
    return ",".join(map(str, numbers))


def pairs(numbers):
    return " ".join(f"{i}:1" for i in numbers)


def write_titles(folder, split, rows, suffix=""):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    text = "".join(f"{join(labels)}\t{words(features)}\n" for labels, features in rows)
    path = folder / f"{split}.txt{suffix}"
    path.write_bytes(pack(text.encode()))
    return path


def write_json(folder, split, rows):
    records = [{"uid": "x", "title": words(f), "content": "", "target_ind": y} for y, f in rows]
    path = folder / f"{split}.json.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode()))
    return path


def write_xml_repo(folder, split, rows):
    lines = [f"{join(labels)} {pairs(features)}\n" for labels, features in rows]
    path = folder / f"{split}.txt"
    path.write_text(f"{len(rows)} {NUM_FEATURES} {NUM_LABELS}\n" + "".join(lines))
    return path


def write_svmlight(folder, split, rows):
    path = folder / f"{split}.svm"
    path.write_text("".join(f"{join(labels)} {pairs(features)}\n" for labels, features in rows))
    return path


def matrix(rows, which, columns):
    dense = np.zeros((len(rows), columns), np.float32)
    for i, row in enumerate(rows):
        dense[i, row[which]] = 1
    return dense


def write_pair(folder, split, rows):
    for name, which, columns in (("Y", 0, NUM_LABELS), ("Xf", 1, NUM_FEATURES)):
        lines = [f"{pairs(row[which])}\n" for row in rows]
        path = folder / f"{split}_X_{name}.txt"
        path.write_text(f"{len(rows)} {columns}\n" + "".join(lines))
    return path


def write_csr(folder, split, rows):
    for name, which, columns in (("Y", 0, NUM_LABELS), ("X", 1, NUM_FEATURES)):
        path = folder / f"{split}_{name}.npz"
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(matrix(rows, which, columns)))
    return path


def write_npy(folder, split, rows):
    write_csr(folder, split, rows)
    np.save(folder / f"{split}_X.npy", matrix(rows, 1, NUM_FEATURES))
    return folder / f"{split}_X.npy"


def write_dense_text(folder, split, rows):
    vectors = matrix(rows, 1, NUM_FEATURES).tolist()
    lines = [
        f"{join(y)} {' '.join(map(str, x))}\n" for (y, _), x in zip(rows, vectors, strict=True)
    ]
    path = folder / f"{split}.txt"
    path.write_text(f"{len(rows)} {NUM_FEATURES} {NUM_LABELS}\n" + "".join(lines))
    return path


def write_dense_pair(folder, split, rows):
    vectors = matrix(rows, 1, NUM_FEATURES).tolist()
    path = folder / f"{split}_ft_mat_dense.txt"
    lines = "".join(" ".join(map(str, x)) + "\n" for x in vectors)
    path.write_text(f"{len(rows)} {NUM_FEATURES}\n{lines}")
    labels = "".join(f"{pairs(row[0])}\n" for row in rows)
    (folder / f"{split}_lbl_mat.txt").write_text(f"{len(rows)} {NUM_LABELS}\n{labels}")
    return path


FORMS = {
    "titles": (write_titles, "text"),
    "titles.gz": (lambda *a: write_titles(*a, ".gz"), "text"),
    "titles.xz": (lambda *a: write_titles(*a, ".xz"), "text"),
    "json": (write_json, "text"),
    "xmlrepo": (write_xml_repo, "sparse"),
    "svmlight": (write_svmlight, "sparse"),
    "pair": (write_pair, "sparse"),
    "csr": (write_csr, "sparse"),
    "npy": (write_npy, "dense"),
    "dense text": (write_dense_text, "dense"),
    "dense pair": (write_dense_pair, "dense"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The targets that every form must lead to: those of the plain titles."""
    folder = tmp_path_factory.mktemp("titles")
    return targets_of(preprocessed(folder, write_titles))


def preprocessed(folder, write):
    train, test = (write(folder, split, rows) for split, rows in ROWS.items())
    return preprocess(folder / "run", open_files(train, test), small_config(), 1)


def targets_of(run):
    """The labels of the test rows, and how often each label is in training."""
    rows = read_arrays(run.paths.rows("test", 0), "preprocess.py")
    splits, labels = rows["label_splits"].tolist(), rows["labels"].tolist()
    return splits, labels, np.load(run.paths.label_counts).tolist()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_run(form, tmp_path, expected):
    write, kind = FORMS[form]
    run = preprocessed(tmp_path, write)
    assert targets_of(run) == expected
    assert run.dataset["kind"] == kind
    assert run.summary["train"]["rows"] == 25
    if kind != "dense":
        rows = read_arrays(run.paths.rows("train", 0), "preprocess.py")
        assert np.diff(rows["feature_splits"]).tolist() == [4] * 25


def test_the_fingerprint_has_every_file(tmp_path):
    train, test = (write_pair(tmp_path, split, rows) for split, rows in ROWS.items())
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
    for split, rows in ROWS.items():
        write_pair(tmp_path, split, rows)
        (tmp_path / f"{split}_X_Xf.txt").rename(tmp_path / f"{split}.txt")
    named = {f"{role}_labels": tmp_path / f"{split}_X_Y.txt"
             for role, split in (("train", "trn"), ("test", "tst"))}  # fmt: skip
    files = tmp_path / "trn.txt", tmp_path / "tst.txt"
    assert len(open_files(*files, **named).test.read().labels) == 18
    with pytest.raises(UserError, match=r"trn.txt: no file of labels beside it: name the file"):
        open_files(*files)


def test_the_filter_beside_the_test_rows_is_found_unless_told_otherwise(tmp_path):
    train, test = (write_xml_repo(tmp_path, split, rows) for split, rows in ROWS.items())
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
    train, test = (write_titles(tmp_path, split, rows) for split, rows in ROWS.items())
    (tmp_path / "filter_labels_test.txt").write_text("0 1\n9 1\n")
    with pytest.raises(
        UserError, match=r"filter_labels_test.txt:2: row 9, label 1 is beyond 9 rows"
    ):
        preprocess(tmp_path / "run", open_files(train, test), small_config(), 1)
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert all(path.suffix == ".lock" for path in left)


def test_a_card_brings_its_files_its_preset_and_its_constants(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "FOLDERS", (tmp_path,))
    folder = tmp_path / "one"
    folder.mkdir()
    for split, rows in ROWS.items():
        write_dense_pair(folder, split, rows)
    files = {
        "train": "trn_ft_mat_dense.txt",
        "train_labels": "trn_lbl_mat.txt",
        "test": "tst_ft_mat_dense.txt",
        "test_labels": "tst_lbl_mat.txt",
    }
    card = {"name": "one", "format": "pair", "files": files, "preset": "wiki500k"}
    card["propensity"] = {"a": 0.5, "b": 0.4}
    (folder / "card.json").write_text(json.dumps(card))
    dataset = open_named("ONE")
    assert (dataset.name, dataset.kind, dataset.preset) == ("one", "dense", "wiki500k")
    assert dataset.propensity == (0.5, 0.4)
    assert dataset.num_labels == NUM_LABELS


def test_too_many_labels_are_an_error(tmp_path):
    (tmp_path / "train.txt").write_text("2000000000\ta\n")
    with pytest.raises(UserError, match=r"train.txt: 2,000,000,001 labels are too many: number"):
        preprocess(tmp_path / "run", open_files(tmp_path / "train.txt"), small_config(), 1)


CONFIG = [f"--{name}={value}" for name, value in small_config().to_dict().items()]


def test_the_flags_of_the_program(tmp_path):
    for split, rows in ROWS.items():
        write_pair(tmp_path, split, rows)
        write_json(tmp_path, split, rows)
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
