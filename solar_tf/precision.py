"""Weights in fewer bits: float16, or int8 with a scale for each column.

A column of the input layer is a hidden unit, one of the output layer a bucket: an int8 weight w
of column j stands for w * scale[j], where the largest of the column is 127. Biases stay float32.
"""

import numpy as np

PRECISIONS = ("float32", "float16", "int8")
SCALE = "_scale"  # after the name of an int8 array: the name of its scales
LARGEST = 127
COLUMNS = 4096  # widened to float32 at a time


def quantize(name, weight, precision):
    """An array of weights as it is stored: arrays by name."""
    if precision == "float32" or weight.ndim < 2:
        return {name: np.asarray(weight, np.float32)}
    if precision == "float16":
        largest = np.finfo(np.float16).max
        return {name: np.clip(weight, -largest, largest).astype(np.float16)}
    largest = np.abs(weight).max(axis=0)
    scale = (np.where(largest > 0, largest, 1) / LARGEST).astype(np.float32)
    return {name: np.rint(weight / scale).astype(np.int8), name + SCALE: scale}


def stored_arrays(shapes, precision):
    """The types and shapes of a model's arrays as they are stored, by name."""
    arrays = {}
    for name, shape in shapes.items():
        wide = precision == "float32" or len(shape) < 2
        arrays[name] = np.dtype(np.float32 if wide else precision), shape
        if precision == "int8" and not wide:
            arrays[name + SCALE] = np.dtype(np.float32), shape[1:]
    return arrays


def restore(model, name):
    """The whole float32 array of stored weights."""
    return _scaled(model, name, model[name].astype(np.float32, copy=False))


def _scaled(model, name, values, columns=slice(None)):
    scale = model.get(name + SCALE)
    return values if scale is None else values * scale[columns]


def multiply_rows(model, name, inputs):
    """inputs @ weights, [n, columns] float32, for CSR inputs that touch a few rows of them."""
    kernel = model[name]
    if kernel.dtype == np.float32:
        return inputs @ kernel
    touched, places = np.unique(inputs.indices, return_inverse=True)
    shape = inputs.shape[0], len(touched)
    few = type(inputs)((inputs.data, places, inputs.indptr), shape=shape)
    return _scaled(model, name, few @ kernel[touched].astype(np.float32))


def multiply(model, name, inputs):
    """inputs @ weights, [n, columns] float32, for dense inputs."""
    kernel = model[name]
    if kernel.dtype == np.float32:
        return inputs @ kernel
    product = np.empty((len(inputs), kernel.shape[1]), np.float32)
    for start in range(0, kernel.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        part = inputs @ kernel[:, columns].astype(np.float32)
        product[:, columns] = _scaled(model, name, part, columns)
    return product


def multiply_active(model, name, units):
    """units [rows] @ weights, of which only the rows of units that are not 0 are read."""
    active = np.flatnonzero(units)
    rows = model[name][active].astype(np.float32, copy=False)
    return _scaled(model, name, units[active] @ rows)
