"""Every loss beside numpy in float64, entry by entry."""

import math

import numpy as np
import pytest
import tensorflow as tf

from solar_tf.baselines import losses

generator = np.random.default_rng(3)
COSINES = generator.uniform(-1, 1, 7).astype(np.float32)
RANDOM = generator.uniform(-1, 1, (7, 4)).astype(np.float32)


def test_hinge():
    total = 0.0
    for own, others in zip(COSINES, RANDOM, strict=True):
        total += max(0, 0.9 - own) ** 2 + sum(max(0, other - 0.2) ** 2 for other in others)
    found = losses.hinge(tf.constant(COSINES), tf.constant(RANDOM), 0.9, 0.2)
    assert float(found) == pytest.approx(total / 7, rel=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_softmax(masked):
    wrong = generator.integers(2, size=RANDOM.shape) if masked else np.ones(RANDOM.shape)
    total = 0.0
    for own, others, kept in zip(COSINES, RANDOM, wrong, strict=True):
        shares = [math.exp(other / 0.1) for other, keep in zip(others, kept, strict=True) if keep]
        total -= math.log(math.exp(own / 0.1) / (math.exp(own / 0.1) + sum(shares)))
    mask = tf.constant(wrong, tf.float32) if masked else None
    found = losses.softmax(tf.constant(COSINES), tf.constant(RANDOM), 0.1, mask)
    assert float(found) == pytest.approx(total / 7, rel=1e-5)


def test_spread():
    vectors = generator.normal(size=(5, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    target = generator.uniform(size=(5, 5)).astype(np.float32)
    total = 0.0
    for i in range(5):
        for j in range(5):
            total += (float(vectors[i] @ vectors[j]) - target[i, j]) ** 2
    found = losses.spread(tf.constant(vectors), tf.constant(target))
    assert float(found) == pytest.approx(total / 25, rel=1e-5)


def test_ranking():
    query, positive, negative = generator.uniform(0, 1, (3, 6, 4)).astype(np.float32)
    total = 0.0
    for q, p, n in zip(query, positive, negative, strict=True):
        total += max(0, 1 - float(q @ p) + float(q @ n)) + 0.3 * float(q.sum() + p.sum() + n.sum())
    found = losses.ranking(*map(tf.constant, (query, positive, negative)), 0.3)
    assert float(found) == pytest.approx(total / 6, rel=1e-5)
