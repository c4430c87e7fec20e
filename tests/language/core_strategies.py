"""Predicates and filters that have much to do with one another, for the tests of the core.

Independent random constants almost never meet, and then every covering question has the dull
answer. So a `Pool` is drawn first: two attributes, and a handful of constants near each other.
Everything that is to be compared draws from one pool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from roost.language import (
    Advertisement,
    Filter,
    Interest,
    Kind,
    Operator,
    Predicate,
    Subscription,
    Value,
)
from roost.language.values import INT_MAX, INT_MIN, Number
from tests.language.strategies import (
    NASTY_FLOATS,
    NASTY_INTS,
    NASTY_STRINGS,
    ON_STRINGS,
    ORDERED,
    PLAIN_STRINGS,
    numbers,
)

# Where the line of numbers changes its grain, or has its ends.
LANDMARKS: tuple[Number, ...] = (0, 1, 2, *NASTY_INTS, *NASTY_FLOATS)

NASTY_VALUES: tuple[Value, ...] = (
    *LANDMARKS,
    *(math.nextafter(x, math.inf) for x in NASTY_FLOATS),
    *(math.nextafter(x, -math.inf) for x in NASTY_FLOATS),
    *PLAIN_STRINGS,
    *NASTY_STRINGS,
    True,
    False,
    math.nan,
)

# All the operators that a constant of each kind can stand with.
WITH_BOOL = (Operator.EQ, Operator.NE)
WITH_NUMBER = (*WITH_BOOL, *ORDERED)
WITH_STRING = (*WITH_NUMBER, *ON_STRINGS)


def near_numbers() -> st.SearchStrategy[Number]:
    """Any number of the language, often one near a landmark."""
    beside = st.builds(_beside, st.sampled_from(LANDMARKS), st.integers(-3, 3))
    return st.one_of(numbers(), beside)


def _beside(x: Number, steps: int) -> Number:
    """The int or float some steps from `x`, in whatever grain it has there."""
    if isinstance(x, int) and INT_MIN <= x + steps <= INT_MAX:
        return x + steps
    x = float(x)
    for _ in range(abs(steps)):
        x = math.nextafter(x, math.copysign(math.inf, steps))
    return x


# Few letters, so that words overlap. Where one directly follows another, a range between words may
# leave a single letter; the first and the last character have no neighbour on one side.
ALPHABETS = ("\0ab\U0010ffff", "\0\1\U0010fffe\U0010ffff", "\0\1\2", "abc", "a\ud7ff\ue000")


def words(alphabet: str = ALPHABETS[0]) -> st.SearchStrategy[str]:
    """Short words over few letters."""
    return st.text(alphabet, max_size=3)


@dataclass(frozen=True)
class Pool:
    """The attributes and constants that things to be compared have in common."""

    kinds: Mapping[str, Kind]  # what an attribute's constants mostly are
    numbers: tuple[Number, ...]
    words: tuple[str, ...]


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Two attributes, a few neighbouring numbers, a few words that overlap."""
    kinds = st.sampled_from((Kind.STRING, Kind.STRING, Kind.NUMBER))
    centre = draw(st.sampled_from(LANDMARKS))
    steps = draw(st.lists(st.integers(-2, 2), min_size=2, max_size=4))
    alphabet = draw(st.sampled_from(ALPHABETS))
    chosen = draw(st.lists(words(alphabet), min_size=2, max_size=3))
    stem = draw(st.sampled_from(chosen))
    return Pool(
        kinds={"x": draw(kinds), "y": draw(kinds)},
        numbers=(*(_beside(centre, n) for n in steps), draw(st.sampled_from(LANDMARKS))),
        words=(*chosen, stem[1:], stem[:-1], stem + stem[-1:]),
    )


@st.composite
def predicates(draw: st.DrawFn, pool: Pool, attribute: str | None = None) -> Predicate:
    """A predicate with constants of the pool, mostly of the attribute's kind."""
    name = attribute or draw(st.sampled_from(sorted(pool.kinds)))
    usual = pool.kinds[name]
    match draw(st.sampled_from((*[usual] * 8, *Kind, Operator.IN, Operator.PRESENT))):
        case Kind.NUMBER:
            op = draw(st.sampled_from(WITH_NUMBER))
            return Predicate(name, op, draw(st.sampled_from(pool.numbers)))
        case Kind.STRING:
            op = draw(st.sampled_from(WITH_STRING))
            return Predicate(name, op, draw(st.sampled_from(pool.words)))
        case Kind.BOOL:
            return Predicate(name, draw(st.sampled_from(WITH_BOOL)), draw(st.booleans()))
        case Operator.IN:
            constants: list[Value] = [*pool.numbers, *pool.words, False, True]
            members = draw(st.lists(st.sampled_from(constants), min_size=1, max_size=4))
            return Predicate(name, Operator.IN, tuple(members))
        case _:
            return Predicate(name, Operator.PRESENT, draw(st.sampled_from((None, *Kind))))


@st.composite
def conjunctions(draw: st.DrawFn, pool: Pool, attribute: str = "x") -> tuple[Predicate, ...]:
    """One to three predicates on one attribute."""
    return tuple(draw(st.lists(predicates(pool, attribute), min_size=1, max_size=3)))


@st.composite
def filters(draw: st.DrawFn, pool: Pool, size_max: int = 4, size_min: int = 0) -> Filter:
    """A filter with constants of the pool."""
    return Filter(draw(st.lists(predicates(pool), min_size=size_min, max_size=size_max)))


@st.composite
def related_filters(draw: st.DrawFn) -> tuple[Filter, Filter]:
    """Two filters of one pool, independent or one made from the other."""
    pool = draw(pools())
    a = draw(filters(pool, 3, 1))
    match draw(st.sampled_from(("independent", "independent", "narrower", "changed"))):
        case "independent":
            b = draw(filters(pool, 3))
        case "narrower":
            b = Filter((*a.predicates, draw(predicates(pool))))
        case _:
            # One predicate gives way to another on the same attribute.
            first, *rest = draw(st.permutations(a.predicates))
            b = Filter((*rest, draw(predicates(pool, first.attribute))))
    return draw(st.sampled_from(((a, b), (b, a))))


@st.composite
def interests(draw: st.DrawFn, pool: Pool) -> Interest:
    """A filter, a subscription or an advertisement with constants of the pool."""
    several = st.lists(filters(pool, 2), min_size=1, max_size=3)
    either: st.SearchStrategy[Interest] = st.one_of(
        filters(pool, 3), several.map(Subscription), several.map(Advertisement)
    )
    return draw(either)


@st.composite
def related_interests(draw: st.DrawFn) -> tuple[Interest, Interest]:
    """Two statements about events, in any mix of shapes, of one pool."""
    pool = draw(pools())
    return draw(interests(pool)), draw(interests(pool))
