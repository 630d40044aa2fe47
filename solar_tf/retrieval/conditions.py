"""Conditions on the attributes of labels, as people write them.

    section=web|net year>=1990 licence!=none name="two words"

All conditions must hold. `|` separates alternative values. Names and values with blanks or signs
stand in double quotes, where a backslash escapes the next character.
"""

import re
from typing import NamedTuple

from solar_tf.errors import UserError

SIGNS = ("=", "!=", "<", "<=", ">", ">=")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAME = rf'{_QUOTED}|[^\s"=!<>|]+'
_VALUE = rf'{_QUOTED}|[^\s"|]+'
_CONDITION = re.compile(
    rf"(?s:\s*({_NAME})\s*(!=|<=|>=|=|<|>)\s*((?:{_VALUE})(?:\s*\|\s*(?:{_VALUE}))*)(?=\s|$))"
)
_HOW = 'write name=value, name!=value or name>=number, with blanks between, such as a=b c="d e"'


class Condition(NamedTuple):
    """`name sign value|value`, with its text for messages."""

    text: str
    name: str
    sign: str
    values: tuple[str, ...]


def parse_conditions(text: str) -> list[Condition]:
    """The conditions in a text.

    >>> parse_conditions('section=web|"net tools"')[0].values
    ('web', 'net tools')
    """
    conditions, place = [], 0
    while place < len(text.rstrip()):
        match = _CONDITION.match(text, place)
        if not match:
            rest = text[place:].strip()
            raise UserError(f"{_short(rest)!r}: no condition: {_HOW}")
        name, sign, values = match.groups()
        wanted = tuple(_plain(value) for value in re.findall(_VALUE, values))
        conditions.append(Condition(_short(match[0].strip()), _plain(name), sign, wanted))
        place = match.end()
    return conditions


def _plain(word):
    return re.sub(r"(?s)\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def _short(text):
    return text if len(text) <= 60 else text[:57] + "..."
