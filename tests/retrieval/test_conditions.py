"""Conditions as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solar_tf.errors import UserError
from solar_tf.retrieval.conditions import SIGNS, parse_conditions


def quoted(word):
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(st.tuples(st.text(), st.sampled_from(SIGNS), st.lists(st.text(), min_size=1))))
def test_whatever_is_quoted_comes_back(conditions):
    text = " ".join(
        quoted(name) + sign + "|".join(map(quoted, values)) for name, sign, values in conditions
    )
    found = [(name, sign, list(values)) for _, name, sign, values in parse_conditions(text)]
    assert found == conditions


@given(st.text(alphabet='ab"=!<>|\\ \n'))
def test_any_text_is_conditions_or_an_error(text):
    try:
        assert all(condition.sign in SIGNS for condition in parse_conditions(text))
    except UserError as error:
        assert "no condition" in str(error)


@pytest.mark.parametrize("text", ["a = b", "a= b", " a=b ", '"a"="b"'])
def test_blanks_and_quotes_do_not_matter(text):
    ((_, *condition),) = parse_conditions(text)
    assert condition == ["a", "=", ("b",)]


def test_an_address_is_a_value():
    assert parse_conditions("home=http://x.org/?a=b<c")[0].values == ("http://x.org/?a=b<c",)
