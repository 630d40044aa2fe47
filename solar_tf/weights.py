"""Weights on disk: a folder of .npy files, which can be mapped, and a state.json beside them."""

import hashlib

import numpy as np

from solar_tf.errors import UserError
from solar_tf.rundir import read_json, write_json

FORMAT = 1
RUNTIME_BYTES = 0.7e9  # of TensorFlow and Python themselves
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


def count_parameters(config, input_dim):
    """Parameters of one chunk."""
    return sum(int(np.prod(shape)) for shape in weight_shapes(config, input_dim).values())


def training_bytes(config, input_dim, tokens=9.0):
    """Memory that a trainer of one chunk needs, given the mean number of tokens of a row."""
    wide = config.batch_size * config.num_buckets  # logits, probabilities, error and scratch
    gathered = config.batch_size * tokens * config.hidden_dim
    output = config.hidden_dim * config.num_buckets  # its gradient is dense
    floats = 3 * count_parameters(config, input_dim) + output + 4 * wide + 6 * gathered
    return RUNTIME_BYTES + 4 * floats
