"""The losses of models that learn from pairs of titles; each has a numpy oracle in its tests."""

import tensorflow as tf


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
