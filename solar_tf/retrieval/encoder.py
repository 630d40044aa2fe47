"""Queries to the probabilities of their buckets (§3.3), from mapped weights, without TensorFlow.

A query touches a few rows of the input layer, and ReLU leaves many hidden units at zero: for
a few queries only the rows of the others are read of the output layer.
"""

import numpy as np
import scipy.sparse
from scipy.special import expit

from solar_tf.preprocessing import features, hashing
from solar_tf.run.precision import SCALE, scaled
from solar_tf.runtime.compiled import compiled

COLUMNS = 4096  # widened to float32 at a time
FEW = 12  # queries, up to which reading parts of the output layer beats a matrix product


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
    kernel, active = model[name], np.flatnonzero(units)
    rows, units = active, units[active]
    if kernel.dtype == np.float16:  # unknown to numba
        kernel, rows = kernel[active].astype(np.float32), np.arange(len(active))
    sums = np.zeros(kernel.shape[1], np.float32)
    _add_rows(np.asarray(kernel), rows, units, sums)
    return scaled(model, name, sums)


@compiled
def _add_rows(kernel, rows, factors, sums):
    """sums += factors @ kernel[rows], in the order of the rows, four in one go."""
    whole = len(rows) // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = kernel[rows[i]], kernel[rows[i + 1]], kernel[rows[i + 2]], kernel[rows[i + 3]]
        e, f, g, h = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        for j in range(len(sums)):
            two = sums[j] + e * np.float32(a[j]) + f * np.float32(b[j])
            sums[j] = two + g * np.float32(c[j]) + h * np.float32(d[j])
    for i in range(whole, len(rows)):
        factor, row = factors[i], kernel[rows[i]]
        for j in range(len(sums)):
            sums[j] += factor * np.float32(row[j])


# A few queries, whose features are sparse: the same in one call, since those into numpy and scipy
# take longer than their arithmetic, and threads wait for each other between them.


def probabilities_of_few(model, inputs, chunk):
    """The probabilities of the buckets of a chunk, [n, B] float32, for up to FEW queries."""
    if inputs.dense is not None or model["output_kernel"].dtype == np.float16:
        return probabilities(model, inputs.of_chunk(chunk))
    logits = np.empty((inputs.num_queries, len(model["output_bias"])), np.float32)
    layers = []
    for name in ("hidden", "output"):
        kernel = f"{name}_kernel"
        layers += np.asarray(model[kernel]), model.get(kernel + SCALE), model[f"{name}_bias"]
    rows = np.asarray(inputs.splits, np.int64), np.asarray(inputs.ids, np.int32), inputs.values
    _fill_logits(*rows, inputs.seeds[chunk], *layers, logits)
    return expit(logits, out=logits)


@compiled
def _fill_logits(
    splits, ids, values, seed, kernel, scale, bias, output_kernel, output_scale, output_bias, logits
):
    width, num_units = kernel.shape
    hidden = np.empty(num_units, np.float32)
    for q in range(len(logits)):
        row = slice(splits[q], splits[q + 1])
        places, factors = hash_row(ids[row], values[row], seed, width)
        _fill_sums(kernel, scale, bias, places, factors, hidden)
        active = np.flatnonzero(hidden > 0)
        _fill_sums(output_kernel, output_scale, output_bias, active, hidden[active], logits[q])


@compiled
def _fill_sums(kernel, scale, bias, rows, factors, sums):
    """What a layer's units add up, if its inputs are 0 but for some rows of the kernel."""
    sums[:] = 0
    _add_rows(kernel, rows, factors, sums)
    for j in range(len(sums)):
        if scale is not None:
            sums[j] *= scale[j]
        sums[j] += bias[j]


@compiled
def hash_row(ids, values, seed, width):
    """One row of hashing.hash_features: ascending places int64 and their sums float32."""
    keys = np.empty(len(ids), np.int64)
    for i in range(len(ids)):
        keys[i] = _hash(ids[i], seed) % width << 32 | i
    keys.sort()
    places, sums = np.empty(len(ids), np.int64), np.zeros(len(ids), np.float64)
    count = 0
    for key in keys:
        if count == 0 or places[count - 1] != key >> 32:
            places[count] = key >> 32
            count += 1
        sums[count - 1] += values[key & 0xFFFFFFFF]
    return places[:count], sums[:count].astype(np.float32)


@compiled
def _hash(number, seed):
    """hashing.murmurhash3_32 of one number."""
    low = np.uint64(0xFFFFFFFF)
    h = np.uint64(np.uint32(number)) * np.uint64(0xCC9E2D51) & low
    h = (h << np.uint64(15) | h >> np.uint64(17)) & low
    h = (h * np.uint64(0x1B873593) & low) ^ np.uint64(np.uint32(seed))
    h = (h << np.uint64(13) | h >> np.uint64(19)) & low
    h = (h * np.uint64(5) + np.uint64(0xE6546B64) & low) ^ np.uint64(4)
    h = (h ^ h >> np.uint64(16)) * np.uint64(0x85EBCA6B) & low
    h = (h ^ h >> np.uint64(13)) * np.uint64(0xC2B2AE35) & low
    return np.int64(np.int32(h ^ h >> np.uint64(16)))
