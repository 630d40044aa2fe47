import re

import numpy as np
import pytest

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.weights import FORMAT, NAMES, load_weights, read_state, save_weights, weight_shapes

SHAPES = weight_shapes(SolarConfig(hidden_dim=3, num_buckets=5), 4)


@pytest.fixture
def weights():
    generator = np.random.default_rng(0)
    return {name: generator.random(shape, np.float32) for name, shape in SHAPES.items()}


@pytest.fixture
def folder(tmp_path, weights):
    save_weights(tmp_path, weights, {"step": 7})
    return tmp_path


def test_shapes_are_those_of_one_hidden_layer():
    assert [*SHAPES.items()] == [*zip(NAMES, [(4, 3), (3,), (3, 5), (5,)], strict=True)]


@pytest.mark.parametrize("mapped", [False, True])
def test_weights_and_facts_round_trip(folder, weights, mapped):
    loaded = load_weights(folder, SHAPES, mapped)
    assert loaded.keys() == weights.keys()
    for name, weight in loaded.items():
        np.testing.assert_array_equal(weight, weights[name], strict=True)
        assert isinstance(weight, np.memmap) == mapped
    assert read_state(folder)["step"] == 7


def test_no_more_is_loaded_than_was_asked_for(folder):
    assert load_weights(folder, {"hidden_bias": (3,)}).keys() == {"hidden_bias"}


def assert_refused(folder, complaint):
    """An error with the file, what is wrong with it and the remedy."""
    path = folder / "output_bias.npy"
    with pytest.raises(UserError) as caught:
        load_weights(folder, SHAPES)
    remedy = f"delete {folder} and run train.py again"
    assert re.fullmatch(
        rf"{re.escape(str(path))}: {complaint}: {re.escape(remedy)}", str(caught.value)
    )


def test_missing_weights_are_an_error(folder):
    (folder / "output_bias.npy").unlink()
    assert_refused(folder, r"cannot be read \(.*\)")


def test_truncated_weights_are_an_error_wherever_they_end(folder):
    path = folder / "output_bias.npy"
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        assert_refused(folder, r"cannot be read \(.*\)")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_another_shape_or_type_are_an_error(folder, dtype):
    np.save(folder / "output_bias.npy", np.zeros(6 if dtype == "float32" else 5, dtype))
    assert_refused(folder, rf"{dtype} \[\d\], where float32 \[5\] belongs")


@pytest.mark.parametrize("content", [None, "[]", "{}", f'{{"format": {FORMAT + 1}}}'])
def test_a_folder_without_a_state_of_this_format_is_an_error(folder, content):
    (folder / "state.json").unlink()
    if content:
        (folder / "state.json").write_text(content)
    with pytest.raises(UserError, match=rf"no state\.json of format {FORMAT}.*run train\.py again"):
        read_state(folder)
