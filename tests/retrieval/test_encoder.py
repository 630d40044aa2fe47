"""The forward pass without TensorFlow, against plain arithmetic; see also test_search."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solar_tf.config import SolarConfig
from solar_tf.preprocessing import hashing
from solar_tf.retrieval import encoder
from solar_tf.retrieval.encoder import FEW, Inputs, hash_row, probabilities, probabilities_of_few
from solar_tf.run import precision

RUN = SimpleNamespace(
    config=SolarConfig(feature_dim=50, hidden_dim=8, num_buckets=30), seeds=(0, 9)
)
GENERATOR = np.random.default_rng(0)
MODEL = {
    name: GENERATOR.normal(size=shape).astype(np.float32)
    for name, shape in (
        ("hidden_kernel", (50, 8)),
        ("hidden_bias", (8,)),
        ("output_kernel", (8, 30)),
        ("output_bias", (30,)),
    )
}


def expected(dense):
    hidden = np.maximum(dense.astype(np.float64) @ MODEL["hidden_kernel"] + MODEL["hidden_bias"], 0)
    return 1 / (1 + np.exp(-(hidden @ MODEL["output_kernel"] + MODEL["output_bias"])))


@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 40])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_probabilities(rows, kind):
    dense = scipy.sparse.random(rows, 50, 0.2, rng=1).toarray().astype(np.float32)
    found = probabilities(MODEL, kind(dense))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(dense), rtol=1e-4)


def test_extreme_logits_are_quiet():
    model = MODEL | {"output_bias": np.linspace(-1e4, 1e4, 30).astype(np.float32)}
    with np.errstate(all="raise", under="ignore"):
        found = probabilities(model, np.ones((2, 50), np.float32))
    assert found[0, 0] == 0 and found[0, -1] == 1


def test_features_are_hashed_with_the_seed_of_the_chunk():
    matrix = scipy.sparse.random(7, 500, 0.05, "csr", np.float32, rng=2)
    inputs = Inputs(RUN, "sparse", matrix)
    for chunk, seed in enumerate(RUN.seeds):
        dense = np.zeros((7, 50))
        for row, column in zip(*matrix.nonzero(), strict=True):
            dense[row, hashing.hash_ids([column], seed, 50)[0]] += matrix[row, column]
        np.testing.assert_allclose(inputs.of_chunk(chunk).toarray(), dense, rtol=1e-6)
        part = inputs.part(2, 5)
        assert part.num_queries == 3
        np.testing.assert_array_equal(
            part.of_chunk(chunk).toarray(), inputs.of_chunk(chunk).toarray()[2:5]
        )


def test_rows_without_features_are_known_as_such():
    matrix = scipy.sparse.csr_matrix(np.array([[0, 1], [0, 0], [2, 0]], np.float32))
    assert Inputs(RUN, "sparse", matrix).known.tolist() == [True, False, True]
    assert Inputs(RUN, "dense", np.zeros((2, 3))).known.all()


@pytest.mark.parametrize("kind", precision.PRECISIONS)
def test_products_are_those_of_the_restored_weights(kind):
    weights = GENERATOR.normal(size=(60, 5000)).astype(np.float32)
    stored = precision.quantize("w", weights, kind)
    whole = precision.restore(stored, "w").astype(np.float64)
    dense = GENERATOR.normal(size=(9, 60)).astype(np.float32)
    dense[:, GENERATOR.permutation(60)[:40]] = 0
    for product in (
        encoder.multiply(stored, "w", dense),
        encoder.multiply_rows(stored, "w", scipy.sparse.csr_array(dense)),
        np.stack([encoder.multiply_active(stored, "w", row) for row in dense]),
    ):
        assert product.dtype == np.float32
        np.testing.assert_allclose(product, dense @ whole, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows", [1, FEW])
@pytest.mark.parametrize("kind", precision.PRECISIONS)
@pytest.mark.parametrize("density", [0.005, 0.05, 0.5])  # rows without a feature, and of many
def test_few_queries_have_the_probabilities_of_many(rows, kind, density):
    stored = {}
    for name, weight in MODEL.items():
        stored |= precision.quantize(name, weight, kind)
    inputs = Inputs(
        RUN, "sparse", scipy.sparse.random(rows, 500, density, "csr", np.float32, rng=3)
    )
    for chunk in range(2):
        found = probabilities_of_few(stored, inputs, chunk)
        assert found.dtype == np.float32
        expected = probabilities(stored, inputs.of_chunk(chunk))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_few_dense_queries():
    inputs = Inputs(RUN, "dense", GENERATOR.normal(size=(2, 50)).astype(np.float32))
    expected = probabilities(MODEL, inputs.dense)
    np.testing.assert_array_equal(probabilities_of_few(MODEL, inputs, 0), expected)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(-1e6, 1e6, width=32)), max_size=60),
    st.integers(0, 2**31 - 1) | st.integers(0, 5),
    st.sampled_from([1, 2, 7, 100, 100_000, 2**31 - 1]),
)
@example([(5, 1e6), (9, 1e-6), (5, -1e6)], 0, 1)
def test_a_row_is_hashed_as_blocks_are(pairs, seed, width):
    """To the bit: both sum in float64, in the order of the row."""
    ids = np.array([number for number, _ in pairs], np.int32)
    values = np.array([value for _, value in pairs], np.float32)
    hashed = hashing.hash_ids(ids, seed, width)
    _, *expected = hashing.hash_features(np.array([0, len(ids)]), hashed, values)
    for found, wanted in zip(hash_row(ids, values, seed, width), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
