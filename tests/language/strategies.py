"""Hypothesis strategies for the content language, for all tests that need filters or events.

Names and values are drawn mostly from small pools, so that predicates meet on the same attribute
and constants meet events; the rest are the awkward ones: ends of ranges, zeros of both signs,
characters next to the surrogates, quotes, words of the syntax.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from roost.language import (
    Advertisement,
    Event,
    Filter,
    Kind,
    Operator,
    Predicate,
    Subscription,
    Value,
)

PLAIN_NAMES = ["a", "b", "c"]
NASTY_NAMES = [
    "class",
    "openClose%Diff",
    "a.b-c:d/e@f#g$h",
    "_",
    "and",
    "Or",
    "not",
    "IN",
    "present",
    "isPresent",
    "str-prefix",
    "true",
    "inf",
    "null",
    "number",
    "größe",
    "名前",
    "a b",
    "9lives",
    "-",
    "*",
    "'",
    '"',
    "\\",
    "\n",
    "\0",
    "]",
    "\U0010ffff",
]

NASTY_INTS = [
    *(sign * (2**53 + d) for sign in (1, -1) for d in (-1, 0, 1)),
    2**63 - 1,
    2**63 - 2,
    -(2**63),
    -(2**63) + 1,
]
NASTY_FLOATS = [
    0.0,
    -0.0,
    1.0,
    math.nextafter(1.0, 2.0),
    0.5,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e308,
    1.7976931348623157e308,
    float(2**53),
    -float(2**53),
    float(2**53 + 2),
    float(2**63),
    -float(2**63),
    1e16,
    1e22,
    math.inf,
    -math.inf,
]
PLAIN_STRINGS = ["", "a", "b", "ab", "ba", "aa", "abc"]
NASTY_STRINGS = [
    "\0",
    "a\0",
    "\U0010ffff",
    "a\U0010ffff",
    "\U0010ffff\U0010ffff",
    "\ud7ff",
    "\ue000",
    "a\ud7ff",
    "a\ue000",
    "'",
    '"',
    "it's",
    "''",
    "\\",
    "\\n",
    "\n\r\t",
    "\x7f\x85\xa0\u2028",
    "é",
    "e\u0301",
    "1",
    "true",
    "*",
    "] or [",
]

ORDERED = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
ON_STRINGS = (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS)


def plain_names() -> SearchStrategy[str]:
    """A few short names."""
    return st.sampled_from(PLAIN_NAMES)


def names() -> SearchStrategy[str]:
    """Mostly a few short names, sometimes any name."""
    return st.one_of(
        plain_names(), plain_names(), st.sampled_from(NASTY_NAMES), st.text(min_size=1, max_size=6)
    )


def numbers(*, nan: bool = False) -> SearchStrategy[int | float]:
    """Numbers of the language, with or without NaN."""
    return st.one_of(
        st.integers(-2, 3),
        st.sampled_from(NASTY_INTS),
        st.sampled_from(NASTY_FLOATS),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=nan),
        *([st.just(math.nan)] if nan else []),
    )


def strings() -> SearchStrategy[str]:
    """Strings of the language (no halves of surrogate pairs)."""
    return st.one_of(
        st.sampled_from(PLAIN_STRINGS),
        st.text("ab", max_size=4),
        st.sampled_from(NASTY_STRINGS),
        st.text(max_size=8),
    )


def values(*, nan: bool = False) -> SearchStrategy[Value]:
    """Values of all kinds; NaN only if asked for, as no predicate takes it."""
    return st.one_of(numbers(nan=nan), strings(), st.booleans())


def predicates(
    names: SearchStrategy[str] = names(), values: SearchStrategy[Value] = values()
) -> SearchStrategy[Predicate]:
    """Predicates of every operator, with constants that the operator takes."""
    not_bool = values.filter(lambda v: not isinstance(v, bool))
    members = st.lists(values, min_size=1, max_size=5).map(tuple)
    return st.one_of(
        st.builds(Predicate, names, st.sampled_from((Operator.EQ, Operator.NE)), values),
        st.builds(Predicate, names, st.sampled_from(ORDERED), not_bool),
        st.builds(Predicate, names, st.sampled_from(ON_STRINGS), strings()),
        st.builds(Predicate, names, st.just(Operator.IN), members),
        st.builds(
            Predicate, names, st.just(Operator.PRESENT), st.sampled_from((None, *tuple(Kind)))
        ),
    )


def filters(
    predicates: SearchStrategy[Predicate] = predicates(), *, predicates_max: int = 4
) -> SearchStrategy[Filter]:
    """Conjunctions, the empty one included."""
    return st.lists(predicates, max_size=predicates_max).map(Filter)


def subscriptions(filters: SearchStrategy[Filter] = filters()) -> SearchStrategy[Subscription]:
    """Disjunctions of one to three filters."""
    return st.lists(filters, min_size=1, max_size=3).map(Subscription)


def advertisements(filters: SearchStrategy[Filter] = filters()) -> SearchStrategy[Advertisement]:
    """Disjunctions of one to three filters."""
    return st.lists(filters, min_size=1, max_size=3).map(Advertisement)


def events(
    names: SearchStrategy[str] = names(), values: SearchStrategy[Value] = values(nan=True)
) -> SearchStrategy[Event]:
    """Events of up to five attributes, the empty one and NaN included."""
    return st.dictionaries(names, values, max_size=5).map(Event)
