"""Where the weights of a chunk start from, if not from zeros and random numbers.

Buckets are random sets of labels, so that from random weights a network learns nothing before it
has found out which tokens go together. The gradient of the first step over *all* rows says that
at once: tokens whose rows have the same buckets have like rows in it. Scaled to the size of random
ones, they are where the input layer starts (docs/paper_notes.md has the effect).
"""

import numpy as np
import tensorflow as tf

from solar_tf.training.model import row_ids

BLOCK = 10_000  # input rows that are scaled at a time


def log_odds(label_buckets, label_counts, num_rows, num_buckets):
    """Output bias from which a chunk starts at its buckets' training frequency. [B] float32.

    A bucket is on unless all of its labels are off; labels are taken as independent.
    """
    off = np.log1p(-np.minimum(label_counts, num_rows) / (num_rows + 1))
    off = np.bincount(label_buckets, weights=off, minlength=num_buckets)
    least = 0.5 / (num_rows + 1)  # never is never certain, nor is always
    frequency = np.clip(-np.expm1(off), least, 1 - least)
    return np.log(frequency / (1 - frequency)).astype(np.float32)


def start_input_layer(model, batches):
    """Let the rows of the input layer start along the gradient of all rows of the data.

    At a hidden layer of zeros whose units are all active, that of a token is the sum, over the rows
    i that hold it, of value x (t_i - p) W^T, with the targets t_i [B], the probabilities p of
    the output bias and the output kernel W [H, B]. Each is scaled to the root mean square
    `init_stddev`; tokens of no row keep their random start. Takes a chunk's batches in any order.
    """
    weights = model.weights_by_name()
    scratch = model.state()["hidden_kernel.m"]  # of the same shape, and not in use yet
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
        # By their numbers: a slice of a variable is made of a copy of all of it.
        ids = tf.range(start, min(start + BLOCK, kernel.shape[0]))
        sums = tf.gather(scratch, ids)
        size = tf.sqrt(tf.reduce_mean(tf.square(sums), axis=1, keepdims=True))
        scaled = model.config.init_stddev * tf.math.divide_no_nan(sums, size)
        rows = tf.where(size > 0, scaled, tf.gather(kernel, ids))
        kernel.scatter_update(tf.IndexedSlices(rows, ids))
        scratch.scatter_update(tf.IndexedSlices(tf.zeros_like(sums), ids))
