"""The networks of DSSM and SNRM in training, and their losses.

Both have two towers that are one: queries, labels and random labels go through the same network.
"""

import numpy as np
import tensorflow as tf

from solar_tf.baselines.pair_training import PairModel
from solar_tf.training.model import row_ids

EPSILON = 1e-6  # of batch normalisation: means of small vectors vary by less than Keras' 1e-3
MOMENTUM = 0.99


class Towers(PairModel):
    """DSSM's (appendix D): word vectors, mean, batch normalisation, tanh, cosine.

    Rows of a batch are queries [b], their labels [b] and random labels [b * negatives]. One batch
    normalisation sees all of them: it treats queries and labels alike in training, as it must
    afterwards. A row's values add up to 1, which makes its sum the (weighted) mean of the words.
    """

    batch = {
        "ids": tf.TensorSpec([None], tf.int32),
        "values": tf.TensorSpec([None], tf.float32),
        "row_splits": tf.TensorSpec([None], tf.int32),
        "wrong": tf.TensorSpec([None, None], tf.float32),
        "target": tf.TensorSpec([None, None], tf.float32),
    }

    def __init__(self, num_words, settings):
        dim = settings.dim
        vectors = uniform(np.random.default_rng([settings.seed, 2]), 0.05, (num_words, dim))
        super().__init__(vectors, {"scale": np.ones(dim), "shift": np.zeros(dim)}, settings)
        self.averages = {
            "mean": tf.Variable(tf.zeros(dim), trainable=False),
            "variance": tf.Variable(tf.ones(dim), trainable=False),
        }

    def weights(self):
        """What embeds a title; the deviation is what batch normalisation divides by."""
        deviation = np.sqrt(self.averages["variance"].numpy() + np.float32(EPSILON))
        return super().weights() | {"mean": self.averages["mean"].numpy(), "deviation": deviation}

    def words(self, batch):
        return batch["ids"]

    def pool(self, batch, vectors):
        vectors *= batch["values"][:, None]
        return sum_rows(vectors, batch["row_splits"])

    def spread_back(self, batch, gradient):
        return tf.gather(gradient, row_ids(batch["row_splits"])) * batch["values"][:, None]

    def loss(self, batch, pooled):
        s = self.settings
        vectors = tf.math.l2_normalize(tf.tanh(self._normalize(pooled)), axis=1, epsilon=1e-12)
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
            loss = softmax(cosine, negative, s.temperature, wrong)
        else:
            if wrong is not None:  # a mean over the batch's random labels, times their number
                negative = tf.where(wrong > 0, negative, -1.0)
            loss = hinge(cosine, negative, s.high, s.low)
        if s.glas:
            loss += s.glas * spread(positive, batch["target"])
        return loss

    def _normalize(self, pooled):
        """Batch normalisation; keeps moving averages for inference."""
        mean, variance = tf.nn.moments(pooled, axes=[0])
        # A plain mean at first, so that nothing is left of the averages' initial values.
        share = tf.maximum(1 - MOMENTUM, 1 / (tf.cast(self.step, tf.float32) + 1))
        for name, value in (("mean", mean), ("variance", variance)):
            average = self.averages[name]
            average.assign_add(share * (tf.stop_gradient(value) - average))
        scaled = (pooled - mean) * tf.math.rsqrt(variance + EPSILON)
        return scaled * self.others["scale"] + self.others["shift"]


class SparseTowers(PairModel):
    """SNRM's: layers of these shapes over windows of words, ReLU, mean over the words.

    The first layer is a convolution, written as a product with the words of a window, -1 beyond
    the ends of a title. Rows of a batch are queries [b], their labels [b] and random labels [b].
    """

    batch = {
        "windows": tf.TensorSpec([None, None], tf.int32),
        "row_splits": tf.TensorSpec([None], tf.int32),
    }

    def __init__(self, num_words, shapes, settings):
        generator = np.random.default_rng([settings.seed, 2])
        layers = {
            name: uniform(generator, np.sqrt(6 / sum(shape)), shape)  # Glorot's
            for name, shape in shapes.items()
        }
        super().__init__(uniform(generator, 0.05, (num_words, settings.dim)), layers, settings)

    def words(self, batch):
        return tf.boolean_mask(batch["windows"], batch["windows"] >= 0)

    def pool(self, batch, vectors):
        """Windows as rows, [words, window * dim]; zeros beyond the ends of a title."""
        windows, dim = batch["windows"], self.settings.dim
        places = tf.where(tf.reshape(windows, [-1]) >= 0)
        shape = tf.size(windows, tf.int64), tf.constant(dim, tf.int64)
        return tf.reshape(tf.scatter_nd(places, vectors, shape), [-1, tf.shape(windows)[1] * dim])

    def spread_back(self, batch, gradient):
        shape = [*tf.unstack(tf.shape(batch["windows"])), self.settings.dim]
        return tf.boolean_mask(tf.reshape(gradient, shape), batch["windows"] >= 0)

    def loss(self, batch, pooled):
        hidden = pooled
        for layer in self.others.values():
            hidden = tf.nn.relu(tf.matmul(hidden, layer))
        splits = batch["row_splits"]
        counts = tf.cast(tf.maximum(splits[1:] - splits[:-1], 1), tf.float32)
        query, positive, negative = tf.split(sum_rows(hidden, splits) / counts[:, None], 3)
        return ranking(query, positive, negative, self.settings.l1)


def uniform(generator, limit, shape):
    return generator.uniform(-limit, limit, shape).astype(np.float32)


def sum_rows(values, splits):
    """Sums of the ragged rows of values [entries, d]: [n, d]."""
    return tf.math.unsorted_segment_sum(values, row_ids(splits), tf.size(splits) - 1)


def hinge(positive, negative, high, low):
    """DSSM's: cosines of pairs [b] to be above `high`, of random pairs [b, n] below `low`.

    The paper names no loss; the squared hinge with 0.9 and 0.2 is that of the model it cites
    (Nigam et al., KDD 2019).
    """
    pulled = tf.square(tf.nn.relu(high - positive))
    pushed = tf.square(tf.nn.relu(negative - low))
    return tf.reduce_mean(pulled) + tf.reduce_mean(tf.reduce_sum(pushed, axis=1))


def softmax(positive, negative, temperature, wrong=None):
    """Cross entropy of the pair's label [b] against random ones [b, n], cosines / temperature.

    Where `wrong` [b, n] is 0 the random label is a true one, and left out.
    """
    logits = tf.concat([positive[:, None], negative], axis=1) / temperature
    if wrong is not None:
        own = tf.ones_like(positive[:, None])
        logits = tf.where(tf.concat([own, wrong], axis=1) > 0, logits, -1e9)
    return tf.reduce_mean(tf.reduce_logsumexp(logits, axis=1) - logits[:, 0])


def spread(vectors, target):
    """GLaS (Guo et al., NeurIPS 2019; appendix D): mean squared entry of V V^T - target.

    `vectors` [b, d] are labels of unit length, `target` [b, b] is (C Z^-1 + Z^-1 C) / 2. The mean
    over entries keeps its weight independent of the batch size.
    """
    return tf.reduce_mean(tf.square(tf.matmul(vectors, vectors, transpose_b=True) - target))


def ranking(query, positive, negative, l1):
    """SNRM's (Zamani et al., CIKM 2018): a hinge on products, and the L1 norm of all vectors.

    All [b, D] and not negative, so that the L1 norm is their sum.
    """
    margin = tf.reduce_sum(query * (positive - negative), axis=1)
    norms = sum(tf.reduce_sum(vectors, axis=1) for vectors in (query, positive, negative))
    return tf.reduce_mean(tf.nn.relu(1 - margin)) + l1 * tf.reduce_mean(norms)
