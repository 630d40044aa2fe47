import dataclasses
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.config import CHOICES, SolarConfig
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


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_every_field_has_help_and_a_source(field):
    assert len(field.metadata["help"]) > 10
    assert re.fullmatch(r"ours|paper (§\d(\.\d)?|Table \d)", field.metadata["source"])


def test_every_field_of_text_has_choices():
    assert [name for name, field in FIELDS.items() if field.type is str] == list(CHOICES)


@given(configs)
def test_json_round_trip_is_lossless(config):
    assert SolarConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SolarConfig().epochs = 3


def test_an_unknown_key_is_an_error_that_names_it():
    with pytest.raises(UserError, match=r"unknown or missing: num_bukets$"):
        SolarConfig.from_dict(SolarConfig().to_dict() | {"num_bukets": 1})


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_key_is_an_error_that_names_it(name):
    content = SolarConfig().to_dict()
    del content[name]
    with pytest.raises(UserError, match=rf"unknown or missing: {name}$"):
        SolarConfig.from_dict(content)


@pytest.mark.parametrize("value", [None, "16", 16.0, True, [16]])
@pytest.mark.parametrize("name", INTS)
def test_a_whole_number_of_another_type_is_refused(name, value):
    with pytest.raises(
        UserError, match=rf"^{name} must be of type int, not {re.escape(repr(value))}$"
    ):
        SolarConfig(**{name: value})


@pytest.mark.parametrize("value", [None, "0.5", True, 1j])
@pytest.mark.parametrize("name", FLOATS)
def test_a_fraction_of_another_type_is_refused(name, value):
    with pytest.raises(UserError, match=rf"^{name} must be of type float"):
        SolarConfig(**{name: value})


@pytest.mark.parametrize("name", [*CHOICES])
def test_a_choice_is_one_of_those_listed_in_the_error(name):
    for choice in CHOICES[name]:
        assert getattr(SolarConfig(**{name: choice}), name) == choice
    with pytest.raises(
        UserError, match=rf"^{name} must be one of {', '.join(CHOICES[name])}, not 'x'$"
    ):
        SolarConfig(**{name: "x"})
    with pytest.raises(UserError, match=f"^{name} must be of type str"):
        SolarConfig(**{name: 1})


def test_a_whole_number_serves_as_a_fraction():
    config = SolarConfig(feature_scale=3)
    assert type(config.feature_scale) is float
    assert config == SolarConfig(feature_scale=3.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", FLOATS)
def test_numbers_that_are_not_finite_are_refused(name, value):
    with pytest.raises(UserError, match=rf"^{name} must be a finite number, not {value}$"):
        SolarConfig(**{name: value})


@pytest.mark.parametrize("name", POSITIVE)
def test_sizes_and_rates_are_above_zero(name):
    for value in (0, -1):
        with pytest.raises(UserError, match=rf"^{name} must be above 0, not {value}"):
            SolarConfig(**{name: value})


@pytest.mark.parametrize("name", SHARES)
def test_dropout_is_a_share_below_one(name):
    assert getattr(SolarConfig(**{name: 0}), name) == 0
    for value in (1, 1.5, -0.1):
        with pytest.raises(UserError, match=rf"^{name} must be at least 0 and below 1"):
            SolarConfig(**{name: value})


@pytest.mark.parametrize("name", INTS)
def test_whole_numbers_fit_the_int32_of_hashes_and_ids(name):
    assert getattr(SolarConfig(**{name: 2**31 - 1}), name) == 2**31 - 1
    with pytest.raises(UserError, match=rf"^{name} must be below 2\^31"):
        SolarConfig(**{name: 2**31})


def test_a_seed_may_be_zero_but_not_negative():
    assert SolarConfig(seed=0).seed == 0
    with pytest.raises(UserError, match=r"^seed must be at least 0"):
        SolarConfig(seed=-1)
