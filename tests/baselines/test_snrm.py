import dataclasses

import numpy as np
import pytest

from baselines.test_models import fitted, same_when_loaded, solves
from solar_tf.baselines import snrm
from solar_tf.baselines.snrm import Snrm, mean_activations, windows

SMALL = {
    "dim": 32, "hidden": 64, "narrow": 64, "width": 300, "epochs": 40, "batch_size": 64,
    "learning_rate": 3e-3, "decay": "linear", "l1": 1e-5,
}  # fmt: skip


@pytest.fixture(scope="module")
def solved(titled, tmp_path_factory):
    return fitted("snrm", SMALL, titled, tmp_path_factory.mktemp("snrm"))


def test_planted_labels_are_found(solved, titled, tmp_path):
    solves(solved, titled, 95)
    same_when_loaded(solved, titled, tmp_path / "model")
    facts = solved.facts(titled)
    assert facts["empty"] == facts["query_empty"] == 0
    assert 0 < facts["nonzeros"] < 200 and 1 <= facts["imbalance"] <= 40


def test_a_large_l1_weight_leaves_nothing(titled, tmp_path):
    """The paper's argument (§2): all vectors become empty, and nothing is found."""
    baseline = fitted("snrm", SMALL | {"l1": 1.0, "epochs": 5}, titled, tmp_path)
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


def test_windows_end_with_their_title():
    found = windows(np.array([0, 3, 3, 4]), np.array([7, 8, 9, 5], np.int32))
    assert found.tolist() == [
        [-1, -1, 7, 8, 9],
        [-1, 7, 8, 9, -1],
        [7, 8, 9, -1, -1],
        [-1, -1, 5, -1, -1],
    ]


def test_activations_are_keras_convolutions():
    """Over padded titles of each length, as SNRM's authors have it."""
    import keras

    generator = np.random.default_rng(0)
    shapes = {"convolution": (5 * 4, 6), "narrow": (6, 3), "wide": (3, 9)}
    weights = {name: generator.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    weights["word_vectors"] = generator.normal(size=(11, 4)).astype(np.float32)
    splits, words = np.array([0, 7, 7, 8, 10]), generator.integers(11, size=10).astype(np.int32)
    found = mean_activations(weights, splits, words)
    assert found.dtype == np.float32 and not found[1].any()
    for row in (0, 2, 3):
        x = weights["word_vectors"][words[splits[row] : splits[row + 1]]][None]
        for name, width in (("convolution", 5), ("narrow", 1), ("wide", 1)):
            units = shapes[name][1]
            layer = keras.layers.Conv1D(
                units, width, padding="same", activation="relu", use_bias=False
            )
            layer.build(x.shape)
            layer.set_weights([weights[name].reshape(width, -1, units)])
            x = layer(x)
        np.testing.assert_allclose(found[row], np.asarray(x)[0].mean(axis=0), atol=1e-4)
