"""Queries to the probabilities of their buckets (§3.3), from mapped weights, without TensorFlow.

A query touches a few rows of the input layer, and ReLU leaves many hidden units at zero: for
a few queries only the rows of the others are read of the output layer.
"""

import numpy as np
import scipy.sparse
from scipy.special import expit

from solar_tf import features, hashing
from solar_tf.precision import multiply, multiply_active, multiply_rows

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
