"""Rows of another reproduction in the place of those that were not run."""

import json

import pytest

from solar_tf.errors import UserError
from solar_tf.reproduce.earlier import read_earlier

SOURCE = "earlier: main @ abcdefg (Fast, 48 cores)"


@pytest.fixture
def earlier(reproduced, tmp_path):
    """Table 2 of another reproduction, which has SLICE, and other figures of SOLAR."""
    (found,) = reproduced.collect(tables=(2,))
    for row in found.content["rows"]:
        row |= {"values": {"P@1": 12.34}, "source": "main @ abcdefg"}
    found.content["machine"] |= {"cpu": "Fast", "cores": 48}
    (tmp_path / "table_2.json").write_text(json.dumps(found.content))
    return tmp_path


def collect(reproduced, earlier, paper_dataset=None):
    """The Outcome, and its rows by model."""
    tables = read_earlier(earlier, reproduced.dataset.name)
    (found,) = reproduced.collect(paper_dataset, tables=(2,), earlier=tables)
    return found, {row["model"]: row for row in found.content["rows"]}


def test_only_what_was_not_run_comes_from_it_and_the_table_says_so(reproduced, earlier):
    found, rows = collect(reproduced, earlier)
    assert rows["SLICE"]["values"] == {"P@1": 12.34}
    assert rows["SLICE"]["status"] == "measured earlier"
    assert rows["SLICE"]["source"] == SOURCE
    assert rows["SLICE"]["paper"]["wiki500k"]["P@1"] == 59.89
    assert rows["SOLAR (full)"]["status"] == "measured here"
    assert rows["SOLAR (full)"]["values"]["P@1"] != 12.34
    text = found.tables[0].markdown()
    assert f"| {SOURCE} " in text
    assert "their times are of the machine that they name" in text


def test_a_row_is_marked_once_however_often_it_is_taken(reproduced, earlier):
    content = collect(reproduced, earlier)[0].content
    (earlier / "table_2.json").write_text(json.dumps(content, default=str))
    assert collect(reproduced, earlier)[1]["SLICE"]["source"] == SOURCE


def test_it_is_judged_like_the_others(reproduced, earlier):
    _, rows = collect(reproduced, earlier, "wiki500k")
    assert rows["SLICE"]["verdicts"]["P@1"][0] == "differs"


def test_tables_of_other_data_are_refused(earlier):
    with pytest.raises(UserError, match="not of elsewhere: give tables of the same dataset"):
        read_earlier(earlier, "elsewhere")


@pytest.mark.parametrize("text", ["{", "[]", "{}", "3"])
def test_what_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "table_1.json").write_text(text)
    with pytest.raises(UserError, match="not a table of a reproduction"):
        read_earlier(tmp_path, "books")
    (tmp_path / "table_1.json").unlink()
    with pytest.raises(UserError, match="no table_1.json"):
        read_earlier(tmp_path, "books")
