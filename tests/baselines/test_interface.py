import time
from dataclasses import dataclass

import numpy as np
import pytest

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.baselines.interface import Parts, Settings, in_threads, setting, spent_seconds
from solar_tf.errors import UserError


@dataclass(frozen=True)
class Example(Settings):
    count: int = setting(3, "ours", "a number above 0")
    share: float = setting(0.5, "ours", "may be 0", least=0)
    kind: str = setting("a", "ours", "a choice", choices=("a", "b"))


def test_settings_go_to_json_and_back():
    settings = Example(count=5, share=1)
    assert settings.share == 1.0 and isinstance(settings.share, float)
    assert Example.from_dict(settings.to_dict()) == settings
    assert Example(share=0.0).share == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count must be above 0"),
        ({"count": 2.5}, "count must be of type int"),
        ({"share": -0.1}, "share must be at least 0"),
        ({"share": float("nan")}, "share must be a finite number"),
        ({"kind": "c"}, "kind must be one of a, b"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"weighting": "none"}, "weighting must be one of"),
    ],
)
def test_wrong_settings_are_named(values, message):
    with pytest.raises(UserError, match=message):
        Example(**values)


def test_unknown_and_missing_settings_are_errors():
    with pytest.raises(UserError, match="unknown or missing: count, speed"):
        content = Example().to_dict() | {"speed": 1}
        del content["count"]
        Example.from_dict(content)


@pytest.mark.parametrize("name", BASELINES)
def test_every_setting_of_every_baseline_says_what_it_is_and_where_from(name):
    kind = baseline_class(name)
    assert kind.title
    settings = kind.Settings()
    assert kind.Settings.from_dict(settings.to_dict()) == settings
    for field in kind.Settings.__dataclass_fields__.values():
        assert field.metadata["help"] and field.metadata["source"]


def test_an_unknown_baseline_is_an_error_that_lists_the_known():
    with pytest.raises(UserError, match="parabel"):
        baseline_class("magic")


def test_parts_are_made_once_and_their_time_adds_up(tmp_path):
    made = []

    def make(i):
        made.append(i)
        time.sleep(0.01)
        return {"value": np.array([i])}

    def fit(count):
        parts = Parts(tmp_path)
        return [part["value"][0] for part in parts.ensemble(count, "tree", make)]

    assert fit(3) == [0, 1, 2]
    first = spent_seconds(tmp_path)
    assert first >= 0.01
    assert fit(5) == [0, 1, 2, 3, 4]  # as a killed process would leave it
    assert sorted(made) == [0, 1, 2, 3, 4]
    assert spent_seconds(tmp_path) > first


def test_a_part_that_fails_ends_the_fit(tmp_path):
    def make(i):
        if i == 1:
            raise ValueError("no such tree")
        return {"value": np.zeros(1)}

    with pytest.raises(ValueError, match="no such tree"):
        Parts(tmp_path).ensemble(4, "tree", make, threads=1)
    assert [path.name for path in tmp_path.glob("tree_*")] == ["tree_000.npz"]


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_slices_cover_all_rows_once(rows):
    slices = in_threads(lambda start, stop: list(range(start, stop)), rows, 3)
    assert [row for part in slices for row in part] == list(range(rows))
