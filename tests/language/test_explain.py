"""Explanations agree with the meaning, and examples are examples."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.language import (
    Event,
    Filter,
    Interest,
    Kind,
    Operator,
    Predicate,
    covers,
    filters_of,
    overlaps,
    parse_event,
    parse_filter,
    parse_subscription,
)
from roost.language.explain import (
    Cause,
    apart,
    common_example,
    counterexample,
    explain,
    gaps,
    redundant,
)
from roost.language.sample import sample
from roost.language.valueset import ANYTHING
from tests.language.brute_force import events_for
from tests.language.core_strategies import related_filters, related_interests

often = settings(max_examples=max(200, settings().max_examples))


@given(related_filters(), st.data())
def test_an_event_matches_if_every_predicate_held(
    pair: tuple[Filter, Filter], data: st.DataObject
) -> None:
    filter_, other = pair
    event = data.draw(st.sampled_from(list(events_for(filter_, other))[:50] or [Event({})]))
    outcomes = explain(filter_, event)
    assert [outcome.predicate for outcome in outcomes] == list(filter_.predicates)
    assert all(outcome.held for outcome in outcomes) == filter_.matches(event)
    for outcome in outcomes:
        assert outcome.held == (not outcome.why)


@pytest.mark.parametrize(
    ("filter_", "event", "cause", "why"),
    [
        ("x > 3", "[x,4]", Cause.HELD, ""),
        ("x > 3", "[y,4]", Cause.MISSING, "the event does not have the attribute"),
        ("x > 3", "[x,'4']", Cause.KIND, "the event has a string, the filter asks for a number"),
        (
            "x present bool",
            "[x,4]",
            Cause.KIND,
            "the event has a number, the filter asks for a bool",
        ),
        (
            "x in (1, 2, 'a')",
            "[x,true]",
            Cause.KIND,
            "the event has a bool, the filter asks for a number or a string",
        ),
        ("x != 3", "[x,nan]", Cause.NAN, "NaN satisfies no predicate"),
        ("x present", "[x,nan]", Cause.NAN, "NaN satisfies no predicate"),
        ("x > 3", "[x,3]", Cause.VALUE, "3 is not greater than 3"),
        ("x != 3", "[x,3.0]", Cause.VALUE, "3.0 equals 3"),
        ("x in (1, 2)", "[x,3]", Cause.VALUE, "3 is none of the values"),
        ("x prefix 'a'", "[x,'b']", Cause.VALUE, "'b' does not start with 'a'"),
        ("x = true", "[x,false]", Cause.VALUE, "false is not true"),
    ],
)
def test_why(filter_: str, event: str, cause: Cause, why: str) -> None:
    (outcome,) = explain(parse_filter(filter_), parse_event(event))
    assert (outcome.cause, outcome.why) == (cause, why)


@pytest.mark.parametrize(
    ("filter_", "dropped"),
    [
        ("x > 1 and x > 2", ["x > 1"]),
        ("x > 1 and y = 2", []),
        ("x > 1 and x > 1", ["x > 1"]),
        ("x = 1 and x = 2 and x = 3", []),
    ],
)
def test_redundant_predicates(filter_: str, dropped: list[str]) -> None:
    assert list(map(str, redundant(parse_filter(filter_)))) == dropped


@often
@given(related_filters())
def test_there_are_gaps_just_where_one_does_not_cover_the_other(
    pair: tuple[Filter, Filter],
) -> None:
    a, b = pair
    assert bool(gaps(a, b)) == (not covers(a, b))
    for gap in gaps(a, b):
        assert gap.asked == (gap.attribute in b.sets)
        if gap.example is not None:
            assert gap.example in b.sets[gap.attribute]
            assert gap.example not in a.sets[gap.attribute]


@often
@given(related_filters())
def test_disjoint_filters_are_apart_somewhere(pair: tuple[Filter, Filter]) -> None:
    a, b = pair
    assert bool(apart(a, b)) == (bool(a) and bool(b) and not overlaps(a, b))


@often
@given(related_interests())
def test_examples_are_examples(pair: tuple[Interest, Interest]) -> None:
    a, b = pair
    event = counterexample(a, b)
    if event is not None:
        assert b.matches(event)
        assert not a.matches(event)
        assert not covers(a, b)
    event = common_example(a, b)
    if event is not None:
        assert a.matches(event)
        assert b.matches(event)
        assert overlaps(a, b)


@often
@given(related_filters())
def test_between_filters_on_numbers_there_is_always_an_example(
    pair: tuple[Filter, Filter],
) -> None:
    a, b = (
        Filter(p for p in f.predicates if not p.accepts().strings and p.accepts().numbers)
        for f in pair
    )
    if not covers(a, b):
        assert counterexample(a, b) is not None
    if overlaps(a, b):
        assert common_example(a, b) is not None


@pytest.mark.parametrize(
    ("a", "b", "only_b"),
    [
        ("x > 10", "x > 5", "[x,6]"),
        ("x > 10", "y = 'a'", "[y,'a']"),
        ("s prefix 'Y'", "s in ('YHOO', 'IBM')", "[s,'IBM']"),
        ("s = 'a'", "s > 'a'", "[s,'aa']"),
        ("s != 'q'", "s present string", "[s,'q']"),
        ("s suffix 'z'", "s contains 'k' and s suffix 'y'", "[s,'ky']"),
        ("b = true", "b present bool", "[b,false]"),
        ("x present string", "x present", "[x,0]"),
        ("x = 1 or x = 2", "x >= 1 and x <= 2", "[x,1.5]"),
    ],
)
def test_examples_can_be_read(a: str, b: str, only_b: str) -> None:
    found = counterexample(parse_subscription(a), parse_subscription(b))
    assert str(found) == only_b


def test_where_several_filters_cover_together_there_is_no_example() -> None:
    halves = parse_subscription("x < 1 or x >= 1")
    whole = parse_subscription("x present number")
    assert not covers(halves, whole)
    assert counterexample(halves, whole) is None


def test_a_sample_of_anything() -> None:
    assert sample(ANYTHING) == 0
    assert sample(ANYTHING, but_not=ANYTHING) is None
    present = Predicate("x", Operator.PRESENT, Kind.STRING)
    assert sample(present.accepts()) == "a"
    assert filters_of(Filter())[0].sets == {}
