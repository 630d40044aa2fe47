"""config.json and summary.json, believed in nothing."""

import contextlib
import copy
import itertools
import json

import pytest
from conftest import flipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run.files import write_json
from solar_tf.run.manifest import FORMAT, read_config, read_summary
from solar_tf.run.paths import RunDirectory

FACTS = {"labels/counts.npy": [8, "ab" * 32]}
CONFIG = {
    "format": FORMAT,
    "solar_tf": "0.1.0",
    "dataset": {
        "name": "toy", "kind": "text", "num_features": 512, "num_labels": 9,
        "propensity": [0.55, 1.5], "files": {},
    },
    "seeds": [0, 1, 2],
    "config": SolarConfig(num_chunks=3).to_dict(),
    "files": FACTS,
}  # fmt: skip
SUMMARY = {
    "train": {"rows": 5, "shards": 1},
    "test": {"rows": 0, "shards": 0},
    "files": FACTS,
}
REMEDY = r"(restore it from a copy, or )?make a new run with preprocess\.py$"


@pytest.fixture
def paths(tmp_path):
    return RunDirectory(tmp_path)


def changed(content, place, value):
    """The content with another value at `place`, such as "dataset.kind"."""
    content = copy.deepcopy(content)
    *folders, name = place.split(".")
    inner = content
    for folder in folders:
        inner = inner[folder]
    inner[name] = value
    return content


def test_what_was_written_is_read(paths):
    write_json(paths.config, CONFIG)
    write_json(paths.summary, SUMMARY)
    content = read_config(paths)
    assert content["config"] == SolarConfig(num_chunks=3)
    assert content | {"config": CONFIG["config"]} == CONFIG
    assert read_summary(paths, FORMAT) == SUMMARY


def test_nothing_there_is_none(paths):
    assert read_config(paths) is None
    assert read_summary(paths, FORMAT) is None
    write_json(paths.config, None)
    assert read_config(paths) is None


@pytest.mark.parametrize("number", [FORMAT + 1, 0, None, "1", True, 1.0, [1]])
def test_another_format_number_is_an_error_with_a_remedy(paths, number):
    write_json(paths.config, CONFIG | {"format": number})
    with pytest.raises(
        UserError, match=r"config\.json: .* reads 1 and 2: make a new run with prep"
    ):
        read_config(paths)


@pytest.mark.parametrize("content", [[], 3, "text"])
def test_a_config_that_is_no_object_is_an_error(paths, content):
    write_json(paths.config, content)
    with pytest.raises(UserError, match=r"config\.json: no format number"):
        read_config(paths)


@pytest.mark.parametrize("key", ["config", "dataset", "seeds", "files"])
def test_a_missing_part_of_the_config_is_named(paths, key):
    write_json(paths.config, {name: value for name, value in CONFIG.items() if name != key})
    with pytest.raises(UserError, match=rf"config\.json: no {key} in it: {REMEDY}"):
        read_config(paths)


NONSENSE = [
    ("config", None),
    ("config", []),
    ("config", {"num_chunks": 3}),
    ("config.epochs", "10"),
    ("config.num_chunks", 2),
    ("config.num_chunks", 10**9),
    ("dataset", []),
    ("dataset.kind", "odd"),
    ("dataset.kind", ["text"]),
    ("dataset.name", 3),
    ("dataset.num_labels", 0),
    ("dataset.num_labels", 10**12),
    ("dataset.num_labels", True),
    ("dataset.num_features", 1.5),
    ("dataset.propensity", None),
    ("dataset.propensity", [1, 2, 3]),
    ("dataset.propensity", [1, float("nan")]),
    ("seeds", 3),
    ("seeds", [0, 1, "2"]),
    ("seeds", [0, 1, -1]),
    ("files", []),
    ("files", {"a": 3}),
    ("files", {"a": [3]}),
    ("files", {"a": [-3, "ab"]}),
    ("files", {"a": ["3", "ab"]}),
]


@pytest.mark.parametrize(("place", "value"), NONSENSE, ids=str)
def test_a_config_edited_into_nonsense_is_an_error(paths, place, value):
    write_json(paths.config, changed(CONFIG, place, value))
    with pytest.raises(UserError, match=rf"config\.json: .*: {REMEDY}"):
        read_config(paths)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("train", None),
        ("train", {"rows": 1}),
        ("train.rows", -1),
        ("test.shards", 10**9),
        ("test.shards", "1"),
        ("files", [1]),
        ("files", {"a": None}),
    ],
    ids=str,
)
def test_a_summary_edited_into_nonsense_is_an_error(paths, place, value):
    write_json(paths.summary, changed(SUMMARY, place, value))
    with pytest.raises(UserError, match=r"not the summary of a run: delete it and run preprocess"):
        read_summary(paths, FORMAT)


def test_a_summary_of_format_2_has_a_manifest_and_one_of_format_1_none(paths):
    write_json(paths.summary, {split: SUMMARY[split] for split in ("train", "test")})
    assert read_summary(paths, 1) == SUMMARY | {"files": {}}
    with pytest.raises(UserError, match="not the summary of a run"):
        read_summary(paths, 2)


def test_format_1_lacks_what_later_versions_added(paths):
    content = {name: value for name, value in CONFIG.items() if name != "files"} | {"format": 1}
    del content["config"]["bias_start"]
    paths.config.write_text(json.dumps(content))
    content["config"]["bias_start"] = SolarConfig().bias_start
    assert read_config(paths)["config"].bias_start == SolarConfig().bias_start


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_flipped_bits_and_cuts_are_an_error_or_harmless(paths, data):
    write_json(paths.config, CONFIG)
    whole = paths.config.read_bytes()
    expected = read_config(paths)
    bits = st.sets(st.integers(0, 8 * len(whole) - 1), min_size=1, max_size=3)
    if data.draw(st.booleans()):
        paths.config.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    else:
        paths.config.write_bytes(flipped(whole, *data.draw(bits)))
    try:
        found = read_config(paths)
    except UserError as error:
        assert str(error).startswith(f"{paths.config}: ")
    else:
        # Of what a flip can leave readable, only the key of the checksum is not covered by it.
        assert {name: found[name] for name in expected} == expected


def test_json_too_deep_for_its_reader_is_an_error(paths):
    paths.config.write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"config\.json: not valid JSON"):
        read_config(paths)


def test_any_value_anywhere_is_read_or_refused_with_a_clear_error(paths):
    values = [None, True, 0, -1, 2.5, 10**400, "text", [], {}, [1], {"a": 1}, float("inf")]
    places = [f"{part}.{name}" for part in ("dataset", "config") for name in CONFIG[part]]
    for place, value in itertools.product([*CONFIG, *places], values):
        write_json(paths.config, changed(CONFIG, place, value))
        with contextlib.suppress(UserError):
            read_config(paths)
    for place, value in itertools.product([*SUMMARY, "train.rows", "test.shards"], values):
        write_json(paths.summary, changed(SUMMARY, place, value))
        with contextlib.suppress(UserError):
            read_summary(paths, FORMAT)
