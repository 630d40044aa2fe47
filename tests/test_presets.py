import dataclasses

import pytest

from solar_tf.config import PRESETS, SolarConfig, load_preset
from solar_tf.errors import UserError

SIZES = ("num_chunks", "num_buckets", "feature_dim", "hidden_dim", "batch_size", "epochs")


@pytest.mark.parametrize("name", ["books", "amazon3m"])
def test_books_and_amazon3m_have_the_numbers_of_section_5_1(name):
    preset = load_preset(name)
    assert [getattr(preset, size) for size in SIZES] == [16, 30_000, 100_000, 4096, 1000, 10]
    assert preset.num_chunks * preset.num_buckets == 480_000  # D


@pytest.mark.parametrize("name", ["wiki500k", "amazon670k"])
def test_dense_datasets_have_the_numbers_of_section_5_2(name):
    preset = load_preset(name)
    assert (preset.num_chunks, preset.num_buckets) == (32, 20_000)
    assert preset.num_chunks * preset.num_buckets == 640_000  # D


@pytest.mark.parametrize("name", ["books", "amazon3m", "wiki500k", "amazon670k", "debian_plain"])
def test_the_papers_network_is_plain(name):
    """Bag of words, nothing dropped, no schedule, bias from zero."""
    preset = load_preset(name)
    assert preset.weighting == "counts"
    assert preset.feature_scale == 1
    assert preset.dropout == preset.input_dropout == 0
    assert preset.decay == "none"
    assert preset.learning_rate == 1e-3
    assert preset.bias_start == "zeros"
    assert preset.own_label == "leave"
    assert preset.min_count == 1


def test_debian_plain_is_of_debians_size():
    plain, debian = load_preset("debian_plain"), load_preset("debian")
    assert plain != debian
    assert [getattr(plain, size) for size in SIZES] == [getattr(debian, size) for size in SIZES]


def test_an_unknown_preset_is_an_error_that_lists_those_there_are():
    with pytest.raises(UserError) as caught:
        load_preset("book")
    assert "'book'" in str(caught.value)
    assert all(name in str(caught.value) for name in PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_changes_replace_single_values_and_leave_the_preset_alone(name):
    before = dataclasses.asdict(PRESETS[name])
    changed = load_preset(name, epochs=77, dropout=0.25)
    assert dataclasses.asdict(changed) == before | {"epochs": 77, "dropout": 0.25}
    assert load_preset(name) == SolarConfig(**before)


def test_changes_are_validated():
    with pytest.raises(UserError, match="num_buckets"):
        load_preset("books", num_buckets=0)
