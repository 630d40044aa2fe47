import numpy as np
import pytest
import tensorflow as tf

from solar_tf.baselines.convolution import mean_activations, windows
from solar_tf.baselines.snrm import SnrmSettings
from solar_tf.baselines.sparse_towers import SparseTowers
from solar_tf.training.optimizer import BETA_1

WORDS = 12


def make(l1=0.3):
    settings = SnrmSettings(dim=4, hidden=6, narrow=5, width=9, l1=l1)
    generator = np.random.default_rng(0)
    splits = np.array([0, 3, 4, 9, 9, 11, 12], np.int32)  # two queries, labels, random labels
    words = generator.integers(WORDS, size=12).astype(np.int32)
    model = SparseTowers(WORDS, settings)
    model.word_vectors.assign(generator.normal(size=(WORDS, 4)))
    return model, splits, words


def test_the_loss_is_that_of_the_network_without_tensorflow():
    model, splits, words = make()
    weights = {name: variable.numpy() for name, variable in model.variables().items()}
    rows = mean_activations(weights, splits, words).astype(np.float64)
    query, positive, negative = rows[:2], rows[2:4], rows[4:]
    margins = (query * (positive - negative)).sum(axis=1)
    wanted = np.maximum(0, 1 - margins).mean() + 0.3 * rows.sum() / 2
    batch = {"windows": windows(splits, words), "row_splits": splits}
    found = model.train_batch({k: tf.constant(v) for k, v in batch.items()}, tf.constant(1e-3))
    assert float(found) == pytest.approx(wanted, rel=1e-4)


def test_word_vectors_get_the_gradient_of_the_whole_network():
    model, splits, words = make()
    batch = {"windows": tf.constant(windows(splits, words)), "row_splits": tf.constant(splits)}
    with tf.GradientTape() as tape:
        vectors = tf.gather(model.word_vectors, model.words(batch))
        loss = model.loss(batch, model.pool(batch, vectors))
    wanted = tf.convert_to_tensor(tape.gradient(loss, model.word_vectors)).numpy()
    model.train_batch(batch, tf.constant(1e-3))
    moments = model.moments["word_vectors"][0].numpy()
    np.testing.assert_allclose(moments / (1 - BETA_1), wanted, rtol=1e-3, atol=1e-6)
    assert np.any(wanted)
