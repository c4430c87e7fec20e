"""The manual of the language says what the code does."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from roost.language import (
    ParseError,
    parse_advertisement,
    parse_event,
    parse_filter,
    parse_subscription,
)
from roost.language.cursor import TEXT_LENGTH_MAX
from roost.language.event import ATTRIBUTES_MAX
from roost.language.filter import FILTERS_MAX, PREDICATES_MAX
from roost.language.literals import RESERVED
from roost.language.predicate import MEMBERS_MAX, Operator
from roost.language.readable import NESTING_MAX
from roost.language.values import CONSTANT_LENGTH_MAX, NAME_LENGTH_MAX, STRING_LENGTH_MAX

MANUAL = Path(__file__).parents[2] / "docs" / "LANGUAGE.md"
TEXT = MANUAL.read_text(encoding="utf-8")

PARSERS: dict[str, Callable[[str], object]] = {
    "filter": parse_filter,
    "subscription": parse_subscription,
    "advertisement": parse_advertisement,
    "event": parse_event,
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("language", "line"),
    [(name, line) for name in PARSERS for block in blocks(name) for line in block.splitlines()],
)
def test_examples_parse(language: str, line: str) -> None:
    PARSERS[language](line)


def test_there_are_examples_of_everything() -> None:
    assert {name: bool(blocks(name)) for name in PARSERS} == dict.fromkeys(PARSERS, True)
    assert all(language in {*PARSERS, "python", "ebnf", "error"} for language in fences())


def fences() -> list[str]:
    return [found for found in re.findall(r"^```(.*)$", TEXT, re.MULTILINE) if found]


def test_sessions_run() -> None:
    failed, attempted = doctest.testfile(str(MANUAL), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert attempted > 20


def test_operators() -> None:
    """Both spellings of a row of the table say the same, and every operator has a row."""
    rows = re.findall(r"^\| `(\S+)` \| [^|]+ \| `([^`]+)` \| `([^`]+)` \|$", TEXT, re.MULTILINE)
    assert {operator for operator, _, _ in rows} == {operator.value for operator in Operator}
    for operator, readable, bracket in rows:
        assert parse_filter(readable) == parse_filter(bracket)
        assert parse_filter(readable).predicates[0].operator.value == operator


def test_reserved_words() -> None:
    listed = TEXT.split("expects a name:")[1].split(".\n")[0]
    assert {word.lower() for word in re.findall(r"`([^`]+)`", listed)} == RESERVED


def test_limits() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([0-9,]+) \|$", TEXT.split("## Limits")[1], re.MULTILINE)
    assert [int(row.replace(",", "")) for row in rows] == [
        TEXT_LENGTH_MAX,
        NAME_LENGTH_MAX,
        STRING_LENGTH_MAX,
        CONSTANT_LENGTH_MAX,
        MEMBERS_MAX,
        PREDICATES_MAX,
        FILTERS_MAX,
        ATTRIBUTES_MAX,
        NESTING_MAX,
    ]


def test_the_error() -> None:
    (shown,) = blocks("error")
    culprit = shown.splitlines()[1].strip()
    assert f"`{culprit}` gives" in TEXT
    with pytest.raises(ParseError) as refused:
        parse_filter(culprit)
    assert str(refused.value) == shown.rstrip("\n")
