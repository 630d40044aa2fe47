import dataclasses

import pytest

from solar_tf.reproduce import plan
from solar_tf.reproduce.costs import MEASURED_SECONDS, costs


@pytest.fixture
def quick(monkeypatch):
    from solar_tf.operations import measuring

    monkeypatch.setattr(measuring, "MEASURE_SECONDS", 0.01)


def test_runs_are_listed_with_time_and_disk_and_nothing_is_written(reproduced, quick, tmp_path):
    _, wish, config, dataset, _ = reproduced
    wish = dataclasses.replace(wish, tables=(2, 3), models=("solar", "parabel", "sleec"))
    runs = plan.plan(wish, config)
    table = costs(runs, plan.Folder(tmp_path / "new"), dataset, wish, 1)
    assert [row[0].split(",")[0] for row in table.rows] == [
        "main: SOLAR", "main: sleec", "main: parabel",
    ]  # fmt: skip
    assert table.rows[0][2].startswith("preprocess ")
    assert table.rows[0][3].endswith("B")
    seconds = MEASURED_SECONDS["sleec"] * 600 / 48_344
    assert table.rows[1][2] == f"fit {seconds:.1f} s"
    assert "rough" in table.rows[1][4]
    assert "Left out by --models" in table.notes[1]
    assert not (tmp_path / "new").exists()


def test_what_is_done_is_said_to_be(reproduced):
    folder, wish, config, dataset, _ = reproduced
    table = costs(plan.plan(wish, config), folder, dataset, wish, 1)
    assert {row[2] for row in table.rows} == {"done"}
