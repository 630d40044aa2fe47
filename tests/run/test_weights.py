import io
import json
import re

import numpy as np
import pytest
from conftest import flipped, taking_at_most

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run import checksums
from solar_tf.run.weights import (
    FORMAT,
    NAMES,
    load_weights,
    not_finite,
    read_state,
    row_blocks,
    save_weights,
    verify_weights,
    weight_shapes,
)

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


def test_arrays_are_written_some_rows_at_a_time_as_numpy_would(tmp_path, weights, monkeypatch):
    monkeypatch.setattr("solar_tf.run.weights.BLOCK_BYTES", 30)  # two rows of three numbers
    assert [len(block) for block in row_blocks(weights["hidden_kernel"])] == [2, 2]
    weights["hidden_kernel"] = np.asfortranarray(weights["hidden_kernel"])
    save_weights(tmp_path, weights, {})
    for name, weight in weights.items():
        expected = io.BytesIO()
        np.save(expected, np.ascontiguousarray(weight))
        assert (tmp_path / f"{name}.npy").read_bytes() == expected.getvalue(), name
    assert load_weights(tmp_path, SHAPES).keys() == weights.keys()  # and their checksums are right


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


def test_missing_and_truncated_weights_are_an_error(folder):
    path = folder / "output_bias.npy"
    content = path.read_bytes()
    path.unlink()
    assert_refused(folder, r"cannot be read \(.*\)")
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


def test_every_flipped_bit_is_found_before_the_weights_are_used(folder):
    path = folder / "output_bias.npy"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(UserError, match=r"output_bias\.npy: .* and run train\.py again"):
            load_weights(folder, SHAPES, mapped=bit % 2 == 0)


def test_weights_are_read_through_once_and_not_before_every_query(folder, monkeypatch):
    monkeypatch.setattr(checksums, "SETTLED", -1.0)
    load_weights(folder, SHAPES, mapped=True)
    monkeypatch.setattr(checksums, "file_facts", None)  # to read them again would fail
    load_weights(folder, SHAPES, mapped=True)
    with pytest.raises(TypeError):
        verify_weights(folder, SHAPES, remember=False)


def test_a_folder_that_cannot_be_written_to_is_verified_every_time(folder, monkeypatch):
    monkeypatch.setattr(checksums, "SETTLED", -1.0)
    (folder / checksums.VERIFIED).mkdir()  # as good as no permission, for root too
    for _ in range(2):
        load_weights(folder, SHAPES, mapped=True)


@pytest.mark.parametrize("checksums", [None, [], {}, {"output_bias": None}, {"output_bias": "ab"}])
def test_a_state_without_the_checksums_is_an_error(folder, checksums):
    state = json.loads((folder / "state.json").read_text())
    del state["checksum"]
    (folder / "state.json").write_text(json.dumps(state | {"sha256": checksums}))
    with pytest.raises(UserError, match=r"run train\.py again"):
        load_weights(folder, {"output_bias": (5,)})


def test_a_damaged_state_is_an_error(folder):
    path = folder / "state.json"
    path.write_text(path.read_text().replace('"step": 7', '"step": 9'))
    with pytest.raises(UserError, match=rf"state\.json: its checksum is wrong.*delete {folder}"):
        read_state(folder)


def test_other_files_of_the_folder_have_their_facts_in_the_state(tmp_path, weights):
    (tmp_path / "history.json").write_text("[]")
    save_weights(tmp_path, weights, {})
    assert read_state(tmp_path)["files"] == {
        "history.json": checksums.file_facts(tmp_path / "history.json")
    }


def test_a_header_that_lies_about_its_size_takes_no_memory(folder):
    with open(folder / "output_bias.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**33,)}
        np.lib.format.write_array_header_1_0(file, header)
    with taking_at_most(1_000_000):
        assert_refused(folder, r"cannot be read \(.*\)")


def test_pickled_objects_are_never_loaded(folder):
    np.save(folder / "output_bias.npy", np.array([{}] * 5, object), allow_pickle=True)
    assert_refused(folder, r"cannot be read \(.*\)")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_arrays_that_hold_no_numbers_are_named(weights, bad):
    largest = np.finfo(np.float32).max
    weights["hidden_kernel"][:] = largest  # no sum of numbers is taken for infinity
    assert not_finite(weights) == []
    weights["output_kernel"][2, 3] = bad
    weights["hidden_bias"][:2] = bad, -bad
    assert not_finite(weights) == ["hidden_bias", "output_kernel"]
