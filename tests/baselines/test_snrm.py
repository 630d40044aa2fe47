import dataclasses

import numpy as np
import pytest

from baselines.agreement import same_when_loaded, solves
from solar_tf.baselines import snrm
from solar_tf.baselines.snrm import Snrm

SMALL = {
    "dim": 32, "hidden": 64, "narrow": 64, "width": 300, "epochs": 40, "batch_size": 64,
    "learning_rate": 3e-3, "decay": "linear", "l1": 1e-5,
}  # fmt: skip


@pytest.fixture(scope="module")
def solved(titled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("snrm")
    return solves(Snrm(Snrm.Settings(**SMALL)), titled, folder, 95.0)


def test_planted_labels_are_found(solved, titled, tmp_path):
    same_when_loaded(solved, titled, tmp_path / "model")
    facts = solved.facts(titled)
    assert facts["empty"] == facts["query_empty"] == 0
    assert 0 < facts["nonzeros"] < 200 and 1 <= facts["imbalance"] <= 40


def test_a_large_l1_weight_leaves_nothing(titled, tmp_path):
    """The paper's argument (§2): all vectors become empty, and nothing is found."""
    baseline = Snrm(Snrm.Settings(**SMALL | {"l1": 1.0, "epochs": 5}))
    baseline.fit(titled, tmp_path)
    facts = baseline.facts(titled)
    assert facts["empty"] > 90 and facts["query_empty"] > 90
    ids, scores = baseline.predict(titled.test.inputs, 5)
    assert np.mean(ids == -1) > 0.9 and not scores[ids == -1].any()


def test_the_index_may_keep_the_largest_entries_only(solved, titled):
    few = Snrm(dataclasses.replace(solved.settings, most=10))
    few.arrays = solved.arrays
    vectors, nonzeros = few.embed(titled.label_inputs)
    assert np.diff(vectors.indptr).max() <= 10
    np.testing.assert_array_equal(nonzeros, solved.arrays["label_nonzeros"])


def test_blocks_of_rows_give_the_same_answers(solved, titled, monkeypatch):
    wanted = solved.predict(titled.test.inputs, 7)
    monkeypatch.setattr(snrm, "FLOATS_PER_BLOCK", 5000)
    found = solved.predict(titled.test.inputs, 7)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)
