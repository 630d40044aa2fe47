"""The chunk network as a Keras model (§3.2): input -> hidden_dim (ReLU) -> B buckets.

It differs from a plain Keras model in two ways, which save most of the time at the paper's size.
The input layer sums the kernel rows of a row's tokens, so its gradient has only those rows. And
the target matrix is never built: the loss and its gradient use the positions of its few ones.

The loss is summed over buckets and averaged over the batch. If it were averaged over both, its
gradients would vanish beside Adam's epsilon (docs/paper_notes.md).
"""

import functools
import gc

import keras
import numpy as np
import tensorflow as tf

from solar_tf.run.weights import NAMES, load_weights, weight_shapes
from solar_tf.training.optimizer import LazyAdam

SPARSE_INPUTS = {
    "ids": tf.TensorSpec([None], tf.int32),
    "values": tf.TensorSpec([None], tf.float32),
    "row_splits": tf.TensorSpec([None], tf.int32),
}
TARGETS = ("buckets", "bucket_splits")
STEPS_PER_CALL = 8  # small steps in one call of TensorFlow; a call takes `fit` 1 ms of Python
SMALL_STEP = 1e9  # multiply-adds of a matrix product; such a step takes a core about 30 ms


class ChunkModel(keras.Model):
    """One of SOLAR's K networks.

    The input is a batch of `batches.read_batches`, a dict of tensors; the output is the logits of
    the buckets, [batch, B]. `predict` gives probabilities. Weights are random unless they are given
    by name. Another Keras layer can replace `hidden`, which maps inputs to [batch, hidden_dim], or
    `scores`, which maps that to [batch, B].
    """

    def __init__(
        self,
        config,
        input_dim,
        chunk=0,
        *,
        mixed_precision=False,
        weights=None,
        hidden=None,
        scores=None,
    ):
        # A model and its traced functions form a reference cycle: collect it, or the chunk
        # before keeps its gigabytes.
        gc.collect()
        super().__init__(name=f"chunk_{chunk:02d}")
        self.config = config
        self.product_type = tf.bfloat16 if mixed_precision else tf.float32
        *seeds, noise = np.random.SeedSequence([config.seed, chunk]).generate_state(5)
        self.noise_seed = int(noise >> 1)
        start = dict(zip(NAMES, map(int, seeds), strict=True))

        def affine(layer, units, width):
            kernel, bias = f"{layer}_kernel", f"{layer}_bias"
            if weights is not None:
                initializers = _given(weights[kernel]), _given(weights[bias])
            else:
                random = keras.initializers.TruncatedNormal(
                    stddev=config.init_stddev, seed=start[kernel]
                )
                initializers = random, "zeros"
            made = Affine(units, *initializers, product_type=self.product_type, name=layer)
            made.build((None, width))
            return made

        self.hidden = hidden or affine("hidden", config.hidden_dim, input_dim)
        self.scores = scores or affine("output", config.num_buckets, config.hidden_dim)
        self.loss_tracker = keras.metrics.Mean("loss", dtype="float64")
        self.built = True

    def compile_adam(self, learning_rate):
        """Compile with the config's optimizer; the rate may be a schedule."""
        optimizer = LazyAdam(learning_rate, lazy=self.config.optimizer == "lazy_adam")
        size = self.config.batch_size * self.config.hidden_dim * self.config.num_buckets
        steps = STEPS_PER_CALL if size < SMALL_STEP else 1
        self.compile(optimizer, jit_compile=False, steps_per_execution=steps)
        optimizer.build(self.trainable_variables)

    def call(self, batch, training=False):
        """Logits of the buckets, [batch, B]; targets are not needed."""
        if training and "values" in batch:
            batch = {**batch, "values": self._drop(batch["values"], self.config.input_dropout, 0)}
        hidden = tf.nn.relu(self.hidden(batch.get("dense", batch)))
        if training:
            hidden = self._drop(hidden, self.config.dropout, 1)
        return self.scores(hidden)

    def _drop(self, values, rate, place):
        """Dropout whose masks depend only on the step, so that a resumed run draws the same."""
        if not rate:
            return values
        seed = [self.noise_seed, 2 * tf.cast(self.optimizer.iterations.value, tf.int64) + place]
        return tf.nn.experimental.stateless_dropout(values, rate, seed)

    def train_step(self, data):
        batch, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            logits = self(batch, training=True)
        loss, slope = few_hot_cross_entropy(logits, batch["buckets"], batch["bucket_splits"])
        gradients = tape.gradient(logits, self.trainable_variables, output_gradients=slope)
        self.optimizer.apply(gradients, self.trainable_variables)
        with tf.control_dependencies([loss]):  # so that the end of a dataset counts no step
            self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    @property
    def metrics(self):
        return [self.loss_tracker]  # Keras resets it when an epoch begins

    def predict_step(self, data):
        batch, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        return tf.sigmoid(self(inputs_of(batch)))

    def weights_by_name(self):
        """The four variables of a trained chunk."""
        layers = {"hidden": self.hidden, "output": self.scores}
        parts = (name.split("_") for name in NAMES)
        return {f"{a}_{b}": getattr(layers[a], b).value for a, b in parts}

    def state(self):
        """What a checkpoint holds: weights and Adam's moments by name."""
        state = self.weights_by_name()
        places = {id(v.value): place for place, v in enumerate(self.trainable_variables)}
        for name, variable in list(state.items()):
            first, second = self.optimizer.moments[places[id(variable)]]
            state |= {f"{name}.m": first.value, f"{name}.v": second.value}
        return state


class Affine(keras.layers.Layer):
    """x W + b. The product may be in bfloat16; weights and sums are float32."""

    def __init__(
        self,
        units,
        kernel_initializer,
        bias_initializer="zeros",
        product_type=tf.float32,
        **options,
    ):
        super().__init__(**options)
        self.units, self.product_type = units, product_type
        self.initializers = kernel_initializer, bias_initializer

    def build(self, input_shape):
        kernel, bias = self.initializers
        self.kernel = self.add_weight((input_shape[-1], self.units), kernel, name="kernel")
        self.bias = self.add_weight((self.units,), bias, name="bias")
        self.built = True

    def call(self, inputs):
        """`inputs` is an array, or a dict of sparse rows: ids, values and row_splits."""
        multiply = functools.partial(_multiply, product_type=self.product_type)
        return affine(inputs, self.kernel.value, self.bias.value, multiply)


def affine(inputs, kernel, bias, multiply=tf.matmul):
    """x W + b for an array, or for a dict of sparse rows, which read only some rows of W."""
    if not isinstance(inputs, dict):
        return multiply(inputs, kernel) + bias
    rows = tf.gather(kernel, inputs["ids"]) * inputs["values"][:, None]
    splits = inputs["row_splits"]
    return tf.math.unsorted_segment_sum(rows, row_ids(splits), tf.size(splits) - 1) + bias


def _multiply(left, right, product_type):
    if product_type == tf.float32:
        return tf.matmul(left, right)
    return tf.cast(tf.matmul(tf.cast(left, product_type), tf.cast(right, product_type)), tf.float32)


def chunk_logits(inputs, weights):
    """The network as a pure function of a batch's inputs and weights by name: [batch, B]."""
    inputs = inputs.get("dense", inputs)
    hidden = tf.nn.relu(affine(inputs, weights["hidden_kernel"], weights["hidden_bias"]))
    return affine(hidden, weights["output_kernel"], weights["output_bias"])


def probability_function(config, input_dim, dense=False):
    """The scores of §3.3 as a function of a batch's inputs and any chunk's weights by name.

    Traced once for all chunks; returns [batch, B].
    """
    shapes = weight_shapes(config, input_dim)
    weights = {name: tf.TensorSpec(shape) for name, shape in shapes.items()}
    function = tf.function(lambda inputs, weights: tf.sigmoid(chunk_logits(inputs, weights)))
    inputs = {"dense": tf.TensorSpec([None, input_dim])} if dense else SPARSE_INPUTS
    return function.get_concrete_function(inputs, weights)


def few_hot_cross_entropy(logits, buckets, bucket_splits):
    """Binary cross entropy with few-hot targets (§3.2), and its gradient by the logits, [batch, B].

    Summed over buckets, averaged over rows. Row i's ones are
    buckets[bucket_splits[i]:bucket_splits[i + 1]]. Zeros cost -log(1 - p), from the probabilities
    that the gradient needs anyway; a softplus of all logits would take as long as a matrix product.
    Ones are exact.
    """
    ones = tf.stack([row_ids(bucket_splits), buckets], axis=1)
    probabilities = tf.sigmoid(logits)
    scale = 1 / tf.cast(tf.shape(logits)[0], tf.float32)
    below_one = tf.minimum(probabilities, 1 - 2**-24)
    off = tf.reduce_sum(tf.math.log1p(-below_one))
    off_ones = tf.reduce_sum(tf.math.log1p(-tf.gather_nd(below_one, ones)))
    on = tf.reduce_sum(tf.nn.softplus(-tf.gather_nd(logits, ones)))
    error = tf.tensor_scatter_nd_sub(probabilities, ones, tf.ones(tf.shape(ones)[:1]))
    # Not a tf.custom_gradient: TensorFlow would keep its graph, and with it the weights, for ever.
    return scale * (on - (off - off_ones)), scale * error


def open_chunk(run, chunk, folder=None):
    """A trained chunk of a run as a Keras model, or the chunk whose weights are in `folder`."""
    shapes = weight_shapes(run.config, run.input_dim)
    weights = load_weights(folder or run.paths.chunk(chunk), shapes, mapped=True)
    return ChunkModel(run.config, run.input_dim, chunk, weights=weights)


def inputs_of(batch):
    """A batch without its targets."""
    return {name: value for name, value in batch.items() if name not in TARGETS}


def row_ids(splits):
    """The row of each entry, for rows with these splits [batch + 1]."""
    return tf.ragged.row_splits_to_segment_ids(splits, out_type=tf.int32)


def _given(array):
    return lambda shape, dtype=None: tf.ensure_shape(tf.constant(array), shape)
