"""Features and labels in two files: every combination of forms, against scipy."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from solar_tf.datasets import open_source
from solar_tf.errors import UserError

from .files import assert_refused, read, write, write_matrix, write_pair

FEATURES = sp.random(23, 30, density=0.2, format="csr", dtype=np.float32, rng=1)
LABELS = sp.random(23, 12, density=0.2, format="csr", rng=2)
LABELS.data[:] = 1


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("label_form", ["text", "npz"])
@pytest.mark.parametrize("form", ["text", "dense", "npz", "npy"])
def test_every_pair_of_forms(tmp_path, form, label_form, compressed):
    options = {"form": form, "label_form": label_form, "compressed": compressed}
    path, label_path = write_pair(tmp_path, "trn", FEATURES, LABELS, **options)
    source = open_source(path, label_path=label_path)
    assert (source.num_rows, source.num_features, source.num_labels) == (23, 30, 12)
    rows = source.read(5)
    assert rows.label_splits.tolist() == LABELS.indptr.tolist()
    assert rows.labels.tolist() == LABELS.indices.tolist()
    if form in ("npy", "dense"):
        assert source.kind == "dense"
        np.testing.assert_array_equal(rows.dense, FEATURES.toarray())
    else:
        assert source.kind == "sparse"
        assert rows.feature_splits.tolist() == FEATURES.indptr.tolist()
        assert rows.features.tolist() == FEATURES.indices.tolist()
        assert rows.values.tolist() == FEATURES.data.tolist()


@pytest.mark.parametrize("form", ["text", "dense", "npz", "npy"])
def test_the_file_of_labels_is_found_by_its_name(tmp_path, form):
    path, label_path = write_pair(tmp_path, "trn", FEATURES, LABELS, form)
    assert open_source(path).labels.path == label_path
    (tmp_path / label_path).unlink()
    assert_refused("no file of labels beside it: name the file", open_source, path)


def csr_of(**arrays):
    """An .npz with the given arrays in place of those of a valid 2 x 3 matrix."""
    valid = {
        "format": b"csr",
        "shape": np.array([2, 3]),
        "indptr": np.array([0, 1, 3]),
        "indices": np.array([2, 0, 1]),
        "data": np.array([1.0, 2.0, 3.0]),
    }
    file = io.BytesIO()
    np.savez(file, **{**valid, **arrays})
    return file.getvalue()


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (csr_of(format=b"csc"), r"not CSR: save its \.tocsr\(\)"),
        (csr_of(shape=np.array([2, 3, 1])), "its shape is"),
        (csr_of(shape=np.array([2, -3])), "its shape is"),
        (csr_of(indptr=np.array([0, 3])), "its arrays do not fit together"),
        (csr_of(indptr=np.array([0, 1, 9])), "its arrays do not fit together"),
        (csr_of(indptr=np.array([0, 4, 3])), "its indptr decreases"),
        (csr_of(indices=np.array([2, 0, 3])), ":2: a column beyond the matrix' shape"),
        (csr_of(indices=np.array([-1, 0, 1])), ":1: a column beyond the matrix' shape"),
        (csr_of(indices=np.array([2.0, 0, 1])), "indices is of the type float64"),
        (csr_of(data=np.array([1, np.nan, 1])), ":2: a value that is not a finite float32"),
        (csr_of(data=np.array([1, 1, 1e39])), ":2: a value that is not a finite float32"),
        (csr_of(data=np.array([{}, {}, {}])), "data is of the type object"),
        (csr_of()[:-30], "not a valid array file"),
        (b"PK\x03\x04", "not a valid array file"),
        (npy_of(np.zeros(3)), "its shape is"),
        (npy_of(np.zeros((2, 70_000))), "its shape is"),
        (npy_of(np.array([["a"], ["b"]])), "its type <U1"),
        (npy_of(np.array([[1.0], [np.inf]])), ":2: a value that is not a finite float32"),
        (b"2 3\n1 2 3\n1 2\n", ":3: the row does not have the header's 3 values"),
        (b"2 3\n1 2 3\n1 2 x\n", ":3: value 'x' is not a finite float32"),
        (b"2 3\n1 2 3\n1 2 nan\n", ":3: value 'nan' is not a finite float32"),
        (b"2 3\n1 2 3\n", ":1: the header says 2 rows, the file has 1"),
        (b"2 70000\n1 2 3\n1 2 3\n", ":1: dense rows of 70000 values, more than 65536"),
    ],
)
def test_bad_matrices_are_reported(tmp_path, data, message):
    labels = write_matrix(tmp_path, "Y.txt", sp.eye(2, 4, format="csr"))
    path = write(tmp_path, data, "X")
    assert_refused(f"{path}.*{message}", read, path, "pair", label_path=labels)


def test_two_files_that_do_not_belong_together(tmp_path):
    path, _ = write_pair(tmp_path, "trn", FEATURES, LABELS[:5])
    assert_refused("5 rows of labels for 23 rows of features", open_source, path)
    path, labels = write_pair(tmp_path, "trn", FEATURES, -LABELS)
    assert_refused(r"trn_X_Y.txt:\d+: a label whose value is not positive", read, path)
    lines = (tmp_path / labels).read_text().split("\n")
    (tmp_path / labels).write_text("\n".join([lines[0], "99:1", *lines[2:]]))
    assert_refused(r"trn_X_Y.txt:2: label 99 is not below the header's 12", read, path)
    (tmp_path / labels).write_text("\n".join([lines[0], "1 2", *lines[2:]]))
    assert_refused("trn_X_Y.txt:2: '1' is not a label from 0 up with its value", read, path)
    dense = write_matrix(tmp_path, "Y.npy", LABELS)
    message = "labels in a dense matrix: save them as a CSR"
    assert_refused(message, open_source, path, label_path=dense)


def test_a_flipped_bit_in_an_npz_never_passes(tmp_path):
    """zip has a CRC of every member, so that damage to the values is found, too."""
    path, label_path = write_pair(tmp_path, "trn", FEATURES, LABELS, "npz", "text")
    whole = (tmp_path / "trn_X.npz").read_bytes()
    expected = open_source(path, label_path=label_path).read()
    infos = zipfile.ZipFile(path).infolist()
    assert {info.filename for info in infos} >= {"data.npy", "indices.npy", "indptr.npy"}
    generator = np.random.default_rng(0)
    for place in generator.integers(len(whole), size=300):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << generator.integers(8)
        (tmp_path / "trn_X.npz").write_bytes(damaged)
        try:
            rows = open_source(path, "pair", label_path=label_path).read(5)
        except UserError as error:
            assert "\n" not in str(error)
        else:  # a bit that means nothing, such as a date
            assert rows.values.tolist() == expected.values.tolist()
            assert rows.features.tolist() == expected.features.tolist()
