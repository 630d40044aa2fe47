"""Features and labels in two files: every combination of forms, against scipy."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse

from solar_tf.datasets import open_source
from solar_tf.errors import UserError

FEATURES = scipy.sparse.random(23, 30, density=0.2, format="csr", dtype=np.float32, rng=1)
LABELS = scipy.sparse.random(23, 12, density=0.2, format="csr", rng=2)
LABELS.data[:] = 1


def write_text(path, matrix):
    lines = [f"{matrix.shape[0]} {matrix.shape[1]}"]
    for row in matrix:
        pairs = zip(row.indices.tolist(), row.data.tolist(), strict=True)
        lines.append(" ".join(f"{i}:{v!r}" for i, v in pairs))
    path.write_text("\n".join(lines) + "\n")


def write_dense_text(path, matrix):
    lines = [f"{matrix.shape[0]} {matrix.shape[1]}"]
    lines += [" ".join(map(repr, row)) for row in matrix.toarray().tolist()]
    path.write_text("\n".join(lines) + "\n")


def write(folder, features=FEATURES, labels=LABELS, form="txt", label_form="txt", **options):
    names = {
        "txt": "trn_X_Xf.txt",
        "dense": "trn_ft_mat_dense.txt",
        "npz": "trn_X.npz",
        "npy": "trn_X.npy",
    }
    label_names = {"txt": "trn_X_Y.txt", "lbl": "trn_lbl_mat.txt", "npz": "trn_Y.npz"}
    for matrix, name in ((features, names[form]), (labels, label_names[label_form])):
        path = folder / name
        if name.endswith("dense.txt"):
            write_dense_text(path, matrix)
        elif name.endswith("txt"):
            write_text(path, matrix)
        elif name.endswith("npz"):
            scipy.sparse.save_npz(path, matrix, **options)
        else:
            np.save(path, matrix.toarray())
    return str(folder / names[form]), str(folder / label_names[label_form])


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("label_form", ["txt", "npz"])
@pytest.mark.parametrize("form", ["txt", "dense", "npz", "npy"])
def test_every_pair_of_forms(tmp_path, form, label_form, compressed):
    path, label_path = write(tmp_path, form=form, label_form=label_form, compressed=compressed)
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


@pytest.mark.parametrize(
    ("form", "label_form"), [("txt", "txt"), ("dense", "lbl"), ("npz", "npz"), ("npy", "npz")]
)
def test_the_file_of_labels_is_found_by_its_name(tmp_path, form, label_form):
    path, label_path = write(tmp_path, form=form, label_form=label_form)
    assert open_source(path).labels.path == label_path
    (tmp_path / label_path).unlink()
    with pytest.raises(UserError, match="no file of labels beside it: name the file"):
        open_source(path)


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
    ],
)
def test_bad_matrices_are_reported(tmp_path, data, message):
    write_text(tmp_path / "Y.txt", scipy.sparse.eye(2, 4, format="csr"))
    (tmp_path / "X.npz").write_bytes(data)
    with pytest.raises(UserError, match=message) as caught:
        open_source(str(tmp_path / "X.npz"), label_path=tmp_path / "Y.txt").read(1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "its shape is"),
        (np.zeros((2, 70_000)), "its shape is"),
        (np.array([["a"], ["b"]]), "its type <U1"),
        (np.array([[1.0], [np.inf]]), ":2: a value that is not a finite float32"),
    ],
)
def test_bad_dense_arrays_are_reported(tmp_path, array, message):
    write_text(tmp_path / "Y.txt", scipy.sparse.eye(2, 4, format="csr"))
    np.save(tmp_path / "X.npy", array)
    with pytest.raises(UserError, match=message):
        open_source(str(tmp_path / "X.npy"), label_path=tmp_path / "Y.txt").read(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 3\n1 2 3\n1 2\n", ":3: the row does not have the header's 3 values"),
        ("2 3\n1 2 3\n1 2 x\n", ":3: value 'x' is not a finite float32"),
        ("2 3\n1 2 3\n1 2 nan\n", ":3: value 'nan' is not a finite float32"),
        ("2 3\n1 2 3\n", ":1: the header says 2 rows, the file has 1"),
        ("2 70000\n1 2 3\n1 2 3\n", ":1: dense rows of 70000 values, more than 65536"),
    ],
)
def test_bad_rows_of_values_are_reported(tmp_path, text, message):
    write_text(tmp_path / "trn_lbl_mat.txt", scipy.sparse.eye(2, 4, format="csr"))
    (tmp_path / "trn_ft_mat_dense.txt").write_text(text)
    with pytest.raises(UserError, match=f"trn_ft_mat_dense.txt{message}"):
        open_source(str(tmp_path / "trn_ft_mat_dense.txt")).read(1)


def test_two_files_that_do_not_belong_together(tmp_path):
    path, _ = write(tmp_path, labels=LABELS[:5])
    with pytest.raises(UserError, match="5 rows of labels for 23 rows of features"):
        open_source(path)
    path, _ = write(tmp_path, labels=-LABELS)
    with pytest.raises(UserError, match=r"trn_X_Y.txt:\d+: a label whose value is not positive"):
        open_source(path).read()
    with pytest.raises(UserError, match=r"trn_X_Y.txt:2: label 99 is not below the header's 12"):
        text = (tmp_path / "trn_X_Y.txt").read_text().split("\n")
        text[1] = "99:1"
        (tmp_path / "trn_X_Y.txt").write_text("\n".join(text))
        open_source(path).read()
    np.save(tmp_path / "Y.npy", LABELS.toarray())
    with pytest.raises(UserError, match="labels in a dense matrix: save them as a CSR"):
        open_source(path, label_path=tmp_path / "Y.npy")


def test_a_flipped_bit_in_an_npz_never_passes(tmp_path):
    """zip has a CRC of every member, so that damage to the values is found, too."""
    path, label_path = write(tmp_path, form="npz", label_form="txt")
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
