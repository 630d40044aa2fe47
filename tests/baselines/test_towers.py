"""The networks and their losses beside numpy, in float64."""

import numpy as np
import pytest
import tensorflow as tf

from solar_tf.baselines.dssm import DssmSettings
from solar_tf.baselines.snrm import SnrmSettings, mean_activations, windows
from solar_tf.baselines.towers import EPSILON, SparseTowers, Towers
from solar_tf.runtime.ragged import row_splits
from solar_tf.training.optimizer import BETA_1

B, DIM, WORDS = 6, 5, 20


def tensors(batch):
    return {name: tf.constant(array) for name, array in batch.items()}


def make_batch(negatives, seed=0):
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, 4, B * (2 + negatives))
    splits = row_splits(counts).astype(np.int32)
    return {
        "ids": generator.integers(WORDS, size=splits[-1]).astype(np.int32),
        "values": np.repeat(1 / counts, counts).astype(np.float32),
        "row_splits": splits,
        "wrong": generator.integers(2, size=(B, B * negatives)).astype(np.float32),
        "target": generator.uniform(size=(B, B)).astype(np.float32),
    }


def oracle(vectors, batch, s):
    """The whole network and its loss in numpy, float64, row by row."""
    rows = zip(batch["row_splits"][:-1], batch["row_splits"][1:], strict=True)
    x = np.stack([vectors[batch["ids"][a:b]].astype(np.float64).mean(axis=0) for a, b in rows])
    x = np.tanh((x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + EPSILON))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    query, positive, random = x[:B], x[B : 2 * B], x[2 * B :]
    loss = 0.0
    for i in range(B):
        own = query[i] @ positive[i]
        if s.compare == "own":
            others = random[i * s.negatives : (i + 1) * s.negatives] @ query[i]
        else:
            others = (random @ query[i])[batch["wrong"][i] > 0]
        if s.loss == "hinge":
            loss += max(0, s.high - own) ** 2 + np.sum(np.maximum(0, others - s.low) ** 2)
        else:
            shares = np.exp(others / s.temperature).sum() + np.exp(own / s.temperature)
            loss -= np.log(np.exp(own / s.temperature) / shares)
    return loss / B + s.glas * np.mean((positive @ positive.T - batch["target"]) ** 2)


@pytest.mark.parametrize("glas", [0.0, 3.0])
@pytest.mark.parametrize("loss", ["hinge", "softmax"])
@pytest.mark.parametrize(("compare", "negatives"), [("own", 1), ("own", 3), ("batch", 1)])
def test_the_loss_is_numpys(loss, compare, negatives, glas):
    settings = DssmSettings(
        dim=DIM, loss=loss, compare=compare, negatives=negatives, glas=glas, temperature=0.3
    )
    model, batch = Towers(WORDS, settings), make_batch(negatives)
    wanted = oracle(model.word_vectors.numpy(), batch, settings)
    found = model.train_batch(tensors(batch), tf.constant(1e-3))
    assert float(found) == pytest.approx(wanted, rel=1e-4)


def test_averages_are_those_of_the_batches():
    model = Towers(WORDS, DssmSettings(dim=DIM))
    means = []
    for seed in range(3):
        batch = tensors(make_batch(1, seed))
        pooled = model.pool(batch, tf.gather(model.word_vectors, batch["ids"]))
        means.append(pooled.numpy().mean(axis=0))
        model.train_batch(batch, tf.constant(0.0))
    weights = model.weights()
    np.testing.assert_allclose(weights["mean"], np.mean(means, axis=0), atol=1e-6)
    assert weights["deviation"].max() < 0.05  # nothing is left of a start at 1


def make_sparse():
    """SNRM's network, and a batch of two queries, labels and random labels."""
    generator = np.random.default_rng(0)
    splits = np.array([0, 3, 4, 9, 9, 11, 12], np.int32)
    words = generator.integers(12, size=12).astype(np.int32)
    shapes = {"convolution": (5 * 4, 6), "narrow": (6, 5), "wide": (5, 9)}
    model = SparseTowers(12, shapes, SnrmSettings(dim=4, l1=0.3))
    model.word_vectors.assign(generator.normal(size=(12, 4)))
    return model, {"windows": windows(splits, words), "row_splits": splits}, words


def test_the_sparse_loss_is_that_of_the_network_without_tensorflow():
    model, batch, words = make_sparse()
    rows = mean_activations(model.weights(), batch["row_splits"], words).astype(np.float64)
    query, positive, negative = rows[:2], rows[2:4], rows[4:]
    margins = (query * (positive - negative)).sum(axis=1)
    wanted = np.maximum(0, 1 - margins).mean() + 0.3 * rows.sum() / 2
    found = model.train_batch(tensors(batch), tf.constant(1e-3))
    assert float(found) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_word_vectors_get_the_gradient_of_the_whole_network_and_only_those_that_occur(kind):
    if kind == "dense":
        model, batch = Towers(WORDS, DssmSettings(dim=DIM, glas=1.0)), make_batch(1)
    else:
        model, batch, _ = make_sparse()
    batch = tensors(batch)
    words = model.words(batch)
    with tf.GradientTape() as tape:
        loss = model.loss(batch, model.pool(batch, tf.gather(model.word_vectors, words)))
    wanted = tf.convert_to_tensor(tape.gradient(loss, model.word_vectors)).numpy()
    before = model.word_vectors.numpy()
    model.train_batch(batch, tf.constant(1e-3))
    moments = model.moments["word_vectors"][0].numpy()
    np.testing.assert_allclose(moments / (1 - BETA_1), wanted, rtol=1e-3, atol=1e-6)
    moved = np.any(model.word_vectors.numpy() != before, axis=1)
    assert set(np.flatnonzero(moved)) == set(np.flatnonzero(wanted.any(axis=1)))
    assert {*np.flatnonzero(moved)} <= {*words.numpy()} < {*range(len(moved))}
