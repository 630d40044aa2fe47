from solar_tf.operations import measuring
from solar_tf.reproduce import plan
from solar_tf.reproduce.costs import MEASURED_SECONDS, costs


def test_runs_are_listed_with_time_and_disk_and_nothing_is_written(
    reproduced, monkeypatch, tmp_path
):
    monkeypatch.setattr(measuring, "MEASURE_SECONDS", 0.01)
    made = reproduced.wishing(tables=(2, 3), models=("solar", "parabel", "sleec"))
    table = costs(made.runs(), plan.Folder(tmp_path / "new"), made.dataset, made.wish, 1)
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
    made = reproduced
    table = costs(made.runs(), made.folder, made.dataset, made.wish, 1)
    assert {row[2] for row in table.rows} == {"done"}
