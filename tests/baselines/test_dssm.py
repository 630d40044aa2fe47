import dataclasses

import numpy as np
import pytest

from baselines.test_models import DSSM, fitted, solves
from solar_tf.baselines.dssm import Dssm, mean_squared_cosine
from solar_tf.errors import UserError


def test_hnsw_answers_nearly_as_the_exact_search(titled, tmp_path):
    pytest.importorskip("faiss", reason="faiss-cpu is of the extra [baselines]")
    baseline = fitted("dssm", DSSM | {"search": "hnsw"}, titled, tmp_path)
    solves(baseline, titled, 99)
    exact = Dssm(Dssm.Settings(**DSSM))
    exact.arrays = baseline.arrays
    wanted, found = (b.predict(titled.test.inputs, 10)[0] for b in (exact, baseline))
    assert np.mean(wanted == found) > 0.95


def test_seeds_decide_everything(titled, tmp_path):
    def vectors(seed, name):
        settings = DSSM | {"epochs": 1, "seed": seed}
        return fitted("dssm", settings, titled, tmp_path / name).arrays["labels"]

    first = vectors(0, "a")
    np.testing.assert_array_equal(vectors(0, "b"), first)
    assert not np.allclose(vectors(1, "c"), first)


def test_equal_titles_are_the_first_answer_unless_they_are_dropped(titled, tmp_path):
    """Queries that are the labels' own titles."""
    keep = fitted("dssm", DSSM, titled, tmp_path)
    own = np.arange(titled.num_labels)
    assert np.all(keep.predict(titled.label_inputs, 2)[0][:, 0] == own)
    drop = Dssm(dataclasses.replace(keep.settings, same_title="drop"))
    drop.arrays = keep.arrays
    ids, _ = drop.predict(titled.label_inputs, 40)
    assert not np.any(ids == own[:, None]) and np.all(ids[:, -1] == -1)
    assert np.mean(ids[:, 0] == own ^ 1) > 0.9  # then the other of the planted pair


def test_mean_squared_cosine():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(3000, 20))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert mean_squared_cosine(vectors, 0) == pytest.approx(1 / 20, rel=0.02)
    assert mean_squared_cosine(np.eye(20), 0) == 0
    assert mean_squared_cosine(np.ones((20, 1)), 0) == pytest.approx(1)


def test_a_run_without_titles_of_labels_is_refused(planted, tmp_path):
    with pytest.raises(UserError, match="titles of labels"):
        Dssm(Dssm.Settings(**DSSM)).fit(planted, tmp_path)


def test_glas_spreads_labels_unless_they_occur_together(titled, tmp_path):
    """Against DSSM's labels: those of other pairs are nearer to orthogonal, pairs stay alike."""

    def angles(name):
        baseline = fitted(name, DSSM, titled, tmp_path / name)
        labels = baseline.arrays["labels"]
        squares = np.square(labels @ labels.T)
        own = np.arange(len(labels))
        together = squares[own, own ^ 1].mean()
        squares[own, own] = squares[own, own ^ 1] = 0
        return together, squares.sum() / (len(labels) * (len(labels) - 2)), baseline.facts(titled)

    dssm, glas = angles("dssm"), angles("glas")
    assert glas[0] > 0.8
    assert glas[1] < 0.5 * dssm[1]
    assert glas[2]["orthogonality"] < dssm[2]["orthogonality"]
