"""The Python API: its doctests, its manners, and that it makes runs like the programs'."""

import doctest

import numpy as np
import pytest
import scipy.sparse
from conftest import SMALL, files_of, open_titles, texts_and_labels
from sklearn.base import clone

import solar_tf
from solar_tf import Solar, api
from solar_tf.errors import UserError
from solar_tf.retrieval import attributes
from solar_tf.retrieval.evaluation import infer


@pytest.mark.parametrize("module", [api, attributes])
def test_the_examples_run(module):
    failed, attempted = doctest.testmod(module)
    assert attempted > 1 and failed == 0


def test_names_of_the_package():
    assert solar_tf.Solar is Solar and solar_tf.Hit is api.Hit
    with pytest.raises(AttributeError, match="no attribute 'Lunar'"):
        _ = solar_tf.Lunar


def test_parameters_as_scikit_learn_has_them():
    solar = Solar("books", epochs=3)
    assert solar.get_params() == {"preset": "books", "epochs": 3}
    assert solar.set_params(epochs=4, hidden_dim=8) is solar
    assert (solar.config.epochs, solar.config.num_chunks) == (4, 16)
    twin = clone(solar)
    assert twin is not solar and twin.get_params() == solar.get_params()
    assert repr(twin) == "Solar(preset='books', epochs=4, hidden_dim=8)"
    with pytest.raises(UserError, match="unknown hyper-parameter 'epoch'"):
        Solar(epoch=3)
    with pytest.raises(UserError, match="unknown preset"):
        _ = Solar("lunar").config
    with pytest.raises(UserError, match="not trained yet"):
        Solar().predict(["x"])


def test_fit_makes_the_run_that_the_programs_make(titles, trained, tmp_path, capsys):
    dataset = open_titles(titles)
    X, Y = texts_and_labels(dataset.train)
    solar = Solar("books", **SMALL)
    assert solar.fit(X, Y, dataset.label_titles, run=tmp_path) is solar
    assert capsys.readouterr().out == ""
    for folder in ("records/train", "index", "vocab", "labels"):
        assert files_of(tmp_path, folder) == files_of(trained.paths.root, folder)
    kernel = "chunks/chunk_01/output_kernel.npy"
    kernels = [np.load(root / kernel) for root in (tmp_path, trained.paths.root)]
    np.testing.assert_allclose(*kernels, atol=1e-5)
    X, Y = texts_and_labels(dataset.test)
    metrics = Solar.load(tmp_path).evaluate(X, Y, m=7)
    for row in infer(trained.paths.root, top_buckets=(7,), full=False, scores=("evidence",)):
        for name, value in metrics.items():
            assert abs(value - row[name]) < 1.5, name
    assert solar.score(X, Y) > 0.9
    # Fitted again it is complete already, and other data is refused.
    before = files_of(tmp_path, "chunks")
    solar.fit(*texts_and_labels(dataset.train), dataset.label_titles, run=tmp_path)
    assert files_of(tmp_path, "chunks") == before
    with pytest.raises(UserError, match="a run of other data"):
        solar.fit(X, Y, run=tmp_path)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_matrices_in_rankings_out(kind):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 200)
    X = np.zeros((200, 30), np.float32)
    X[np.arange(200), labels] = 2
    X[np.arange(200), generator.integers(10, 30, 200)] = 1
    solar = Solar("books", **SMALL | {"epochs": 12})
    solar.fit(scipy.sparse.csr_array(X) if kind == "sparse" else X, labels[:, None].tolist())
    ids, scores = solar.predict(X[:50], k=12)
    assert ids.shape == scores.shape == (50, 12)
    assert (ids[:, 10:] == -1).all() and (np.sort(ids[:, :10]) == np.arange(10)).all()
    assert np.mean(ids[:, 0] == labels[:50]) > 0.9
    assert solar.evaluate(X[:50], labels[:50, None].tolist())["P@1"] > 90
    assert solar.search(X[:1], k=1)[0][0].title is None
    with pytest.raises(UserError, match="7 features, where the run has 30"):
        solar.predict(X[:, :7])


def test_loaded_runs_know_their_hyperparameters(trained):
    solar = Solar.load(trained.paths.root, num_chunks=2)
    assert solar.config == trained.config
    assert solar.searcher.chunks == (0, 1)
    assert len(solar.search(["topic1"], k=1)[0][0].evidence) == 2


def test_several_processes_train_as_one_does(titles, tmp_path):
    rows = texts_and_labels(open_titles(titles).train)
    solar = Solar("books", **SMALL | {"epochs": 1}).fit(*rows, run=tmp_path, workers=2)
    assert len(solar.run_.trained_chunks()) == 3
