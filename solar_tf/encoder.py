"""Queries to the probabilities of their buckets (§3.3), from mapped weights, without TensorFlow.

A query touches a few rows of the input layer, and ReLU leaves many hidden units at zero: for
a few queries only the rows of the others are read of the output layer.
"""

import numpy as np
import scipy.sparse
from scipy.special import expit

from solar_tf import features, hashing
from solar_tf.kernels import compiled
from solar_tf.precision import scaled

COLUMNS = 4096  # widened to float32 at a time
FEW = 4  # queries, up to which reading parts of the output layer beats a matrix product


class Inputs:
    """Queries of one kind: texts, a CSR matrix of features, or rows of numbers."""

    def __init__(self, run, kind, inputs, vocabulary=None, token_weights=None):
        self.config, self.seeds, self.dense = run.config, run.seeds, None
        if kind == "dense":
            self.dense, self.num_queries = inputs, len(inputs)
            self.known = np.ones(len(inputs), bool)
            return
        if kind == "text":
            splits, ids, values = vocabulary.encode(inputs)
        else:
            splits, ids, values = inputs.indptr, inputs.indices, inputs.data
        self.splits, self.ids = splits, ids
        self.num_queries = len(splits) - 1
        self.known = np.diff(splits) > 0  # without a known word there is nothing to search by
        self.values = features.weigh(splits, ids, values, run.config, token_weights)

    def part(self, start, stop):
        """The queries start to stop."""
        part = object.__new__(Inputs)
        part.__dict__ |= self.__dict__
        part.num_queries, part.known = stop - start, self.known[start:stop]
        if self.dense is not None:
            part.dense = self.dense[start:stop]
        else:
            part.splits = self.splits[start : stop + 1] - self.splits[start]
            rows = slice(self.splits[start], self.splits[stop])
            part.ids, part.values = self.ids[rows], self.values[rows]
        return part

    def of_chunk(self, chunk):
        """What the chunk's network takes (§3.2): [n, input_dim], hashed with the chunk's seed."""
        if self.dense is not None:
            return self.dense
        width = self.config.feature_dim
        hashed = hashing.hash_ids(self.ids, self.seeds[chunk], width)
        splits, ids, values = hashing.hash_features(self.splits, hashed, self.values)
        return scipy.sparse.csr_array((values, ids, splits), shape=(self.num_queries, width))


def probabilities(model, inputs):
    """One chunk's forward pass (§3.2): inputs [n, input_dim], dense or CSR -> [n, B] float32.

    The model's weights may be stored in any precision.
    """
    first = multiply_rows if scipy.sparse.issparse(inputs) else multiply
    hidden = np.maximum(first(model, "hidden_kernel", inputs) + model["hidden_bias"], 0)
    if len(hidden) > FEW:
        logits = multiply(model, "output_kernel", hidden)
    else:
        logits = np.stack([multiply_active(model, "output_kernel", units) for units in hidden])
    return expit(logits + model["output_bias"])


# Products with weights in any precision, by name: [n, columns] float32.


def multiply_rows(model, name, inputs):
    """inputs @ weights, [n, columns] float32, for CSR inputs that touch a few rows of them."""
    kernel = model[name]
    if kernel.dtype == np.float32:
        return inputs @ kernel
    touched, places = np.unique(inputs.indices, return_inverse=True)
    shape = inputs.shape[0], len(touched)
    few = type(inputs)((inputs.data, places, inputs.indptr), shape=shape)
    return scaled(model, name, few @ kernel[touched].astype(np.float32))


def multiply(model, name, inputs):
    """inputs @ weights, [n, columns] float32, for dense inputs."""
    kernel = model[name]
    if kernel.dtype == np.float32:
        return inputs @ kernel
    product = np.empty((len(inputs), kernel.shape[1]), np.float32)
    for start in range(0, kernel.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        part = inputs @ kernel[:, columns].astype(np.float32)
        product[:, columns] = scaled(model, name, part, columns)
    return product


def multiply_active(model, name, units):
    """units [rows] @ weights, of which only the rows of units that are not 0 are read.

    Without a copy of those rows, and without the threads of BLAS, which for one query wait for
    each other longer than they work.
    """
    kernel = model[name]
    if kernel.dtype == np.float16:  # unknown to numba
        active = np.flatnonzero(units)
        kernel, units = kernel[active].astype(np.float32), units[active]
    sums = np.zeros(kernel.shape[1], np.float32)
    _add_rows(np.asarray(kernel), units, sums)
    return scaled(model, name, sums)


@compiled
def _add_rows(kernel, units, sums):
    for i in range(len(units)):
        if units[i] != 0:
            unit, row = units[i], kernel[i]
            for j in range(len(sums)):
                sums[j] += unit * np.float32(row[j])
