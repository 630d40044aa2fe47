"""Where weights start from: the oracle of the gradient start is a tape on a linear network."""

import numpy as np
import pytest
import tensorflow as tf

from solar_tf.training.initial import log_odds, start_input_layer
from training.test_model import INPUT_DIM, Batch, array, make_model, random_weights


def linear_gradient(weights, batches):
    """Of the summed loss to an input layer of zeros, were there no ReLU; [INPUT_DIM, H]."""
    kernel = tf.Variable(np.zeros(weights["hidden_kernel"].shape))
    with tf.GradientTape() as tape:
        loss = 0.0
        for batch in batches:
            hidden = tf.constant(batch.inputs, tf.float64) @ kernel
            logits = hidden @ weights["output_kernel"].astype(float) + weights["output_bias"]
            losses = tf.nn.sigmoid_cross_entropy_with_logits(batch.targets, logits)
            loss += tf.reduce_sum(losses)
    return tape.gradient(loss, kernel).numpy()


@pytest.mark.parametrize("dense", [False, True])
def test_input_rows_start_along_the_gradient_of_all_rows(dense):
    weights = random_weights()
    model = make_model(weights=weights, init_stddev=0.3)
    batches = [Batch(seed, size, dense) for seed, size in ((1, 9), (2, 4), (3, 17))]
    start_input_layer(model, [batch.tensors for batch in batches])
    downhill = -linear_gradient(weights, batches)
    expected = 0.3 * downhill / np.sqrt(np.mean(downhill**2, axis=1, keepdims=True))
    np.testing.assert_allclose(array(model, "hidden_kernel"), expected, rtol=1e-3, atol=1e-5)
    for name in ("hidden_bias", "output_kernel", "output_bias"):
        np.testing.assert_array_equal(array(model, name), weights[name])


def test_tokens_of_no_row_keep_their_random_start_and_nothing_else_is_left_behind():
    weights = random_weights()
    model = make_model(weights=weights)
    batch = Batch(1, 9, input_ids=INPUT_DIM - 4)
    start_input_layer(model, [batch.tensors])
    untouched = np.setdiff1d(np.arange(INPUT_DIM), batch.touched)
    assert {9, 10, 11, 12} <= set(untouched)
    kernel = array(model, "hidden_kernel")
    np.testing.assert_array_equal(kernel[untouched], weights["hidden_kernel"][untouched])
    assert not np.isclose(kernel, weights["hidden_kernel"])[batch.touched].any(axis=1).all()
    moments = [value for name, value in model.state().items() if name.endswith((".m", ".v"))]
    assert not any(moment.numpy().any() for moment in moments)
    assert int(model.optimizer.iterations.numpy()) == 0


def frequencies(bias):
    assert bias.dtype == np.float32 and np.isfinite(bias).all()
    return 1 / (1 + np.exp(-np.float64(bias)))


def test_log_odds_of_labels_alone_in_their_buckets_are_their_counted_frequencies():
    counts = np.array([0, 1, 40, 99, 100])
    found = frequencies(log_odds(np.array([4, 3, 2, 1, 0]), counts, 100, 6))
    np.testing.assert_allclose(found[[3, 2, 1, 0]], counts[1:] / 101, rtol=1e-5)
    assert (found[4:] < 1 / 101).all()  # never seen, or no bucket of any label
    always = log_odds(np.zeros(4, np.int32), np.full(4, 100_000), 100_000, 2)
    assert frequencies(always)[0] < 1 and always[0] > 10 > -10 > always[1]


def test_log_odds_of_shared_buckets_are_those_of_the_counted_or():
    generator = np.random.default_rng(0)
    buckets = generator.integers(0, 8, 40)
    rows = generator.random((20_000, 40)) < generator.uniform(0, 0.2, 40)
    counted = [rows[:, buckets == bucket].any(axis=1).mean() for bucket in range(8)]
    bias = log_odds(buckets, rows.sum(axis=0), len(rows), 8)
    np.testing.assert_allclose(frequencies(bias), counted, atol=0.01)
