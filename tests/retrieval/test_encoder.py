"""Both encoders against plain arithmetic; test_searcher compares whole searches with infer.py."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solar_tf.config import SolarConfig
from solar_tf.preprocessing import hashing
from solar_tf.retrieval import encoder
from solar_tf.retrieval.encoder import CompiledEncoder, Inputs, TensorFlowEncoder, hash_row
from solar_tf.run import precision
from solar_tf.run.weights import weight_shapes

WIDTH = 500  # features before they are hashed
NUM_BUCKETS = encoder.COLUMNS + 30  # more than the compiled encoder takes at a time


def make_run(kind):
    config = SolarConfig(feature_dim=50, hidden_dim=9, num_buckets=NUM_BUCKETS)
    return SimpleNamespace(config=config, seeds=(0, 9), input_dim=50, dataset={"kind": kind})


RUN = make_run("sparse")
GENERATOR = np.random.default_rng(0)
MODEL = {
    name: GENERATOR.normal(size=shape).astype(np.float32)
    for name, shape in weight_shapes(RUN.config, 50).items()
}
ENCODERS = {"compiled": lambda run: CompiledEncoder(), "TensorFlow": TensorFlowEncoder}


def stored_as(kind):
    arrays = (precision.quantize(name, weight, kind).items() for name, weight in MODEL.items())
    return {name: array for pairs in arrays for name, array in pairs}


def expected(model, dense):
    """The network of §3.2 in float64, from the restored weights."""
    weights = {name: precision.restore(model, name).astype(np.float64) for name in MODEL}
    hidden = np.maximum(dense @ weights["hidden_kernel"] + weights["hidden_bias"], 0)
    return 1 / (1 + np.exp(-(hidden @ weights["output_kernel"] + weights["output_bias"])))


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("kind", precision.PRECISIONS)
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("density", [0.005, 0.2])  # rows without a feature, and of many
def test_probabilities_of_sparse_queries(name, kind, rows, density):
    model = stored_as(kind)
    matrix = scipy.sparse.random(rows, WIDTH, density, "csr", np.float32, rng=1)
    for chunk, seed in enumerate(RUN.seeds):
        dense = np.zeros((rows, 50))
        columns = hashing.hash_ids(matrix.indices, seed, 50)
        np.add.at(dense, (matrix.nonzero()[0], columns), matrix.data)
        network = ENCODERS[name](RUN).open(model, chunk)
        found = network(Inputs(RUN, "sparse", matrix))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected(model, dense), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", ENCODERS)
def test_probabilities_of_dense_queries(name):
    run = make_run("dense")
    rows = GENERATOR.normal(size=(7, 50)).astype(np.float32)
    rows[3], rows[:, 5] = 0, 0
    network = ENCODERS[name](run).open(MODEL, 1)
    found = network(Inputs(run, "dense", rows))
    np.testing.assert_allclose(found, expected(MODEL, rows), rtol=2e-4, atol=1e-6)
    assert Inputs(run, "dense", rows).known.all()


@pytest.mark.parametrize("name", ENCODERS)
def test_extreme_logits_are_quiet(name):
    model = MODEL | {"output_bias": np.linspace(-1e4, 1e4, NUM_BUCKETS).astype(np.float32)}
    matrix = scipy.sparse.csr_matrix(np.ones((2, WIDTH), np.float32))
    with np.errstate(all="raise", under="ignore"):
        found = ENCODERS[name](RUN).open(model, 0)(Inputs(RUN, "sparse", matrix))
    assert found[0, 0] == 0 and found[0, -1] == 1


def test_every_finite_float16_is_widened_exactly():
    weights = np.arange(2**16, dtype=np.uint16).view(np.float16)
    weights = weights[np.isfinite(weights)].reshape(1, -1)
    sums = np.zeros(weights.shape[1], np.float32)
    row = np.zeros(1, np.int64), np.ones(1, np.float32)
    encoder._add_rows(weights.view(np.uint16), *row, sums, 0)
    np.testing.assert_array_equal(sums, weights[0].astype(np.float32))


def test_a_part_of_the_queries_and_rows_without_features():
    matrix = scipy.sparse.random(7, WIDTH, 0.05, "csr", np.float32, rng=2)
    matrix.data[matrix.indptr[4] : matrix.indptr[5]] = 0
    matrix.eliminate_zeros()
    inputs = Inputs(RUN, "sparse", matrix)
    assert inputs.known.tolist() == [row != 4 for row in range(7)]
    part = inputs.part(2, 5)
    assert part.num_queries == 3 and part.known.tolist() == [True, True, False]
    assert part.features(1) == inputs.features(3) != {}
    network = CompiledEncoder().open(MODEL, 1)
    np.testing.assert_array_equal(network(part), network(inputs)[2:5])


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
