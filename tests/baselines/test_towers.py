import numpy as np
import pytest
import tensorflow as tf

from solar_tf.baselines.dssm import DssmSettings
from solar_tf.baselines.towers import EPSILON, Towers
from solar_tf.runtime.ragged import row_splits

B, DIM, WORDS = 6, 5, 20


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
    found = model.train_batch({k: tf.constant(v) for k, v in batch.items()}, tf.constant(1e-3))
    assert float(found) == pytest.approx(wanted, rel=1e-4)


def test_averages_are_those_of_the_batches():
    model = Towers(WORDS, DssmSettings(dim=DIM))
    means = []
    for seed in range(3):
        batch = {name: tf.constant(array) for name, array in make_batch(1, seed).items()}
        pooled = model.pool(batch, tf.gather(model.word_vectors, batch["ids"]))
        means.append(pooled.numpy().mean(axis=0))
        model.train_batch(batch, tf.constant(0.0))
    weights = model.weights()
    np.testing.assert_allclose(weights["mean"], np.mean(means, axis=0), atol=1e-6)
    assert weights["deviation"].max() < 0.05  # nothing is left of a start at 1
