"""Initial weights of a chunk other than zeros and random numbers.

Buckets are random sets of labels, so a network with random weights first has to find out which
tokens go together. The gradient of one step over *all* rows tells that at once: in it, tokens
whose rows share buckets have similar rows. The input layer can start from this gradient, scaled to
the size of random weights (docs/paper_notes.md has the effect).
"""

import numpy as np
import tensorflow as tf

from solar_tf.training.model import row_ids

BLOCK = 10_000  # input rows scaled at a time


def log_odds(label_buckets, label_counts, num_rows, num_buckets):
    """Output bias [B] float32 at which every bucket has its frequency in the training rows.

    A bucket is on unless all of its labels are off. Labels count as independent.
    """
    off = np.log1p(-np.minimum(label_counts, num_rows) / (num_rows + 1))
    off = np.bincount(label_buckets, weights=off, minlength=num_buckets)
    least = 0.5 / (num_rows + 1)  # keeps the bias finite where a bucket is on never or always
    frequency = np.clip(-np.expm1(off), least, 1 - least)
    return np.log(frequency / (1 - frequency)).astype(np.float32)


def start_input_layer(model, batches):
    """Set the rows of the input layer to the scaled gradient of one step over all batches.

    With a hidden layer of zeros whose units are all active, the gradient of a token is the sum of
    value x (t_i - p) W^T over the rows i that hold the token. t_i [B] are the targets of row i, p
    the probabilities of the output bias, W [H, B] the output kernel. Each gradient is scaled to
    the root mean square `init_stddev`. Tokens of no row keep their random weights.
    """
    weights = model.weights_by_name()
    scratch = model.state()["hidden_kernel.m"]  # has the shape, and is not in use yet
    buckets = tf.transpose(weights["output_kernel"])
    usual = tf.linalg.matvec(weights["output_kernel"], tf.sigmoid(weights["output_bias"]))

    @tf.function(reduce_retracing=True)
    def add(batch):
        rows = row_ids(batch["bucket_splits"])
        count = tf.size(batch["bucket_splits"]) - 1
        pulls = tf.math.unsorted_segment_sum(tf.gather(buckets, batch["buckets"]), rows, count)
        pulls -= usual
        if "dense" in batch:
            scratch.assign_add(tf.matmul(batch["dense"], pulls, transpose_a=True))
            return
        ids, places = tf.unique(batch["ids"])
        pulls = tf.gather(pulls, row_ids(batch["row_splits"])) * batch["values"][:, None]
        sums = tf.math.unsorted_segment_sum(pulls, places, tf.size(ids))
        scratch.scatter_add(tf.IndexedSlices(sums, ids))

    for batch in batches:
        add(batch)
    kernel = weights["hidden_kernel"]
    for start in range(0, kernel.shape[0], BLOCK):
        # Slicing a variable would copy all of it.
        ids = tf.range(start, min(start + BLOCK, kernel.shape[0]))
        sums = tf.gather(scratch, ids)
        size = tf.sqrt(tf.reduce_mean(tf.square(sums), axis=1, keepdims=True))
        scaled = model.config.init_stddev * tf.math.divide_no_nan(sums, size)
        rows = tf.where(size > 0, scaled, tf.gather(kernel, ids))
        kernel.scatter_update(tf.IndexedSlices(rows, ids))
        scratch.scatter_update(tf.IndexedSlices(tf.zeros_like(sums), ids))
