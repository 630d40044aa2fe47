"""The chunk network and its training step (§3.2).

One hidden layer, input -> hidden_dim (ReLU) -> B, binary cross entropy on few-hot
targets. Keras turns the gradient of a sparse input layer into a dense one, which at
the paper's size costs several times the arithmetic of the step. So the step is
written out: the input layer gathers the rows that a batch touches, and only those
are updated; the target matrix is never built, `sigmoid(z) - target` being a scatter
into the sigmoid; the output layer is updated in place by TensorFlow's fused Adam.

The loss is summed over buckets and averaged over the batch: averaged over both, its
gradients vanish into Adam's epsilon (docs/paper_notes.md).
"""

import functools
import gc

import keras
import numpy as np
import tensorflow as tf

from solar_tf.run.weights import NAMES, weight_shapes
from solar_tf.training.optimizer import adam, lazy_adam, make_moments

SPARSE_INPUTS = {
    "ids": tf.TensorSpec([None], tf.int32),
    "values": tf.TensorSpec([None], tf.float32),
    "row_splits": tf.TensorSpec([None], tf.int32),
}
TARGETS = {
    "buckets": tf.TensorSpec([None], tf.int32),
    "bucket_splits": tf.TensorSpec([None], tf.int32),
}


class ChunkModel(keras.Model):
    """One of SOLAR's K networks, with the state of its optimizer.

    A batch is a dict of tensors as `batches.read_batches` yields it. Weights start at
    random unless they are given by name.
    """

    def __init__(
        self, config, input_dim, chunk, *, dense=False, mixed_precision=False, weights=None
    ):
        # A model and its traced functions refer to each other: the one of the chunk before
        # would take its gigabytes until Python happens to look for such cycles.
        gc.collect()
        super().__init__(name=f"chunk_{chunk:02d}")
        self.config = config
        self.matmul_type = tf.bfloat16 if mixed_precision else tf.float32
        *starts, noise = np.random.SeedSequence([config.seed, chunk]).generate_state(5)
        self.noise_seed = int(noise >> 1)
        shapes = weight_shapes(config, input_dim)
        for (name, shape), seed in zip(shapes.items(), starts, strict=True):
            initializer = "zeros"
            if weights is not None:
                initializer = _given(weights[name])
            elif len(shape) == 2:
                initializer = keras.initializers.TruncatedNormal(
                    stddev=config.init_stddev, seed=int(seed)
                )
            setattr(self, name, self.add_weight(shape=shape, initializer=initializer, name=name))
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.moments = {}  # of Adam, made when training begins
        self.built = True
        self.inputs_spec = _inputs_spec(input_dim, dense)

    # Traced once, with fixed signatures: a batch of another size is no reason to trace again.

    @functools.cached_property
    def probabilities(self):
        """The scores of §3.3 as a function of a batch's inputs: [batch, B]."""
        function = tf.function(lambda inputs: tf.sigmoid(self(inputs)))
        return function.get_concrete_function(self.inputs_spec)

    @functools.cached_property
    def train_batch(self):
        """One step of Adam as a function of a batch and a learning rate; returns the loss."""
        rate = tf.TensorSpec([], tf.float32)
        return tf.function(self._train_batch).get_concrete_function(
            self.inputs_spec | TARGETS, rate
        )

    def call(self, batch):
        """Logits of the buckets, [batch, B]; needs a batch's inputs only."""
        weights = {name: weight.value for name, weight in self.weights_by_name().items()}
        return _logits(batch, weights, self._matmul)

    def _train_batch(self, batch, learning_rate):
        """One step; the loss is the one before it."""
        seed = tf.constant(self.noise_seed, tf.int64)
        values = batch.get("values")
        if self.config.input_dropout and values is not None:
            values *= self._dropout_mask(
                tf.shape(values), self.config.input_dropout, [seed, 2 * self.step]
            )
        sums = _hidden_sums(
            batch, values, self.hidden_kernel.value, self.hidden_bias.value, self._matmul
        )
        hidden = tf.nn.relu(sums)
        if self.config.dropout:
            mask = self._dropout_mask(
                tf.shape(hidden), self.config.dropout, [seed, 2 * self.step + 1]
            )
            hidden *= mask
        logits = self._matmul(hidden, self.output_kernel) + self.output_bias

        targets = tf.stack([row_ids(batch["bucket_splits"]), batch["buckets"]], axis=1)
        scale = 1 / tf.cast(tf.shape(logits)[0], tf.float32)
        probabilities = tf.sigmoid(logits)
        loss = scale * self._cross_entropy(logits, probabilities, targets)
        ones = tf.ones(tf.shape(targets)[:1])
        error = tf.tensor_scatter_nd_sub(probabilities, targets, ones)

        error_hidden = self._matmul(error, self.output_kernel, transpose_b=True)
        error_hidden = tf.where(sums > 0, error_hidden * scale, 0.0)
        if self.config.dropout:
            error_hidden *= mask
        output_gradient = self._matmul(hidden * scale, error, transpose_a=True)

        self.step.assign_add(1)
        self._adam(self.output_kernel, output_gradient, learning_rate)
        self._adam(self.output_bias, scale * tf.reduce_sum(error, axis=0), learning_rate)
        self._adam(self.hidden_bias, tf.reduce_sum(error_hidden, axis=0), learning_rate)
        if "dense" in batch:
            gradient = self._matmul(batch["dense"], error_hidden, transpose_a=True)
            self._adam(self.hidden_kernel, gradient, learning_rate)
        else:
            # Each token's share of the error, summed over the tokens that are the same.
            rows = tf.gather(error_hidden, row_ids(batch["row_splits"])) * values[:, None]
            ids, places = tf.unique(batch["ids"])
            if self.config.optimizer == "adam":
                gradient = tf.math.unsorted_segment_sum(
                    rows, batch["ids"], self.hidden_kernel.shape[0]
                )
                self._adam(self.hidden_kernel, gradient, learning_rate)
            else:
                gradient = tf.math.unsorted_segment_sum(rows, places, tf.size(ids))
                self._lazy_adam(self.hidden_kernel, ids, gradient, learning_rate)
        return loss

    def make_moments(self):
        """Adam's two moments of every weight; inference needs none."""
        for weight in self.weights_by_name().values():
            self.moments[weight.name] = make_moments(weight)

    def weights_by_name(self):
        return {name: getattr(self, name) for name in NAMES}

    def state(self):
        """All that training needs to go on: weights and moments by name."""
        state = {name: weight.value for name, weight in self.weights_by_name().items()}
        for name, (first, second) in self.moments.items():
            state |= {f"{name}.m": first, f"{name}.v": second}
        return state

    def _matmul(self, left, right, **transpose):
        product = tf.matmul(
            tf.cast(left, self.matmul_type), tf.cast(right, self.matmul_type), **transpose
        )
        return tf.cast(product, tf.float32)

    @staticmethod
    def _cross_entropy(logits, probabilities, targets):
        """Summed over the batch; `targets` [t, 2] are the places of the ones.

        Zeros cost -log(1 - p), from the probabilities at hand: a softplus of all logits
        would take as long as a matrix product. Ones are exact.
        """
        below_one = tf.minimum(probabilities, 1 - 2**-24)
        off = tf.reduce_sum(tf.math.log1p(-below_one))
        off_targets = tf.reduce_sum(tf.math.log1p(-tf.gather_nd(below_one, targets)))
        on = tf.reduce_sum(tf.nn.softplus(-tf.gather_nd(logits, targets)))
        return on - (off - off_targets)

    @staticmethod
    def _dropout_mask(shape, rate, seed):
        """Stateless, so that a resumed run draws the same masks as an unbroken one."""
        return tf.where(tf.random.stateless_uniform(shape, seed) >= rate, 1 / (1 - rate), 0.0)

    def _adam(self, weight, gradient, learning_rate):
        moments = self.moments[weight.name]
        adam(weight.value, moments, self.step, gradient, learning_rate)

    def _lazy_adam(self, weight, ids, gradient, learning_rate):
        moments = self.moments[weight.name]
        lazy_adam(weight.value, moments, self.step, ids, gradient, learning_rate)


class Rows:
    """A variable as an array of which some rows are read: read whole, it would be copied."""

    def __init__(self, variable):
        self.variable, self.shape = variable, tuple(variable.shape)
        self.dtype = np.dtype(variable.dtype.as_numpy_dtype)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return tf.gather(self.variable, tf.range(*rows.indices(len(self)))).numpy()


def probability_function(config, input_dim, dense=False):
    """The scores of §3.3 as a function of a batch's inputs and any chunk's weights by name.

    Traced once for all chunks; returns [batch, B].
    """
    shapes = weight_shapes(config, input_dim)
    weights = {name: tf.TensorSpec(shape) for name, shape in shapes.items()}
    function = tf.function(lambda inputs, weights: tf.sigmoid(_logits(inputs, weights, tf.matmul)))
    return function.get_concrete_function(_inputs_spec(input_dim, dense), weights)


def _inputs_spec(input_dim, dense):
    return {"dense": tf.TensorSpec([None, input_dim])} if dense else SPARSE_INPUTS


def _logits(batch, weights, matmul):
    kernel, bias = weights["hidden_kernel"], weights["hidden_bias"]
    hidden = tf.nn.relu(_hidden_sums(batch, batch.get("values"), kernel, bias, matmul))
    return matmul(hidden, weights["output_kernel"]) + weights["output_bias"]


def _hidden_sums(batch, values, kernel, bias, matmul):
    """What the ReLU of the hidden layer is applied to, [batch, hidden_dim]."""
    if "dense" in batch:
        return matmul(batch["dense"], kernel) + bias
    rows = tf.gather(kernel, batch["ids"]) * values[:, None]
    splits = batch["row_splits"]
    return tf.math.unsorted_segment_sum(rows, row_ids(splits), tf.size(splits) - 1) + bias


def inputs_of(batch):
    """A batch without its targets."""
    return {name: value for name, value in batch.items() if name not in TARGETS}


def _given(array):
    return lambda shape, dtype=None: tf.ensure_shape(tf.constant(array), shape)


def row_ids(splits):
    """The row of each of the flat entries that `splits` [batch + 1] divides into rows."""
    return tf.ragged.row_splits_to_segment_ids(splits, out_type=tf.int32)
