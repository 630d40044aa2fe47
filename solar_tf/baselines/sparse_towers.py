"""SNRM's network in training: convolutions over words, written as products with windows of them."""

import numpy as np
import tensorflow as tf

from solar_tf.baselines import losses
from solar_tf.baselines.convolution import LAYERS, WINDOW
from solar_tf.baselines.pair_training import PairModel
from solar_tf.training.model import row_ids

BATCH = {
    "windows": tf.TensorSpec([None, WINDOW], tf.int32),
    "row_splits": tf.TensorSpec([None], tf.int32),
}


class SparseTowers(PairModel):
    """Rows of a batch are queries [b], their labels [b] and random labels [b]."""

    def __init__(self, num_words, settings):
        generator = np.random.default_rng([settings.seed, 2])
        sizes = WINDOW * settings.dim, settings.hidden, settings.narrow, settings.width
        others = {
            name: _glorot(generator, inputs, outputs)
            for name, inputs, outputs in zip(LAYERS, sizes[:-1], sizes[1:], strict=True)
        }
        vectors = generator.uniform(-0.05, 0.05, (num_words, settings.dim)).astype(np.float32)
        super().__init__(vectors, others, BATCH)
        self.settings = settings

    def words(self, batch):
        return tf.boolean_mask(batch["windows"], batch["windows"] >= 0)

    def pool(self, batch, vectors):
        """Windows as rows, [words, 5 * dim], zero beyond the ends of a title."""
        places = tf.where(tf.reshape(batch["windows"], [-1]) >= 0)
        shape = tf.size(batch["windows"], tf.int64), tf.constant(self.settings.dim, tf.int64)
        return tf.reshape(tf.scatter_nd(places, vectors, shape), [-1, WINDOW * self.settings.dim])

    def spread_back(self, batch, gradient):
        gradient = tf.reshape(gradient, [-1, WINDOW, self.settings.dim])
        return tf.boolean_mask(gradient, batch["windows"] >= 0)

    def loss(self, batch, pooled):
        hidden = pooled
        for layer in LAYERS:
            hidden = tf.nn.relu(tf.matmul(hidden, self.others[layer]))
        splits = batch["row_splits"]
        rows = row_ids(splits)
        counts = tf.cast(tf.maximum(splits[1:] - splits[:-1], 1), tf.float32)
        sums = tf.math.unsorted_segment_sum(hidden, rows, tf.size(splits) - 1)
        query, positive, negative = tf.split(sums / counts[:, None], 3)
        return losses.ranking(query, positive, negative, self.settings.l1)


def _glorot(generator, inputs, outputs):
    limit = np.sqrt(6 / (inputs + outputs))
    return generator.uniform(-limit, limit, (inputs, outputs)).astype(np.float32)
