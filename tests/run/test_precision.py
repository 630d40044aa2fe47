import numpy as np
import pytest

from solar_tf.run import precision

GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.normal(size=(60, 5000)).astype(np.float32) * 10 ** GENERATOR.uniform(
    -3, 1, 5000
)
WEIGHTS = WEIGHTS.astype(np.float32)


@pytest.mark.parametrize(("kind", "error"), [("float32", 0), ("float16", 2**-11), ("int8", None)])
def test_restored_weights_are_near_the_true_ones(kind, error):
    stored = precision.quantize("w", WEIGHTS, kind)
    types = {name: (array.dtype, array.shape) for name, array in stored.items()}
    assert types == precision.stored_arrays({"w": WEIGHTS.shape}, kind)
    found = precision.restore(stored, "w")
    assert found.dtype == np.float32
    if error is None:  # half a step of the column's own scale
        bound = np.abs(WEIGHTS).max(axis=0) / precision.LARGEST * 0.5001
    else:
        bound = np.abs(WEIGHTS) * error + 2**-25 * (error > 0)
    assert (np.abs(found - WEIGHTS) <= bound).all()


def test_biases_stay_as_they_are():
    bias = WEIGHTS[0]
    for kind in precision.PRECISIONS:
        (stored,) = precision.quantize("bias", bias, kind).values()
        np.testing.assert_array_equal(stored, bias)


def test_extremes():
    weights = np.array([[0, 1e30, -1e-30], [0, -1e30, 1e-30]], np.float32)
    np.testing.assert_allclose(
        precision.restore(precision.quantize("w", weights, "int8"), "w"), weights, rtol=1e-6
    )
    assert np.isfinite(precision.quantize("w", weights, "float16")["w"]).all()
