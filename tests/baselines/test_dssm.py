import dataclasses

import numpy as np
import pytest

from baselines.agreement import same_when_loaded, solves
from solar_tf.baselines.dssm import Dssm, mean_squared_cosine
from solar_tf.errors import UserError

SMALL = {"dim": 24, "epochs": 4, "batch_size": 50, "learning_rate": 1e-2}


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "softmax", "compare": "batch"}, {"search": "clusters", "weighting": "tfidf"}],
    ids=["paper", "softmax", "clusters"],
)
def test_planted_labels_are_found(titled, tmp_path, options):
    baseline = solves(Dssm(Dssm.Settings(**SMALL, **options)), titled, tmp_path / "fit", 99.0)
    same_when_loaded(baseline, titled, tmp_path / "model")


def test_hnsw_answers_nearly_as_the_exact_search(titled, tmp_path):
    pytest.importorskip("faiss", reason="faiss-cpu is of the extra [baselines]")
    baseline = solves(Dssm(Dssm.Settings(**SMALL, search="hnsw")), titled, tmp_path, 99.0)
    exact = Dssm(Dssm.Settings(**SMALL))
    exact.arrays = baseline.arrays
    wanted, found = (b.predict(titled.test.inputs, 10)[0] for b in (exact, baseline))
    assert np.mean(wanted == found) > 0.95


def test_seeds_decide_everything(titled, tmp_path):
    def vectors(seed, name):
        (tmp_path / name).mkdir()
        baseline = Dssm(Dssm.Settings(**SMALL | {"epochs": 1}, seed=seed))
        baseline.fit(titled, tmp_path / name)
        return baseline.arrays["labels"]

    first = vectors(0, "a")
    np.testing.assert_array_equal(vectors(0, "b"), first)
    assert not np.allclose(vectors(1, "c"), first)


def test_equal_titles_are_the_first_answer_unless_they_are_dropped(titled, tmp_path):
    """Queries that are the labels' own titles."""
    keep = Dssm(Dssm.Settings(**SMALL))
    keep.fit(titled, tmp_path)
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
        Dssm(Dssm.Settings(**SMALL)).fit(planted, tmp_path)
