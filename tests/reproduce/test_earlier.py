"""Rows of another reproduction in the place of those that were not run."""

import dataclasses
import json

import pytest

from solar_tf.errors import UserError
from solar_tf.reproduce import output
from solar_tf.reproduce.earlier import read_earlier

SOURCE = "earlier: main @ abcdefg (Fast, 48 cores)"


@pytest.fixture
def earlier(reproduced, tmp_path):
    """Table 2 of another reproduction, which has SLICE, and other figures of SOLAR."""
    folder, wish, config, dataset, failed = reproduced
    wish = dataclasses.replace(wish, tables=(2,))
    (found,) = output.collect(folder, wish, config, dataset, None, failed)
    for row in found.content["rows"]:
        row |= {"values": {"P@1": 12.34}, "source": "main @ abcdefg"}
    found.content["machine"] |= {"cpu": "Fast", "cores": 48}
    (tmp_path / "table_2.json").write_text(json.dumps(found.content))
    return tmp_path


def collect(reproduced, earlier, paper_dataset=None):
    folder, wish, config, dataset, failed = reproduced
    wish = dataclasses.replace(wish, tables=(2,), earlier=read_earlier(earlier, dataset.name))
    (found,) = output.collect(folder, wish, config, dataset, paper_dataset, failed)
    return found


def test_only_what_was_not_run_comes_from_it(reproduced, earlier):
    rows = {row["model"]: row for row in collect(reproduced, earlier).content["rows"]}
    assert rows["SLICE"]["values"] == {"P@1": 12.34}
    assert rows["SLICE"]["status"] == "measured earlier"
    assert rows["SLICE"]["source"] == SOURCE
    assert rows["SLICE"]["paper"]["wiki500k"]["P@1"] == 59.89
    assert rows["SOLAR (full)"]["status"] == "measured here"
    assert rows["SOLAR (full)"]["values"]["P@1"] != 12.34


def test_the_table_says_where_it_comes_from(reproduced, earlier):
    text = collect(reproduced, earlier).tables[0].markdown()
    assert f"| {SOURCE} " in text
    assert "their times are of the machine that they name" in text


def test_a_row_is_marked_once_however_often_it_is_taken(reproduced, earlier):
    content = collect(reproduced, earlier).content
    (earlier / "table_2.json").write_text(json.dumps(content, default=str))
    again = {row["model"]: row for row in collect(reproduced, earlier).content["rows"]}
    assert again["SLICE"]["source"] == SOURCE


def test_it_is_judged_like_the_others(reproduced, earlier):
    rows = collect(reproduced, earlier, "wiki500k").content["rows"]
    (slice_row,) = [row for row in rows if row["model"] == "SLICE"]
    assert slice_row["verdicts"]["P@1"][0] == "differs"


def test_tables_of_other_data_are_refused(earlier):
    with pytest.raises(UserError, match="not of elsewhere: give tables of the same dataset"):
        read_earlier(earlier, "elsewhere")


@pytest.mark.parametrize("text", ["{", "[]", "{}", "3"])
def test_what_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "table_1.json").write_text(text)
    with pytest.raises(UserError, match="not a table of a reproduction"):
        read_earlier(tmp_path, "books")


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(UserError, match="no table_1.json"):
        read_earlier(tmp_path, "books")
