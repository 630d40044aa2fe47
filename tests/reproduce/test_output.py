import dataclasses
import re
import shutil

import pytest
from conftest import SMALL, run_solar

from solar_tf.reproduce import output, plan
from solar_tf.run.files import read_json


@pytest.fixture(scope="module")
def written(reproduced, tmp_path_factory):
    copy = plan.Folder(tmp_path_factory.mktemp("written") / "out")
    shutil.copytree(reproduced.folder.root, copy.root)
    outcomes = dataclasses.replace(reproduced, folder=copy).collect()
    output.write(outcomes, copy, reproduced.dataset)
    return copy, outcomes


def test_every_table_is_written_in_every_form(written):
    folder, outcomes = written
    assert [outcome.number for outcome in outcomes] == list(plan.TABLES)
    for number in plan.TABLES:
        assert read_json(folder.table(number, "json"))["table"] == number
        assert f"Table {number} (" in folder.table(number, "md").read_text()
        latex = folder.table(number, "tex").read_text()
        assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") > 0


def test_json_says_of_cells_where_they_come_from(written):
    content = read_json(written[0].table(2, "json"))
    assert content["labels_of_cells"] == {"values": "measured here", "paper": "quoted"}
    rows = {row["model"]: row for row in content["rows"]}
    assert rows["SOLAR (full)"]["source"].startswith("main @ ")
    assert rows["SLICE"]["status"] == "not run"
    assert rows["SLICE"]["paper"]["wiki500k"]["P@1"] == 59.89


def test_a_table_names_the_settings_that_are_not_the_papers_or_the_presets(reproduced):
    first, second, *_ = reproduced.collect(models=plan.MODELS, preset="debian")
    (note,) = [note for note in first.tables[0].notes if note.startswith("SOLAR with preset")]
    assert f"hidden_dim={reproduced.config.hidden_dim}, " in note and "optimizer" not in note
    assert first.content["settings"] == reproduced.config.to_dict()
    note = "DSSM, GLaS, SNRM with the settings of their preset debian"
    assert any(text.startswith(note) for text in first.tables[0].notes)
    assert not any("their preset" in text for text in second.tables[0].notes)


def test_the_page_has_all_tables_and_no_outside_asset(written):
    text = written[0].report.read_text()
    assert [f"Table {n}" in text for n in plan.TABLES] == [True] * 5
    assert not re.search(r"https?://|<script|<link|<img", text)
    assert text.count("<svg") == 5  # three of the ablation, two of the methods


def test_verdicts_need_the_papers_dataset(reproduced):
    first, *_ = reproduced.collect("books")
    assert first.tables[0].header[-1] == "verdict"
    row = next(row for row in first.content["rows"] if row["model"] == "SOLAR (m=100)")
    assert row["verdicts"]["P@1"][0] in ("matches", "differs")
    table_4 = reproduced.collect("amazon670k")[3]
    assert "verdict" not in table_4.tables[0].header  # K=4 is not the paper's 32


def test_the_command_reproduces_a_table_and_goes_on_where_it_stopped(titles, tmp_path):
    sizes = SMALL | {"num_chunks": 1, "epochs": 1}
    command = ["reproduce", "--table", "2", "--models", "solar", "--out", tmp_path / "out"]
    command += ["--name", "planted", "--workers", 1]
    command += [f"--{role}={titles / role}.txt" for role in ("train", "test", "labels")]
    command += [f"--{name}={value}" for name, value in sizes.items()]
    first = run_solar(*command)
    assert first.returncode == 0, first.stderr
    assert "Table 2 (§5.2) on planted" in first.stdout
    assert "chunk 0: loss" in first.stdout
    assert (tmp_path / "out" / "main" / "report.html").exists()
    shutil.rmtree(tmp_path / "out" / "tables")
    again = run_solar(*command)
    assert "chunk 0: loss" not in again.stdout
    assert first.stdout.split("Table 2 (")[1] == again.stdout.split("Table 2 (")[1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--paper_dataset", "netflix"], "--paper_dataset netflix: choose of books"),
        (["--table", "7"], "--table 7: choose of 1, 2"),
        (["--dataset", "books"], "dataset books: the authors curated it"),
    ],
)
def test_wrong_wishes_end_with_one_line(tmp_path, flags, message):
    done = run_solar("reproduce", "--out", tmp_path, *flags)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
