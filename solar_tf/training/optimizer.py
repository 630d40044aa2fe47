"""Adam (Kingma and Ba, 2015) as a Keras optimizer that moves only the touched rows of a layer."""

import keras
import tensorflow as tf

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


@keras.saving.register_keras_serializable("solar_tf")
class LazyAdam(keras.optimizers.Optimizer):
    """Adam that leaves rows without a gradient, and their moments, as they are.

    Keras would turn sparse gradients into dense ones, which at the paper's size costs more than the
    rest of the step. With `lazy=False` all rows move, as in plain Adam.
    """

    def __init__(self, learning_rate=1e-3, lazy=True, name="lazy_adam", **options):
        super().__init__(learning_rate, name=name, **options)
        self.lazy = lazy

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.moments = [
                tuple(self.add_variable_from_reference(variable, name) for name in ("m", "v"))
                for variable in variables
            ]

    def update_step(self, gradient, variable, learning_rate):
        moments = [moment.value for moment in self.moments[self._get_variable_index(variable)]]
        step = self.iterations.value + 1
        if not isinstance(gradient, tf.IndexedSlices):
            adam(variable, moments, step, gradient, learning_rate)
        elif self.lazy:
            ids, places = tf.unique(gradient.indices)
            rows = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
            lazy_adam(variable, moments, step, ids, rows, learning_rate)
        else:
            rows = tf.math.unsorted_segment_sum(
                gradient.values, gradient.indices, variable.shape[0]
            )
            adam(variable, moments, step, rows, learning_rate)

    def get_config(self):
        return super().get_config() | {"lazy": self.lazy}


@keras.saving.register_keras_serializable("solar_tf")
class LinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that falls linearly to zero within `steps` steps."""

    def __init__(self, initial_rate, steps):
        self.initial_rate, self.steps = initial_rate, steps

    def __call__(self, step):
        left = 1 - tf.cast(step, tf.float64) / self.steps
        return tf.cast(self.initial_rate * left, tf.float32)

    def get_config(self):
        return {"initial_rate": self.initial_rate, "steps": self.steps}


def make_moments(weight):
    """Adam's two moments of a weight, at zero."""
    return tuple(tf.Variable(tf.zeros(weight.shape), trainable=False) for _ in range(2))


def adam(weight, moments, step, gradient, learning_rate):
    """Step number `step`, counted from 1, of a tf.Variable, in one fused operation."""
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
    """Adam on the rows `ids`, which are all different; other rows and their moments stay."""
    first, second = moments
    power_1, power_2 = _powers(step)
    mean = BETA_1 * tf.gather(first, ids) + (1 - BETA_1) * gradient
    square = BETA_2 * tf.gather(second, ids) + (1 - BETA_2) * tf.square(gradient)
    first.scatter_update(tf.IndexedSlices(mean, ids))
    second.scatter_update(tf.IndexedSlices(square, ids))
    rate = learning_rate * tf.sqrt(1 - power_2) / (1 - power_1)
    change = rate * mean / (tf.sqrt(square) + EPSILON)
    weight.scatter_sub(tf.IndexedSlices(change, ids))


def _powers(step):
    step = tf.cast(step, tf.float32)
    return BETA_1**step, BETA_2**step
