"""What lines of CSV and JSON say, and what is said of those that are neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.language.lines import LineError, cell_as, cell_kind, csv_rows, json_object


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("0012", 12),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("FALSE", False),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1_000", "1_000"),
        ("1,000", "1,000"),
        ("0x10", "0x10"),
        (" 1", " 1"),
        ("\u0661", "\u0661"),  # a digit, elsewhere
        ("'a'", "'a'"),
    ],
)
def test_what_a_cell_says(cell: str, value: object) -> None:
    typed = cell_as(cell, cell_kind(cell))
    assert (typed, type(typed)) == (value, type(value))


def test_a_row_of_several_lines_is_where_it_ends() -> None:
    assert list(csv_rows(["a,b\n", "\n", '1,"2\n', '3"\n'])) == [
        (0, ["a", "b"]),
        (3, ["1", "2\n3"]),
    ]
    with pytest.raises(LineError, match="not CSV: ") as refused:
        list(csv_rows(["a\n", '"1']))
    assert refused.value.place == 1


values = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)


@given(
    st.dictionaries(
        st.text(), values | st.text() | st.lists(values) | st.dictionaries(st.text(), values)
    )
)
def test_an_object_says_itself(said: dict[str, Any]) -> None:
    assert json_object(json.dumps(said)) == said


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("[1]", r'expected an object such as \{"volume": 1000\}, found \[1\]'),
        ("{", "not JSON: expecting property name"),
        ("[" * 100_000, "not JSON: maximum recursion depth"),
        ('{"a": {"b": 1, "b": 2}}', "'b' stands twice in an object"),
        ('{"a": -Infinity}', "JSON has no -Infinity"),
        ('{"a": 1e999}', "found the number 1e999, expected a number up to"),
        ('{"a": ' + "9" * 5_000 + "}", "an integer of 64 bits"),
    ],
)
def test_what_is_no_object_is_refused(line: str, what: str) -> None:
    with pytest.raises(LineError, match=what) as refused:
        json_object(line, 7)
    assert refused.value.place == 7
