"""Sets of values against the obvious meaning of the predicates that describe them.

`Predicate.holds` is the meaning. Here `accepts`, `&`, `bool` and `<=` are held to it exactly: what
a set claims to have, or not to share with another, has a witness among the tried values, and what
it claims not to have has none. `brute_force` tells why the tried values are enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from roost.language import Kind, Operator, Predicate, Value
from roost.language.numberset import ALL_NUMBERS, NO_NUMBERS, NumberSet, interval
from roost.language.stringset import ALL_STRINGS, NO_STRINGS, StringSet
from roost.language.values import Number
from roost.language.valueset import ANYTHING, ValueSet, finite, of_kind
from tests.language.brute_force import (
    constants_of,
    letters_for,
    number_above,
    numbers_for,
    strings_for,
    values_for,
)
from tests.language.core_strategies import (
    ALPHABETS,
    LANDMARKS,
    NASTY_VALUES,
    WITH_BOOL,
    WITH_NUMBER,
    WITH_STRING,
    Pool,
    conjunctions,
    pools,
)
from tests.language.strategies import predicates, values

BOOL_PREDICATES = [
    *(Predicate("x", op, b) for op in WITH_BOOL for b in (False, True)),
    *(Predicate("x", Operator.PRESENT, kind) for kind in (None, *Kind)),
    Predicate("x", Operator.IN, (False, True)),
    Predicate("x", Operator.IN, (0, 1.0, "", True)),
]


def number_predicates(constants: Sequence[Number]) -> list[Predicate]:
    """Every operator with every constant."""
    return [
        *(Predicate("x", op, c) for op in WITH_NUMBER for c in constants),
        *(Predicate("x", Operator.IN, pair) for pair in itertools.pairwise(constants)),
        *BOOL_PREDICATES,
    ]


def string_predicates(constants: Sequence[str]) -> list[Predicate]:
    """Every operator with every constant."""
    return [
        *(Predicate("x", op, c) for op in WITH_STRING for c in constants),
        *(Predicate("x", Operator.IN, pair) for pair in itertools.pairwise(constants)),
        *BOOL_PREDICATES,
    ]


def all_words(letters: Iterable[str], length_max: int) -> list[str]:
    """All words over the letters up to that length."""
    letters = list(letters)
    return ["".join(w) for n in range(length_max + 1) for w in itertools.product(letters, repeat=n)]


def conjunction(predicates: Iterable[Predicate]) -> ValueSet:
    """The set that several predicates on one attribute describe."""
    return reduce(and_, (p.accepts() for p in predicates), ANYTHING)


# What a predicate accepts


@pytest.mark.parametrize("constant", NASTY_VALUES, ids=repr)
def test_accepts_says_what_holds_says(constant: Value) -> None:
    if constant != constant:
        return  # NaN is refused as a constant; it is among the values below
    operators = {bool: WITH_BOOL, str: WITH_STRING}.get(type(constant), WITH_NUMBER)
    for op in operators:
        predicate = Predicate("x", op, constant)
        admitted = predicate.accepts()
        for value in (*NASTY_VALUES, *values_for([predicate])):
            assert (value in admitted) == predicate.holds(value), (predicate, value)


def test_accepts_says_what_holds_says_for_in_and_present() -> None:
    constants = [v for v in NASTY_VALUES if v == v]
    tried = [
        *(Predicate("x", Operator.PRESENT, kind) for kind in (None, *Kind)),
        *(Predicate("x", Operator.IN, constants_) for constants_ in itertools.pairwise(constants)),
        Predicate("x", Operator.IN, tuple(constants)),
    ]
    for predicate in tried:
        admitted = predicate.accepts()
        for value in NASTY_VALUES:
            assert (value in admitted) == predicate.holds(value), (predicate, value)


@given(predicates(), values(nan=True))
def test_accepts_says_what_holds_says_of_any_value(predicate: Predicate, value: Value) -> None:
    assert (value in predicate.accepts()) == predicate.holds(value)


@given(predicates())
def test_accepts_says_what_holds_says_near_its_own_constants(predicate: Predicate) -> None:
    admitted = predicate.accepts()
    for value in values_for([predicate]):
        assert (value in admitted) == predicate.holds(value)


@pytest.mark.parametrize(
    ("op", "constant", "yes", "no"),
    [
        (Operator.EQ, 1, [1, 1.0], [True, "1", 2, math.nan]),
        (Operator.EQ, True, [True], [1, 1.0, False, "true"]),
        (Operator.NE, 1, [2, 0.5, math.inf], [1, 1.0, True, False, "1", math.nan]),
        (Operator.NE, True, [False], [True, 0, 2, ""]),
        (Operator.NE, "a", ["", "b"], ["a", 1, True]),
        (Operator.EQ, 0.0, [-0.0, 0], [False, math.ulp(0.0)]),
        (Operator.EQ, 2**53 + 1, [2**53 + 1], [2.0**53, 2.0**53 + 2, 2**53]),
        (Operator.GT, 2**53, [2**53 + 1, 2.0**53 + 2], [2.0**53, 2**53]),
        (Operator.GT, 2**63 - 1, [2.0**63, math.inf], [2**63 - 1, "z"]),
        (Operator.LT, -(2**63), [math.nextafter(-(2.0**63), -math.inf)], [-(2.0**63), "-"]),
        (Operator.GE, math.inf, [math.inf], [1.7976931348623157e308, math.nan]),
        (Operator.LT, "b", ["a", "", "a\U0010ffff"], ["b", "b\0", 0, False]),
        (Operator.GT, "\ud7ff", ["\ue000", "\ud7ff\0"], ["\ud7ff", "\ud7fe\U0010ffff"]),
        (Operator.PREFIX, "", ["", "a"], [1, True]),
        (Operator.PREFIX, "e", ["e\u0301"], ["é"]),
        (Operator.PREFIX, "\U0010ffff", ["\U0010ffff", "\U0010ffffa"], ["", "\U0010fffe"]),
        (Operator.IN, (1, "a"), [1.0, "a"], [True, "b"]),
        (Operator.PRESENT, None, [0, "", False, math.inf], [math.nan]),
        (Operator.PRESENT, Kind.NUMBER, [0, -math.inf], [math.nan, True, "0"]),
    ],
)
def test_predicates_by_example(
    op: Operator,
    constant: Value | tuple[Value, ...] | Kind | None,
    yes: list[Value],
    no: list[Value],
) -> None:
    predicate = Predicate("x", op, constant)
    for value in yes:
        assert predicate.holds(value)
        assert value in predicate.accepts()
    for value in no:
        assert not predicate.holds(value)
        assert value not in predicate.accepts()


# Every pair of predicates
#
# All pairs share the tried values, so a set becomes a bit mask: bit i is whether it has value i.


def check_pairs(tried: list[Predicate], universe: Sequence[Value]) -> None:
    """`&`, `bool` and `<=` of every ordered pair against membership in the universe."""
    sets = [p.accepts() for p in tried]
    masks = [sum(p.holds(v) << i for i, v in enumerate(universe)) for p in tried]
    for p, a, a_mask in zip(tried, sets, masks, strict=True):
        assert bool(a) == bool(a_mask), p
        for q, b, b_mask in zip(tried, sets, masks, strict=True):
            assert (a <= b) == (a_mask & ~b_mask == 0), (p, q)
            both = a & b
            assert bool(both) == bool(a_mask & b_mask), (p, q)
            assert both <= a, (p, q)
            assert both <= b, (p, q)
            assert (a <= both) == (a_mask & ~b_mask == 0), (p, q)


def test_every_pair_of_predicates_on_numbers() -> None:
    constants = [x for c in (0, 2**53, 2**63 - 1, -(2**63)) for x in numbers_for([c])]
    universe: list[Value] = [*numbers_for([*constants, 1]), "", "a", False, True, math.nan]
    check_pairs(number_predicates(sorted(set(constants))), universe)


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=ascii)
def test_every_pair_of_predicates_on_strings(alphabet: str) -> None:
    """Constants up to two letters, words up to four.

    One predicate settles at most two letters at the front and another two at the back or inside;
    the words have letters of no constant, too. Were four letters too few, a witness that the sets
    claim would not be found and the test would fail.
    """
    constants = all_words(alphabet, 2)
    words = all_words(letters_for([alphabet]), 4)
    check_pairs(string_predicates(constants), [*words, 0, 1.0, 2, True, False, math.nan])


def test_every_pair_of_predicates_of_different_kinds() -> None:
    tried = [*string_predicates(["", "a", "1"]), *number_predicates([0, 1, 1.5])]
    check_pairs(tried, values_for(tried))


# Conjunctions

# These are quick for what they find.
often = settings(max_examples=max(300, settings().max_examples))


@st.composite
def pairs_of_conjunctions(
    draw: st.DrawFn,
) -> tuple[tuple[Predicate, ...], tuple[Predicate, ...]]:
    pool: Pool = draw(pools())
    return draw(conjunctions(pool)), draw(conjunctions(pool))


@often
@given(pairs_of_conjunctions())
def test_set_algebra_is_exact(
    pair: tuple[tuple[Predicate, ...], tuple[Predicate, ...]],
) -> None:
    left, right = pair
    a, b = conjunction(left), conjunction(right)
    tried = values_for((*left, *right))
    in_a = [v for v in tried if all(p.holds(v) for p in left)]
    in_b = [v for v in tried if all(p.holds(v) for p in right)]
    both = [v for v in in_a if all(p.holds(v) for p in right)]
    event(f"a <= b: {a <= b}, a: {bool(a)}, b: {bool(b)}, a & b: {bool(a & b)}")

    assert [v for v in tried if v in a] == in_a
    assert [v for v in tried if v in b] == in_b
    assert [v for v in tried if v in a & b] == both
    assert bool(a) == bool(in_a)
    assert bool(b) == bool(in_b)
    assert bool(a & b) == bool(both)
    assert (a <= b) == (len(both) == len(in_a))
    assert (b <= a) == (len(both) == len(in_b))


@given(pools().flatmap(conjunctions))
def test_the_tried_strings_miss_no_answers(predicates: tuple[Predicate, ...]) -> None:
    """The oracle's own claim, on all words of up to four letters: `brute_force` tells why."""
    letters = letters_for(c for p in predicates for c in constants_of(p) if isinstance(c, str))
    given_by_tried = {tuple(p.holds(v) for p in predicates) for v in strings_for(predicates)}
    for word in all_words(letters, 4):
        assert tuple(p.holds(word) for p in predicates) in given_by_tried


@given(pairs_of_conjunctions())
def test_intersection_is_the_greatest_set_below_both(
    pair: tuple[tuple[Predicate, ...], tuple[Predicate, ...]],
) -> None:
    a, b = map(conjunction, pair)
    both = a & b
    assert both <= a
    assert both <= b
    assert both <= b & a
    assert b & a <= both
    assert (a <= b) == (a <= both)
    assert a & a <= a
    assert a <= a & a
    assert a <= ANYTHING
    assert ANYTHING & a <= a <= ANYTHING & a


def test_a_set_within_a_chain_of_others() -> None:
    """Inclusion is transitive, also through sets that are written in different ways."""
    around = sorted({x for c in LANDMARKS for x in (c, number_above(c)) if x is not None})
    for low, high in itertools.pairwise(around):
        wide, narrow = interval(low, high), NumberSet(members=frozenset((low, high)))
        assert narrow <= wide
        assert (wide <= narrow) == (number_above(low) == high)


# Cases that are easy to get wrong


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [
        (1, 1, [1]),
        (2**53, 2**53 + 2, [2**53, 2**53 + 1, 2.0**53 + 2]),
        (2**63 - 2, 2.0**63, [2**63 - 2, 2**63 - 1, 2.0**63]),
        (-0.0, 0.0, [0]),
        (-math.ulp(0.0), math.ulp(0.0), [-math.ulp(0.0), 0.0, math.ulp(0.0)]),
        (1.7976931348623157e308, math.inf, [1.7976931348623157e308, math.inf]),
        (2, 1, []),
    ],
)
def test_short_intervals_are_within_their_points_and_empty_without_them(
    low: Number, high: Number, inside: list[Number]
) -> None:
    points = frozenset(inside)
    whole = interval(low, high)
    assert whole <= NumberSet(members=points)
    assert NumberSet(members=points) <= whole
    assert not interval(low, high, points)
    for x in inside:
        assert not whole <= NumberSet(members=points - {x})
        assert list(filter(interval(low, high, points - {x}).__contains__, inside)) == [x]


def test_an_interval_around_an_excluded_point_is_within_the_points_beside_it() -> None:
    beside = interval(2**60, 2**60 + 2, frozenset((2**60 + 1,)))
    assert beside <= NumberSet(members=frozenset((2**60, 2**60 + 2)))
    assert not beside <= NumberSet(members=frozenset((2**60, 2**60 + 1)))
    assert beside <= interval(2**60, 2**60 + 2)
    assert not interval(2**60, 2**60 + 2) <= beside


def from_spelling(op: str, *constants: str) -> Predicate:
    """The predicate with the operator of that spelling; all constants are members of `in`."""
    return Predicate("s", Operator(op), constants if op == "in" else constants[0])


@pytest.mark.parametrize(
    ("given_", "implied", "answer"),
    [
        # The one character that a range leaves can complete an infix, a second one spoils it.
        ([(">=", "ab"), ("<", "ac")], [("contains", "ab")], True),
        ([(">", "aa\U0010ffff"), ("<", "ac")], [("contains", "b")], False),
        ([("<", "\1"), ("!=", "")], [("contains", "\0")], True),
        ([("<", "\2"), ("!=", "")], [("contains", "\0")], False),
        ([(">=", "\U0010fffe\U0010ffff")], [("contains", "\U0010ffff")], True),
        ([(">=", "\U0010fffd\U0010ffff")], [("contains", "\U0010ffff")], False),
        ([(">=", "ab"), ("<", "ad")], [("contains", "b")], False),
        ([(">", "a"), ("<", "b"), ("!=", "a\0")], [("prefix", "a")], True),
        ([(">=", "a"), ("<", "b")], [("prefix", "a")], True),
        ([("prefix", "a")], [(">=", "a"), ("<", "b")], True),
        ([("prefix", "a")], [("<", "a\U0010ffff")], False),
        ([("prefix", "\ud7ff")], [("<", "\ue000")], True),
        # Prefix and suffix may share letters.
        ([("prefix", "aba"), ("suffix", "ba"), ("<", "aba\0")], [("=", "aba")], True),
        ([("prefix", "ab"), ("suffix", "ba")], [("contains", "aba")], False),
        ([("prefix", "ab"), ("suffix", "bc"), ("<=", "abc")], [("=", "abc")], False),
        ([("contains", "ab"), ("contains", "ba")], [("contains", "aba")], False),
        ([("contains", "aba")], [("contains", "ab"), ("contains", "ba")], True),
        ([("suffix", "xab")], [("suffix", "ab"), ("contains", "xa")], True),
        ([("suffix", "ab")], [("suffix", "xab")], False),
        # Few words are below "\0\0\0", and they can be used up.
        ([("<", "\0\0\0")], [("in", "", "\0", "\0\0")], True),
        ([("<", "\0\0\0")], [("in", "", "\0")], False),
        ([("<", "\0\0\0"), ("!=", "\0\0")], [("in", "", "\0")], True),
        ([("<", "\0")], [("=", "")], True),
        ([("<=", "\0"), ("!=", "")], [("suffix", "\0")], True),
        ([("<=", "\0"), ("!=", ""), ("!=", "\0")], [("=", "anything")], True),
        ([("<", "")], [("=", "anything")], True),
        ([("<=", "a"), (">", "a")], [("=", "anything")], True),
        ([(">", "\U0010ffff")], [("prefix", "\U0010ffff")], True),
        ([(">=", "\U0010ffff\U0010ffff")], [("prefix", "\U0010ffff\U0010ffff")], True),
        ([("contains", "")], [("prefix", ""), ("suffix", ""), (">=", "")], True),
    ],
)
def test_string_inclusions_by_example(
    given_: list[tuple[str, ...]], implied: list[tuple[str, ...]], answer: bool
) -> None:
    narrow = conjunction(from_spelling(*parts) for parts in given_)
    wide = conjunction(from_spelling(*parts) for parts in implied)
    assert (narrow <= wide) == answer


def test_named_sets() -> None:
    assert ANYTHING
    assert not ValueSet()
    assert ValueSet() <= ValueSet()
    assert ANYTHING <= ValueSet(ALL_NUMBERS, ALL_STRINGS, frozenset((False, True)))
    for kind in Kind:
        others = [of_kind(other) for other in Kind if other is not kind]
        assert of_kind(kind)
        assert of_kind(kind) <= ANYTHING
        assert not ANYTHING <= of_kind(kind)
        assert not any(of_kind(kind) & other for other in others)
    assert ALL_NUMBERS
    assert ALL_STRINGS
    assert not NO_NUMBERS
    assert not NO_STRINGS
    assert math.nan not in ANYTHING
    assert finite((1, "1", True)) <= ANYTHING
    assert 1.0 in finite((1,))
    assert True not in finite((1,))
    assert 1 not in finite((True,))


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=ascii)
def test_an_interval_of_strings_is_the_disjoint_union_of_its_pieces(alphabet: str) -> None:
    """The lemma in the head of `stringset`, on all short intervals."""
    bounds, words = all_words(alphabet, 2), all_words(letters_for([alphabet]), 3)
    for low, high in itertools.product(bounds, [*bounds, None]):
        inside = StringSet(low, high)
        pieces = list(inside._pieces())
        for word in words:
            owners = [
                piece
                for piece in pieces
                if (
                    word == piece
                    if isinstance(piece, str)
                    else word.startswith(piece.prefix)
                    and piece.first <= word[len(piece.prefix) :][:1] <= piece.last
                )
            ]
            assert len(owners) == (word in inside), (low, high, word)
