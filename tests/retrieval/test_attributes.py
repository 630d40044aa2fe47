import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.retrieval.attributes import Attributes

TABLE = "section\tyear\nweb\t1990\nnet\t2000\r\nweb\t2010\nold|new\t2000\n"


@pytest.fixture
def attributes(tmp_path):
    (tmp_path / "a.tsv").write_text(TABLE)
    return Attributes.read(tmp_path / "a.tsv")


@pytest.mark.parametrize(
    ("conditions", "labels"),
    [
        ("", [0, 1, 2, 3]),
        ("section=web", [0, 2]),
        ("section!=web", [1, 3]),
        ("section=web|net year>=2000", [1, 2]),
        ("year=2000|1990", [0, 1, 3]),
        ("year<2000", [0]),
        ("year<=2000 year>1990", [1, 3]),
        ("year = 1990.0", [0]),
        ('section="old|new"', [3]),
        ('section=web|"old|new"', [0, 2, 3]),
        ('"section"="net"', [1]),
        ("year=1999", []),
        ('section=""', []),
        ('section!=""', [0, 1, 2, 3]),
    ],
)
def test_conditions(attributes, conditions, labels):
    assert np.flatnonzero(attributes.select(conditions)).tolist() == labels


def test_labels_without_a_value_meet_no_condition_but_that(tmp_path):
    (tmp_path / "a.tsv").write_text("section\tyear\nweb\t1990\n\t2000\nnet\t\n")
    attributes = Attributes.read(tmp_path / "a.tsv")
    for conditions, labels in (
        ("section!=web", [2]),
        ('section=""', [1]),
        ('section=web|""', [0, 1]),
        ('year=""', [2]),
        ("year<3000", [0, 1]),  # still numbers
        ("year!=1990", [1]),
    ):
        assert np.flatnonzero(attributes.select(conditions)).tolist() == labels
    assert attributes.of(1) == {"year": 2000} and attributes.of(2) == {"section": "net"}


def test_added_labels_can_have_attributes(attributes):
    row = attributes.row({"section": "sound", "year": 2020.5})
    later = attributes.extended(7, {1: {"section": "x"}, 5: row, 6: {"colour": "red"}})
    assert later.of(5) == {"section": "sound", "year": 2020.5}
    assert later.of(1) == {"section": "net", "year": 2000}  # what the file says counts
    assert np.flatnonzero(later.select("year>2010")).tolist() == [5]
    assert np.flatnonzero(later.select("colour=red")).tolist() == [6]
    assert np.flatnonzero(later.select('section=""')).tolist() == [4, 6]
    assert "sound" not in attributes.columns["section"].values
    assert attributes.row({"section": None, "year": ""}) == {}
    for given, message in (({"color": "red"}, "no such"), ({"year": "old"}, "not a number")):
        with pytest.raises(UserError, match=message):
            attributes.row(given)


def test_what_there_is_to_choose_from(attributes):
    section, year = attributes.describe(np.array([True, True, True, False]))
    assert section["values"] == [{"value": "web", "labels": 2}, {"value": "net", "labels": 1}]
    assert (section["kind"], section["labels"], section["distinct"]) == ("text", 3, 2)
    assert (year["kind"], year["least"], year["most"]) == ("number", 1990, 2010)


def test_arrays_of_all_kinds_are_columns():
    columns = {"b": [True, False], "f": [0.5, np.nan], "i": [1, 2], "s": ["x", None]}
    attributes = Attributes(columns)
    assert attributes.of(0) == {"b": 1, "f": 0.5, "i": 1, "s": "x"}
    assert attributes.of(1) == {"b": 0, "i": 2}


def test_the_answer_of_a_selection_can_be_changed(attributes):
    attributes.select("year>0")[:] = False
    assert attributes.select("year>0").all()


def test_later_labels_meet_no_condition(attributes):
    assert attributes.select("year>0", num_labels=6).tolist() == [True] * 4 + [False] * 2
    with pytest.raises(UserError, match="attributes of 4 labels, and there are 3"):
        attributes.select("year>0", num_labels=3)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ("colour=red", "no such attribute: choose of section, year"),
        ("section", "no condition"),
        ("section=", "no condition"),
        ("section=web and year>3", "'and year>3': no condition"),
        ("section=wbe", "'wbe': did you mean web"),
        ("section=web|nothing", "no label has the section 'nothing': choose of web, net, old"),
        ("section>3", "not all numbers"),
        ("year>=inf", "not a number to compare with"),
        ("year>old", "'old' is not a number"),
        ("year>1|2", "one number"),
    ],
)
def test_bad_conditions_say_what_is_wrong(attributes, conditions, message):
    with pytest.raises(UserError, match=message):
        attributes.select(conditions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n1\n", "t.tsv:2: 1 fields under a header of 2"),
        ("a\ta\n1\t2\n", "t.tsv:1: not a header of different names"),
        ("a\tb\n", "no labels in it"),
    ],
)
def test_bad_files_say_where(tmp_path, text, message):
    (tmp_path / "t.tsv").write_text(text)
    with pytest.raises(UserError, match=message):
        Attributes.read(tmp_path / "t.tsv")


def test_columns_must_be_of_one_length():
    with pytest.raises(UserError, match="same length"):
        Attributes({"a": [1, 2], "b": [1]})
