import dataclasses
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.config import CHOICES, PRESETS, SolarConfig, load_preset
from solar_tf.errors import UserError

FIELDS = {field.name: field for field in dataclasses.fields(SolarConfig)}
INTS = [name for name, field in FIELDS.items() if field.type is int]
FLOATS = [name for name, field in FIELDS.items() if field.type is float]
SHARES = ["dropout", "input_dropout"]
POSITIVE = [name for name in INTS + FLOATS if name not in [*SHARES, "grouped_share", "seed"]]

above_zero = st.floats(0, exclude_min=True, allow_infinity=False)
configs = st.builds(
    SolarConfig,
    **{name: st.integers(1, 2**31 - 1) for name in INTS},
    **{name: above_zero for name in FLOATS if name in POSITIVE},
    **{name: st.floats(0, 1, exclude_max=True) for name in SHARES},
    grouped_share=st.floats(0, 1),
    **{name: st.sampled_from(choices) for name, choices in CHOICES.items()},
)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_has_help_and_a_source_and_is_needed(name):
    facts = FIELDS[name].metadata
    assert len(facts["help"]) > 10
    assert re.fullmatch(r"ours|paper (§\d(\.\d)?|Table \d)", facts["source"])
    content = SolarConfig().to_dict()
    del content[name]
    with pytest.raises(UserError, match=rf"unknown or missing: {name}$"):
        SolarConfig.from_dict(content)


def test_an_unknown_key_is_an_error_that_names_it():
    with pytest.raises(UserError, match=r"unknown or missing: num_bukets$"):
        SolarConfig.from_dict(SolarConfig().to_dict() | {"num_bukets": 1})


@given(configs)
def test_json_round_trip_is_lossless(config):
    assert SolarConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SolarConfig().epochs = 3


def refused(name, values, why):
    for value in values:
        message = f"{name} must be {why}, not {value!r}"
        with pytest.raises(UserError, match=f"^{re.escape(message)}"):
            SolarConfig(**{name: value})


@pytest.mark.parametrize("name", INTS)
def test_whole_numbers_have_their_type_and_fit_the_int32_of_hashes_and_ids(name):
    refused(name, [None, "16", 16.0, True, [16]], "of type int")
    refused(name, [2**31], "below 2^31")
    assert getattr(SolarConfig(**{name: 2**31 - 1}), name) == 2**31 - 1


@pytest.mark.parametrize("name", FLOATS)
def test_fractions_have_their_type_and_are_finite(name):
    refused(name, [None, "0.5", True, 1j], "of type float")
    refused(name, [math.nan, math.inf, -math.inf], "a finite number")


def test_a_whole_number_serves_as_a_fraction():
    config = SolarConfig(feature_scale=3)
    assert type(config.feature_scale) is float
    assert config == SolarConfig(feature_scale=3.0)


@pytest.mark.parametrize("name", [*CHOICES])
def test_a_choice_is_one_of_those_listed_in_the_error(name):
    assert FIELDS[name].type is str
    for choice in CHOICES[name]:
        assert getattr(SolarConfig(**{name: choice}), name) == choice
    refused(name, ["x"], f"one of {', '.join(CHOICES[name])}")
    refused(name, [1], "of type str")


def test_numbers_are_within_their_range():
    assert {*FIELDS} == {*INTS, *FLOATS, *CHOICES}
    for name in POSITIVE:
        refused(name, [0, -1], "above 0")
    for name in SHARES:
        refused(name, [1, 1.5, -0.1], "at least 0 and below 1")
    refused("grouped_share", [-0.1, 1.1], "from 0 to 1")
    refused("seed", [-1], "at least 0")
    zeros = dict.fromkeys([*SHARES, "grouped_share", "seed"], 0)
    assert SolarConfig(**zeros).to_dict().items() >= zeros.items()


# Presets.

SIZES = ("num_chunks", "num_buckets", "feature_dim", "hidden_dim", "batch_size", "epochs")


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        (("books", "amazon3m"), [16, 30_000, 100_000, 4096, 1000, 10]),  # §5.1
        (("wiki500k", "amazon670k"), [32, 20_000]),  # §5.2
    ],
)
def test_presets_have_the_numbers_of_the_paper(names, sizes):
    for name in names:
        preset = load_preset(name)
        assert [getattr(preset, size) for size in SIZES[: len(sizes)]] == sizes


@pytest.mark.parametrize("name", ["books", "amazon3m", "wiki500k", "amazon670k", "debian_plain"])
def test_the_papers_network_is_plain(name):
    """Bag of words, nothing dropped, no schedule, bias from zero."""
    plain = {"weighting": "counts", "feature_scale": 1, "dropout": 0, "input_dropout": 0}
    plain |= {"decay": "none", "learning_rate": 1e-3, "bias_start": "zeros"}
    plain |= {"own_label": "leave", "min_count": 1}
    assert load_preset(name).to_dict().items() >= plain.items()


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
def test_changes_replace_single_values_are_checked_and_leave_the_preset_alone(name):
    before = dataclasses.asdict(PRESETS[name])
    changed = load_preset(name, epochs=77, dropout=0.25)
    assert dataclasses.asdict(changed) == before | {"epochs": 77, "dropout": 0.25}
    with pytest.raises(UserError, match="num_buckets"):
        load_preset(name, num_buckets=0)
    assert load_preset(name) == SolarConfig(**before)
