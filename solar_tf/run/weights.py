"""Weights on disk: a folder of .npy files, which can be mapped, and a state.json beside them."""

import math

import numpy as np

from solar_tf.errors import UserError
from solar_tf.run import precision
from solar_tf.run.checksums import HashedFile, file_facts, verify
from solar_tf.run.files import read_json, write_json

FORMAT = 1
BLOCK_BYTES = 1 << 26  # of an array that are read at a time to be written
NAMES = ("hidden_kernel", "hidden_bias", "output_kernel", "output_bias")


def row_blocks(weight):
    """The rows of an array, some at a time; also of a `model.Rows`, a variable that reads so."""
    row = weight.dtype.itemsize * math.prod(weight.shape[1:])
    step = max(1, BLOCK_BYTES // row)
    for start in range(0, len(weight), step):
        yield weight[start : start + step]


def save_weights(folder, weights, state):
    """Write arrays by name, and `state` with the checksums of all files there as state.json."""
    others = {path.name: file_facts(path) for path in sorted(folder.iterdir())}
    checksums = {}
    for name, weight in weights.items():
        with open(folder / f"{name}.npy", "wb") as file:
            hashed = HashedFile(file)
            descr = np.lib.format.dtype_to_descr(weight.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": tuple(weight.shape)}
            np.lib.format.write_array_header_1_0(hashed, header)
            for block in row_blocks(weight):
                hashed.write(np.ascontiguousarray(block).data)
        checksums[name] = hashed.digest.hexdigest()
    state = {"format": FORMAT, **state, "sha256": checksums, "files": others}
    write_json(folder / "state.json", state)


def read_state(folder):
    """The state that `save_weights` wrote."""
    state = read_json(folder / "state.json", _remedy(folder))
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{folder}: no state.json of format {FORMAT}: {_remedy(folder)}")
    return state


def load_weights(folder, shapes, mapped=False, remember=True):
    """Float32 arrays by name, each of the shape in `shapes`; mapped ones cost no memory.

    They are verified first, unless they are remembered as verified.
    """
    stored = load_stored(folder, shapes, remember)
    weights = {name: precision.restore(stored, name) for name in shapes}
    return weights if mapped else {name: np.array(weight) for name, weight in weights.items()}


def load_stored(folder, shapes, remember=True, verified=True):
    """Mapped arrays as they are stored: in any precision, with the scales of int8.

    Pass verified=False to start at once; call `verify_weights` later.
    """
    kind = read_state(folder).get("precision", "float32")
    if kind not in precision.PRECISIONS:
        _fail(folder / "state.json", f"weights of an unknown precision, {kind!r:.40}")
    weights = {}
    for name, (dtype, shape) in precision.stored_arrays(shapes, kind).items():
        path = folder / f"{name}.npy"
        try:
            # Mapping takes no memory for a size that the file does not have. Maps are
            # copy-on-write, since TensorFlow borrows no read-only arrays.
            weight = np.load(path, mmap_mode="c", allow_pickle=False)
        except Exception as error:  # a damaged header makes numpy raise anything
            _fail(path, f"cannot be read ({error})")
        if weight.shape != shape or weight.dtype != dtype:
            _fail(path, f"{weight.dtype} {list(weight.shape)}, where {dtype} {list(shape)} belongs")
        weights[name] = weight
    if verified:
        verify_weights(folder, weights, remember)
    return weights


def verify_weights(folder, names, remember=True):
    """Compare the files of the arrays with their checksums in state.json."""
    checksums = read_state(folder).get("sha256")
    if not isinstance(checksums, dict) or not checksums.keys() >= {*names}:
        _fail(folder / "state.json", "no checksums in it")
    files = {f"{name}.npy": (None, checksums[name]) for name in names}
    verify(folder, files, _remedy(folder), remember)


def not_finite(weights):
    """The names of the arrays that hold NaN or Inf."""
    # A float64 sum of float32 values cannot overflow, and keeps every infinity.
    with np.errstate(invalid="ignore"):
        sums = {
            name: sum(np.sum(block, dtype=np.float64) for block in row_blocks(weight))
            for name, weight in weights.items()
        }
    return [name for name, total in sums.items() if not np.isfinite(total)]


def _remedy(folder):
    return f"delete {folder} and run train.py again"


def _fail(path, what):
    raise UserError(f"{path}: {what}: {_remedy(path.parent)}")


def weight_shapes(config, input_dim):
    """The shapes of a chunk's weights by name (§3.2)."""
    hidden, buckets = config.hidden_dim, config.num_buckets
    return dict(
        zip(NAMES, ((input_dim, hidden), (hidden,), (hidden, buckets), (buckets,)), strict=True)
    )


def count_parameters(config, input_dim):
    """Parameters of one chunk."""
    return sum(int(np.prod(shape)) for shape in weight_shapes(config, input_dim).values())
