"""Weights on disk: a folder of .npy files, which can be mapped, and a state.json beside them."""

import hashlib

import numpy as np

from solar_tf.errors import UserError
from solar_tf.rundir import read_json, write_json

FORMAT = 1
NAMES = ("hidden_kernel", "hidden_bias", "output_kernel", "output_bias")


class _HashedFile:
    """A file that hashes what is written to it."""

    def __init__(self, file):
        self.file, self.digest = file, hashlib.sha256()

    def write(self, data):
        self.digest.update(data)
        return self.file.write(data)


def save_weights(folder, weights, facts):
    """Write arrays by name, and `facts` with the arrays' checksums as state.json."""
    checksums = {}
    for name, weight in weights.items():
        with open(folder / f"{name}.npy", "wb") as file:
            hashed = _HashedFile(file)
            np.lib.format.write_array(hashed, weight, allow_pickle=False)
        checksums[name] = hashed.digest.hexdigest()
    write_json(folder / "state.json", {"format": FORMAT, **facts, "sha256": checksums})


def read_state(folder):
    """The facts that `save_weights` wrote."""
    state = read_json(folder / "state.json")
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(
            f"{folder}: no state.json of format {FORMAT}: delete the folder and run train.py again"
        )
    return state


def load_weights(folder, shapes, mapped=False):
    """Float32 arrays by name, each of the shape in `shapes`; mapped ones cost no memory."""
    weights = {}
    for name, shape in shapes.items():
        path = folder / f"{name}.npy"
        try:
            weight = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            _fail(path, f"cannot be read ({error})")
        if weight.shape != shape or weight.dtype != np.float32:
            _fail(path, f"{weight.dtype} {list(weight.shape)}, where float32 {list(shape)} belongs")
        weights[name] = weight
    return weights


def _fail(path, what):
    raise UserError(f"{path}: {what}: delete {path.parent} and run train.py again")


def weight_shapes(config, input_dim):
    """The shapes of a chunk's weights by name (§3.2)."""
    hidden, buckets = config.hidden_dim, config.num_buckets
    return dict(
        zip(NAMES, ((input_dim, hidden), (hidden,), (hidden, buckets), (buckets,)), strict=True)
    )
