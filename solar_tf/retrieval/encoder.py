"""Queries to the probabilities of their buckets (§3.3), by one of two encoders.

`CompiledEncoder` is for few queries, and for programs that must not load TensorFlow. A query
touches a few rows of the input layer, and ReLU leaves many hidden units at zero: only the rows
of the other units are read from the output layer.

`TensorFlowEncoder` is for many queries: matrix products, by the network that was trained.

Both have a `batch_size`, the queries to encode at a time, and `open(model, chunk)`. It takes a
chunk's weights as they are stored, mapped and in any precision, and returns the chunk's network:
a function of `Inputs` that returns [n, B] float32.
"""

import sys

import numpy as np
from numba import types
from numba.extending import overload
from scipy.special import expit

from solar_tf.preprocessing import features, hashing
from solar_tf.run.precision import SCALE, restore
from solar_tf.run.weights import NAMES, load_stored, weight_shapes
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.devices import load_tensorflow
from solar_tf.runtime.ragged import row_splits, slice_rows

STREAMS = 2  # batches that TensorFlow has in work at a time
COLUMNS = 2048  # of the output layer at a time: its rows stay in the cache from query to query


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
        self.known = np.diff(splits) > 0  # a query without a known word cannot be searched
        self.values = features.weigh(splits, ids, values, run.config, token_weights)

    def part(self, start, stop):
        """The queries start to stop."""
        if (start, stop) == (0, self.num_queries):
            return self
        part = object.__new__(Inputs)
        part.__dict__ |= self.__dict__
        part.num_queries, part.known = stop - start, self.known[start:stop]
        if self.dense is not None:
            part.dense = self.dense[start:stop]
        else:
            part.splits, part.ids = slice_rows(self.splits, self.ids, start, stop)
            _, part.values = slice_rows(self.splits, self.values, start, stop)
        return part

    def features(self, query):
        """The values of one query's features, by id."""
        row = slice(*self.splits[query : query + 2])
        return dict(zip(self.ids[row].tolist(), self.values[row].tolist(), strict=True))

    def of_chunk(self, chunk):
        """What the chunk's network takes (§3.2), by name, hashed with the chunk's seed."""
        if self.dense is not None:
            return {"dense": np.asarray(self.dense, np.float32)}
        hashed = hashing.hash_ids(self.ids, self.seeds[chunk], self.config.feature_dim)
        splits, ids, values = hashing.hash_features(self.splits, hashed, self.values)
        return {"ids": ids, "values": values, "row_splits": splits.astype(np.int32)}


class TensorFlowEncoder:
    """The networks of a run's chunks, by one traced function; loads TensorFlow."""

    batch_size = 1000

    def __init__(self, run):
        if "tensorflow" not in sys.modules:
            load_tensorflow()
        from solar_tf.training.model import probability_function

        self.shapes = weight_shapes(run.config, run.input_dim)
        dense = run.dataset["kind"] == "dense"
        self.function = probability_function(run.config, run.input_dim, dense)

    def load(self, folder):
        """The network of the weights in a folder, as a function of a batch by name."""
        return self.network(load_stored(folder, self.shapes))

    def network(self, model):
        """The network of a chunk's weights, as a function of a batch by name."""
        weights = {name: _borrow(restore(model, name)) for name in NAMES}
        return lambda batch: self.function(batch, weights).numpy()

    def open(self, model, chunk):
        import tensorflow as tf

        network = self.network(model)

        def probabilities(inputs):
            with tf.device("CPU"):  # where batches of records are, too
                batch = {name: tf.constant(a) for name, a in inputs.of_chunk(chunk).items()}
            return network(batch)

        return probabilities


def _borrow(array):
    """An array as a tensor that shares its memory, if it is aligned as TensorFlow's are."""
    import tensorflow as tf

    if array.ctypes.data % 64:  # restored from a smaller precision, and not mapped
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(np.asarray(array).__dlpack__())


class CompiledEncoder:
    """All arithmetic of a chunk in one compiled call.

    For few queries, calls into numpy take longer than their arithmetic, and threads wait for each
    other between them.
    """

    batch_size = 256

    def open(self, model, chunk):
        layers = [_layer(model, "hidden"), _layer(model, "output")]

        def probabilities(inputs):
            seed = inputs.seeds[chunk]
            if inputs.dense is None:
                rows = inputs.splits, inputs.ids, inputs.values
            else:
                places = np.nonzero(inputs.dense)
                counts = np.bincount(places[0], minlength=inputs.num_queries)
                rows, seed = (row_splits(counts), places[1], inputs.dense[places]), None
            kinds = np.int64, np.int32, np.float32
            rows = tuple(np.asarray(a, kind) for a, kind in zip(rows, kinds, strict=True))
            logits = np.zeros((inputs.num_queries, len(model["output_bias"])), np.float32)
            _fill_logits(rows, seed, *layers, logits)
            return expit(logits, out=logits)

        return probabilities


def _layer(model, name):
    """Kernel, scale of the kernel or None, and bias."""
    kernel = np.asarray(model[f"{name}_kernel"])
    if kernel.dtype == np.float16:
        kernel = kernel.view(np.uint16)  # numba has no float16: see `_widen`
    scale = model.get(f"{name}_kernel{SCALE}")
    return kernel, scale if scale is None else np.asarray(scale), np.asarray(model[f"{name}_bias"])


@compiled
def _fill_logits(rows, seed, hidden_layer, output_layer, logits):
    """The logits [n, B], zeros before, of CSR rows; they are not hashed if the seed is None."""
    splits, ids, values = rows
    kernel, scale, bias = hidden_layer
    (width, num_units), (num_queries, num_buckets) = kernel.shape, logits.shape
    active = np.empty((num_queries, num_units), np.int64)  # units above zero
    units = np.empty((num_queries, num_units), np.float32)  # and their values
    counts = np.empty(num_queries, np.int64)
    hidden = np.empty(num_units, np.float32)
    for q in range(num_queries):
        row = slice(splits[q], splits[q + 1])
        if seed is None:
            places, factors = ids[row].astype(np.int64), values[row]
        else:
            places, factors = hash_row(ids[row], values[row], seed, width)
        hidden[:] = 0
        _add_rows(kernel, places, factors, hidden, 0)
        _finish(scale, bias, hidden)
        positive = np.flatnonzero(hidden > 0)
        counts[q] = len(positive)
        active[q, : len(positive)] = positive
        units[q, : len(positive)] = hidden[positive]
    kernel, scale, bias = output_layer
    for first in range(0, num_buckets, COLUMNS):
        for q in range(num_queries):
            places, factors = active[q, : counts[q]], units[q, : counts[q]]
            _add_rows(kernel, places, factors, logits[q, first : first + COLUMNS], first)
    for q in range(num_queries):
        _finish(scale, bias, logits[q])


@compiled
def _finish(scale, bias, sums):
    for j in range(len(sums)):
        if scale is not None:
            sums[j] *= scale[j]
        sums[j] += bias[j]


@compiled
def _add_rows(kernel, rows, factors, sums, first):
    """sums += factors @ kernel[rows, first:], in the order of the rows, four in one go."""
    whole = len(rows) // 4 * 4
    columns = slice(first, first + len(sums))
    for i in range(0, whole, 4):
        a, b = kernel[rows[i]][columns], kernel[rows[i + 1]][columns]
        c, d = kernel[rows[i + 2]][columns], kernel[rows[i + 3]][columns]
        e, f, g, h = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        for j in range(len(sums)):
            two = sums[j] + e * _widen(a[j]) + f * _widen(b[j])
            sums[j] = two + g * _widen(c[j]) + h * _widen(d[j])
    for i in range(whole, len(rows)):
        factor, row = factors[i], kernel[rows[i]][columns]
        for j in range(len(sums)):
            sums[j] += factor * _widen(row[j])


def _widen(weight):
    """A stored weight as float32, without its scale."""


@overload(_widen)
def _widen_compiled(weight):
    if weight != types.uint16:
        return lambda weight: np.float32(weight)

    def widen(weight):
        """The bits of a finite float16: shifted, they are those of a float32 2**112 times less."""
        bits = np.uint32(weight)
        sign, rest = bits & np.uint32(0x8000), bits & np.uint32(0x7FFF)
        wide = np.uint32((sign << np.uint32(16)) | (rest << np.uint32(13)))
        return wide.view(np.float32) * np.float32(2.0**112)

    return widen


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
