"""Weights in fewer bits: float16, or int8 with a scale for each column.

An int8 weight w of column j stands for w * scale[j]; the largest of a column is 127. A column of
the input layer is a hidden unit, one of the output layer a bucket. Biases stay float32.
"""

import numpy as np

PRECISIONS = ("float32", "float16", "int8")
SCALE = "_scale"  # after the name of an int8 array: the name of its scales
LARGEST = 127


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
    return scaled(model, name, model[name].astype(np.float32, copy=False))


def scaled(model, name, values, columns=slice(None)):
    """Values [..., columns] of int8 weights times their scales; of other weights unchanged."""
    scale = model.get(name + SCALE)
    return values if scale is None else values * scale[columns]
