import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import open_titles, small_config, write_titles

from solar_tf.baselines.inputs import csr_arrays, load_data
from solar_tf.datasets.dataset import open_files
from solar_tf.errors import UserError
from solar_tf.preprocessing.features import scale_rows
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.files import read_arrays, write_arrays


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same titles as counts, as TF-IDF, and with the square of the IDF."""
    folder = write_titles(tmp_path_factory.mktemp("titles"), 200, 40)
    settings = {"counts": {}, "tfidf": {}, "squared": {"weighting": "tfidf", "idf_power": 2.0}}
    roots = {name: tmp_path_factory.mktemp(name) for name in settings}
    for name, changes in settings.items():
        config = small_config(**{"weighting": name, "num_chunks": 1, **changes})
        preprocess(roots[name], open_titles(folder), config, 1)
    return roots


@pytest.mark.parametrize("weighting", ["counts", "tfidf", "auto"])
@pytest.mark.parametrize("other", ["tfidf", "squared"])
def test_every_run_gives_every_weighting(runs, weighting, other):
    first, second = (load_data(runs[name], weighting, 1) for name in ("counts", other))
    for a, b in ((first.train, second.train), (first.test, second.test)):
        np.testing.assert_allclose(a.inputs.toarray(), b.inputs.toarray(), rtol=1e-5)
        assert (a.labels != b.labels).nnz == 0
    np.testing.assert_allclose(
        first.label_inputs.toarray(), second.label_inputs.toarray(), rtol=1e-5
    )


def test_a_power_of_the_idf_fades_frequent_words(runs):
    once, twice = (load_data(runs["tfidf"], "tfidf", power).train.inputs for power in (1, 2))
    counts = load_data(runs["tfidf"], "counts").train.inputs
    product = counts.copy()
    product.data = once.data**2 / counts.data  # no word occurs twice in these titles
    np.testing.assert_allclose(twice.toarray(), scale_rows(product).toarray(), rtol=1e-4)


def test_the_power_is_the_runs_unless_another_is_given(runs):
    own, given = load_data(runs["squared"]), load_data(runs["tfidf"], idf_power=2)
    np.testing.assert_allclose(own.test.inputs.toarray(), given.test.inputs.toarray(), rtol=1e-4)
    once = load_data(runs["tfidf"])
    assert np.abs(own.test.inputs - once.test.inputs).max() > 0.01


def test_rows_are_the_titles(runs):
    data = load_data(runs["counts"], "counts")
    assert (len(data.train), len(data.test), data.num_labels) == (200, 40, 40)
    lengths = np.sqrt(data.train.inputs.multiply(data.train.inputs).sum(axis=1))
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)
    assert np.all(np.diff(data.train.labels.indptr) == 2)
    assert data.label_counts.sum() == 400
    words = (runs["counts"] / "vocab" / "words.txt").read_text().splitlines()[1:]
    topics = {word.split("\t")[0]: i for i, word in enumerate(words)}
    for label in range(0, 40, 7):  # "about topicN", of which the vocabulary knows the second word
        assert data.label_inputs[[label]].indices.tolist() == [topics[f"topic{label}"]]


def test_words_come_in_their_order(tmp_path):
    folder = write_titles(tmp_path / "titles", 60, 10)
    (folder / "train.txt").write_text("1\tzeta alpha zeta beta\n0\t\n2\tbeta\n")
    preprocess(tmp_path / "run", open_titles(folder), small_config(num_chunks=1), 1)
    data = load_data(tmp_path / "run", "words")
    lines = (tmp_path / "run" / "vocab" / "words.txt").read_text().splitlines()[1:]
    words = [line.split("\t")[0] for line in lines]

    def texts(inputs):
        splits = zip(inputs.indptr[:-1], inputs.indptr[1:], strict=True)
        return [[words[i] for i in inputs.indices[a:b]] for a, b in splits]

    assert texts(data.train.inputs) == [["zeta", "alpha", "zeta", "beta"], [], ["beta"]]
    assert texts(data.train.inputs[[2, 0]]) == [["beta"], ["zeta", "alpha", "zeta", "beta"]]
    assert np.all(data.train.inputs.data == 1)
    assert data.label_inputs.nnz == 0  # no word of these titles is known


def test_a_run_that_kept_no_order_says_so(runs, tmp_path):
    root = tmp_path / "run"
    shutil.copytree(runs["counts"], root)
    for path in root.glob("rows/*/*.npz"):
        arrays = read_arrays(path, "")
        write_arrays(path, {k: v for k, v in arrays.items() if k not in ("word_splits", "words")})
    assert len(load_data(root).train) == 200
    with pytest.raises(UserError, match="order of words: make a new run"):
        load_data(root, "words")


def test_propensities_are_the_formula(runs):
    data = load_data(runs["counts"])
    rows, (a, b) = 200, data.propensity
    constant = (np.log(rows) - 1) * (b + 1) ** a
    wanted = 1 + constant * (data.label_counts + b) ** -a
    np.testing.assert_allclose(data.inverse_propensity, wanted)


def test_dense_inputs_are_read_without_tensorflow(tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    for split in ("train", "test"):
        with open(tmp_path / f"{split}.txt", "w") as file:
            file.write("30 5 4\n")
            for i, row in enumerate(rows.tolist()):
                file.write(f"{i % 4} {' '.join(map(repr, row))}\n")
    dataset = open_files(tmp_path / "train.txt", tmp_path / "test.txt", format="dense-text")
    preprocess(tmp_path / "run", dataset, small_config(num_chunks=1), 1)
    data = load_data(tmp_path / "run")
    assert data.kind == "dense"
    np.testing.assert_allclose(data.train.inputs, scale_rows(rows.copy()), rtol=1e-6)


def test_a_run_without_test_rows_is_an_error(tmp_path):
    folder = write_titles(tmp_path / "titles", 60, 1)
    dataset = open_files(folder / "train.txt", labels=folder / "labels.txt")
    preprocess(tmp_path / "run", dataset, small_config(num_chunks=1), 1)
    with pytest.raises(UserError, match="need training and test rows"):
        load_data(tmp_path / "run")


def test_kernels_get_one_kind_of_arrays():
    dense = np.array([[0, 2.0], [0, 0]])
    for matrix in (dense, sp.csr_matrix(dense), sp.csr_array(dense)):
        splits, columns, values = csr_arrays(matrix)
        assert (splits.dtype, columns.dtype, values.dtype) == (np.int64, np.int32, np.float32)
        assert (splits.tolist(), columns.tolist(), values.tolist()) == ([0, 1, 1], [1], [2.0])
