import numpy as np
import tensorflow as tf

from solar_tf.training.optimizer import BETA_1, BETA_2, EPSILON, adam, lazy_adam, make_moments


def oracle(weight, gradients, rate):
    """Adam as its paper has it, in float64; epsilon beside the uncorrected root, as TensorFlow."""
    m = v = np.zeros_like(weight, np.float64)
    for t, gradient in enumerate(gradients, 1):
        m = BETA_1 * m + (1 - BETA_1) * gradient
        v = BETA_2 * v + (1 - BETA_2) * gradient**2
        step = rate * np.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
        weight = weight - step * m / (np.sqrt(v) + EPSILON)
    return weight


def test_both_are_adam_and_the_lazy_one_touches_its_rows_only():
    generator = np.random.default_rng(0)
    start = generator.normal(size=(6, 3)).astype(np.float32)
    gradients = generator.normal(size=(4, 6, 3)).astype(np.float32)
    whole, lazy = tf.Variable(start), tf.Variable(start)
    moments = make_moments(whole), make_moments(lazy)
    ids = [4, 1]
    for t, gradient in enumerate(gradients, 1):
        step = tf.constant(t, tf.int64)
        adam(whole, moments[0], step, tf.constant(gradient), 0.1)
        lazy_adam(lazy, moments[1], step, ids, tf.constant(gradient[ids]), tf.constant(0.1))
    wanted = oracle(start, gradients, 0.1)
    np.testing.assert_allclose(whole, wanted, rtol=1e-4)
    np.testing.assert_allclose(lazy.numpy()[ids], wanted[ids], rtol=1e-4)
    others = [0, 2, 3, 5]
    np.testing.assert_array_equal(lazy.numpy()[others], start[others])
    assert not moments[1][0].numpy()[others].any()
