"""Adam (Kingma and Ba, 2015) on whole variables, and on the touched rows of large ones."""

import tensorflow as tf

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def make_moments(weight):
    """Adam's two moments of a weight, at zero."""
    return tuple(tf.Variable(tf.zeros(weight.shape), trainable=False) for _ in range(2))


def _powers(step):
    step = tf.cast(step, tf.float32)
    return BETA_1**step, BETA_2**step


def adam(weight, moments, step, gradient, learning_rate):
    """Step number `step`, from 1 up, of a tf.Variable; fused, in place."""
    power_1, power_2 = _powers(step)
    tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=moments[0].handle,
        v=moments[1].handle,
        beta1_power=power_1,
        beta2_power=power_2,
        lr=learning_rate,
        beta1=BETA_1,
        beta2=BETA_2,
        epsilon=EPSILON,
        grad=gradient,
    )


def lazy_adam(weight, moments, step, ids, gradient, learning_rate):
    """Adam on the rows `ids`, each named once; the moments of the others stay as they are."""
    first, second = moments
    power_1, power_2 = _powers(step)
    mean = BETA_1 * tf.gather(first, ids) + (1 - BETA_1) * gradient
    square = BETA_2 * tf.gather(second, ids) + (1 - BETA_2) * tf.square(gradient)
    first.scatter_update(tf.IndexedSlices(mean, ids))
    second.scatter_update(tf.IndexedSlices(square, ids))
    rate = learning_rate * tf.sqrt(1 - power_2) / (1 - power_1)
    change = rate * mean / (tf.sqrt(square) + EPSILON)
    weight.scatter_sub(tf.IndexedSlices(change, ids))
