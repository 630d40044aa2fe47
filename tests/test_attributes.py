import numpy as np
import pytest

from solar_tf.attributes import Attributes
from solar_tf.errors import UserError

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
        ("section=", []),
    ],
)
def test_conditions(attributes, conditions, labels):
    assert np.flatnonzero(attributes.select(conditions)).tolist() == labels


def test_later_labels_meet_no_condition(attributes):
    assert attributes.select("year>0", num_labels=6).tolist() == [True] * 4 + [False] * 2
    with pytest.raises(UserError, match="attributes of 4 labels, and there are 3"):
        attributes.select("year>0", num_labels=3)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ("colour=red", "no such attribute: choose of section, year"),
        ("section", "no condition"),
        ("section>3", "not all numbers"),
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
