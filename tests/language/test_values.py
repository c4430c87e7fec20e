"""The line of numbers and the order of strings."""

from __future__ import annotations

import itertools
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.language import Kind, Value, kind_of
from roost.language.values import (
    INT_MAX,
    INT_MIN,
    MAX_CHAR,
    MIN_CHAR,
    Number,
    after_prefix,
    is_nan,
    next_char,
    next_number,
    previous_char,
    previous_number,
)
from tests.language.brute_force import number_above, number_below
from tests.language.core_strategies import LANDMARKS, near_numbers, words

LARGEST = sys.float_info.max


def in_domain(x: Number) -> bool:
    return isinstance(x, float) or INT_MIN <= x <= INT_MAX


def candidates_around(x: Number) -> list[Number]:
    """The floats and ints next to `x`, found without regard to which of them is nearest."""
    near: list[Number] = [float(x)]
    near += [math.nextafter(float(x), end) for end in (-math.inf, math.inf)]
    if math.isfinite(x):
        near += [whole + d for whole in (math.floor(x), math.ceil(x)) for d in (-1, 0, 1)]
    return [y for y in near if in_domain(y)]


@given(near_numbers())
def test_next_number_is_the_least_number_above(x: Number) -> None:
    following = next_number(x)
    if following is None:
        assert x == math.inf
        return
    assert following > x
    assert in_domain(following)
    assert not [y for y in candidates_around(x) if x < y < following]
    assert not [y for y in candidates_around(following) if x < y < following]
    assert following == number_above(x)


@given(near_numbers())
def test_previous_number_is_the_greatest_number_below(x: Number) -> None:
    preceding = previous_number(x)
    if preceding is None:
        assert x == -math.inf
        return
    assert preceding < x
    assert in_domain(preceding)
    assert not [y for y in candidates_around(x) if preceding < y < x]
    assert not [y for y in candidates_around(preceding) if preceding < y < x]
    assert preceding == number_below(x)


@given(near_numbers())
def test_next_and_previous_number_undo_each_other(x: Number) -> None:
    following, preceding = next_number(x), previous_number(x)
    assert following is None or previous_number(following) == x
    assert preceding is None or next_number(preceding) == x


@given(near_numbers(), near_numbers())
def test_next_number_keeps_the_order(x: Number, y: Number) -> None:
    x, y = sorted((x, y))
    above_x, above_y = next_number(x), next_number(y)
    if x < y:
        assert above_x is not None
        assert above_x <= y
        assert above_y is None or above_x < above_y
    else:
        assert above_x == above_y


@pytest.mark.parametrize(
    ("x", "following"),
    [
        (-math.inf, -LARGEST),
        (math.nextafter(-(2.0**63), -math.inf), INT_MIN),
        (INT_MIN, INT_MIN + 1),
        (-(2.0**63), INT_MIN + 1),
        (-(2**53) - 1, -(2**53)),
        (-(2.0**53), -(2**53) + 1),
        (-1, math.nextafter(-1, 0)),
        (-math.ulp(0.0), 0),
        (-0.0, math.ulp(0.0)),
        (0, math.ulp(0.0)),
        (1, 1 + sys.float_info.epsilon),
        (2**53 - 1, 2**53),
        (2.0**53, 2**53 + 1),
        (2**53 + 1, 2.0**53 + 2),
        (INT_MAX - 1, INT_MAX),
        (INT_MAX, 2.0**63),
        (2.0**63, math.nextafter(2.0**63, math.inf)),
        (LARGEST, math.inf),
    ],
)
def test_the_line_of_numbers_where_its_grain_changes(x: Number, following: Number) -> None:
    assert next_number(x) == following
    assert previous_number(following) == x


def test_the_line_of_numbers_ends_at_the_infinities() -> None:
    assert next_number(math.inf) is None
    assert previous_number(-math.inf) is None


def test_walking_up_and_back_from_every_landmark() -> None:
    for start in LANDMARKS:
        walk: list[Number] = [start]
        while len(walk) < 50 and (following := next_number(walk[-1])) is not None:
            walk.append(following)
        back: list[Number] = [walk[-1]]
        while len(back) < len(walk):
            preceding = previous_number(back[-1])
            assert preceding is not None
            back.append(preceding)
        assert back[::-1] == walk
        assert all(x < y for x, y in itertools.pairwise(walk))


def test_next_char_visits_every_character_once_in_order() -> None:
    visited = [MIN_CHAR]
    while (following := next_char(visited[-1])) is not None:
        assert previous_char(following) == visited[-1]
        visited.append(following)
    assert visited == [chr(i) for i in range(0x110000) if not 0xD800 <= i <= 0xDFFF]
    assert visited[-1] == MAX_CHAR
    assert previous_char(MIN_CHAR) is None


@given(words() | st.text(max_size=4), words() | st.text(max_size=4))
def test_after_prefix_is_the_least_string_above_a_prefix(prefix: str, s: str) -> None:
    end = after_prefix(prefix)
    # Strings between the prefix and the end, and no others, begin with it.
    for word in (s, prefix + s, prefix + MAX_CHAR + s, prefix[:-1] + s):
        assert word.startswith(prefix) == (prefix <= word and (end is None or word < end))
    assert end is None or not end.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("", None),
        (MAX_CHAR * 3, None),
        ("a", "b"),
        ("a" + MAX_CHAR, "b"),
        ("a\ud7ff", "a\ue000"),
        (MIN_CHAR, "\1"),
    ],
)
def test_after_prefix_at_the_ends_of_the_alphabet(prefix: str, end: str | None) -> None:
    assert after_prefix(prefix) == end


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOL),
        (False, Kind.BOOL),
        (1, Kind.NUMBER),
        (1.0, Kind.NUMBER),
        (math.nan, Kind.NUMBER),
        ("", Kind.STRING),
        ("1", Kind.STRING),
    ],
)
def test_a_bool_is_not_a_number(value: Value, kind: Kind) -> None:
    assert kind_of(value) is kind


def test_only_nan_is_nan() -> None:
    assert is_nan(math.nan)
    assert not any(map(is_nan, [*LANDMARKS, "nan", "", True]))
