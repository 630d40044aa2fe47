"""DSSM's network in training (appendix D): shared word vectors, mean, batch norm, tanh, cosine."""

import numpy as np
import tensorflow as tf

from solar_tf.baselines import losses
from solar_tf.baselines.pair_training import PairModel
from solar_tf.training.model import row_ids

EPSILON = 1e-6  # of batch normalisation: means of small vectors vary by less than Keras' 1e-3
MOMENTUM = 0.99
BATCH = {
    "ids": tf.TensorSpec([None], tf.int32),
    "values": tf.TensorSpec([None], tf.float32),
    "row_splits": tf.TensorSpec([None], tf.int32),
    "wrong": tf.TensorSpec([None, None], tf.float32),
    "target": tf.TensorSpec([None, None], tf.float32),
}


class Towers(PairModel):
    """Rows of a batch are queries [b], their labels [b] and random labels [b * negatives].

    All go through the same network, and one batch normalisation sees all of them: it treats
    queries and labels alike in training, as it must afterwards. Inputs' values add up to 1 in a
    row, which makes their sum the (weighted) mean of the words.
    """

    def __init__(self, num_words, settings):
        generator = np.random.default_rng([settings.seed, 2])
        dim = settings.dim
        vectors = generator.uniform(-0.05, 0.05, (num_words, dim)).astype(np.float32)
        others = {"scale": np.ones(dim, np.float32), "shift": np.zeros(dim, np.float32)}
        super().__init__(vectors, others, BATCH)
        self.settings = settings
        self.averages = {
            "mean": tf.Variable(tf.zeros(dim), trainable=False),
            "variance": tf.Variable(tf.ones(dim), trainable=False),
        }

    def weights(self):
        """What embeds a title, as arrays; the deviation is what batch normalisation divides by."""
        arrays = {name: variable.numpy() for name, variable in self.variables().items()}
        deviation = np.sqrt(self.averages["variance"].numpy() + np.float32(EPSILON))
        return arrays | {"mean": self.averages["mean"].numpy(), "deviation": deviation}

    def words(self, batch):
        return batch["ids"]

    def pool(self, batch, vectors):
        rows = row_ids(batch["row_splits"])
        vectors *= batch["values"][:, None]
        return tf.math.unsorted_segment_sum(vectors, rows, tf.size(batch["row_splits"]) - 1)

    def spread_back(self, batch, gradient):
        return tf.gather(gradient, row_ids(batch["row_splits"])) * batch["values"][:, None]

    def loss(self, batch, pooled):
        s = self.settings
        mean, variance = tf.nn.moments(pooled, axes=[0])
        # A plain mean at first: of what the averages start from nothing is left.
        share = tf.maximum(1 - MOMENTUM, 1 / (tf.cast(self.step, tf.float32) + 1))
        for name, value in (("mean", mean), ("variance", variance)):
            average = self.averages[name]
            average.assign_add(share * (tf.stop_gradient(value) - average))
        scaled = (pooled - mean) * tf.math.rsqrt(variance + EPSILON)
        vectors = tf.tanh(scaled * self.others["scale"] + self.others["shift"])
        vectors = tf.math.l2_normalize(vectors, axis=1, epsilon=1e-12)
        count = tf.shape(vectors)[0] // (2 + s.negatives)
        query, positive, random = vectors[:count], vectors[count : 2 * count], vectors[2 * count :]
        cosine = tf.reduce_sum(query * positive, axis=1)
        wrong = None
        if s.compare == "own":
            random = tf.reshape(random, [count, s.negatives, s.dim])
            negative = tf.einsum("bd,bnd->bn", query, random)
        else:
            negative = tf.matmul(query, random, transpose_b=True)
            wrong = batch["wrong"]
        if s.loss == "softmax":
            loss = losses.softmax(cosine, negative, s.temperature, wrong)
        else:
            if wrong is not None:  # a mean over the batch's random labels, times their number
                negative = tf.where(wrong > 0, negative, -1.0)
            loss = losses.hinge(cosine, negative, s.high, s.low)
        if s.glas:
            loss += s.glas * losses.spread(positive, batch["target"])
        return loss
