"""What is printed is read back as the same thing, in every syntax and for every value.

Predicates count as equal when 1 stands for 1.0. Text must keep even that apart, and the sign of a
zero, so things are compared by their `repr` here.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from roost.language import (
    Advertisement,
    Event,
    Filter,
    LanguageError,
    Operator,
    Predicate,
    Subscription,
    Value,
    parse_advertisement,
    parse_event,
    parse_filter,
    parse_subscription,
    to_bracket,
    to_json,
    to_readable,
)
from tests.language import strategies as some


@given(some.predicates())
def test_predicate(predicate: Predicate) -> None:
    for text in (to_readable(predicate), to_bracket(predicate)):
        assert repr(parse_filter(text)) == repr(Filter([predicate]))
        assert text.isprintable()


@given(some.filters())
def test_filter(filter_: Filter) -> None:
    for text in (to_readable(filter_), to_bracket(filter_), str(filter_)):
        assert parse_filter(text) == filter_
        assert repr(parse_filter(text)) == repr(filter_)


@given(some.subscriptions())
def test_subscription(subscription: Subscription) -> None:
    for text in (to_readable(subscription), to_bracket(subscription), str(subscription)):
        assert parse_subscription(text) == subscription
        assert repr(parse_subscription(text)) == repr(subscription)


@given(some.advertisements())
def test_advertisement(advertisement: Advertisement) -> None:
    for text in (to_readable(advertisement), to_bracket(advertisement)):
        assert repr(parse_advertisement(text)) == repr(advertisement)


@given(some.events())
def test_event(event: Event) -> None:
    assert repr(parse_event(to_bracket(event))) == repr(event)
    assert to_bracket(event) == str(event)


@given(some.events(values=some.values().filter(lambda v: v not in (math.inf, -math.inf))))
def test_event_as_json(event: Event) -> None:
    assert repr(parse_event(to_json(event))) == repr(event)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_has_only_finite_numbers(value: float) -> None:
    with pytest.raises(LanguageError, match=r"'x': JSON has no -?(nan|inf)"):
        to_json(Event({"x": value}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-0.0, "-0.0"),
        (1, "1"),
        (1.0, "1.0"),
        (1e16, "1e+16"),
        (1e308, "1e+308"),
        (5e-324, "5e-324"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
        ("", "''"),
        ("it's", r"'it\'s'"),
        ('"', "'\"'"),
        ("a\\b", r"'a\\b'"),
        ("\n\r\t\0", r"'\n\r\t\0'"),
        ("\x7f\u2028\U0010ffff", r"'\x7f\u2028\U0010ffff'"),
        ("größe 名前", "'größe 名前'"),
    ],
)
def test_how_values_are_written(value: Value, text: str) -> None:
    assert to_readable(Predicate("x", Operator.EQ, value)) == f"x = {text}"
    assert to_bracket(Predicate("x", Operator.EQ, value)) == f"[x,eq,{text}]"


@pytest.mark.parametrize(
    ("name", "readable", "bracket"),
    [
        ("openClose%Diff", "openClose%Diff", "openClose%Diff"),
        ("a.b-c:d/e@f#g$h", "a.b-c:d/e@f#g$h", "a.b-c:d/e@f#g$h"),
        ("größe", "größe", "größe"),
        ("true", "true", "true"),
        ("in", '"in"', "in"),
        ("AND", '"AND"', "AND"),
        ("isPresent", '"isPresent"', "isPresent"),
        ("2nd", '"2nd"', '"2nd"'),
        ("a b", '"a b"', '"a b"'),
        ("it's", '"it\'s"', '"it\'s"'),
        ('"', r'"\""', r'"\""'),
        ("\n", r'"\n"', r'"\n"'),
    ],
)
def test_how_names_are_written(name: str, readable: str, bracket: str) -> None:
    assert to_readable(Predicate(name, Operator.GT, 1)) == f"{readable} > 1"
    assert to_bracket(Predicate(name, Operator.GT, 1)) == f"[{bracket},>,1]"
    assert to_bracket(Event({name: 1})) == f"[{bracket},1]"


def test_what_matches_everything_has_a_text() -> None:
    assert (str(Filter()), to_bracket(Filter())) == ("*", "[*]")
    anything = Subscription([Filter(), Filter([Predicate("a", Operator.EQ, 1)])])
    assert (str(anything), to_bracket(anything)) == ("* or a = 1", "[*] or [a,eq,1]")
    assert (str(Event({})), to_json(Event({}))) == ("[]", "{}")
    assert parse_event("[]") == parse_event("{}") == Event({})


def test_numbers_of_a_library_are_written_as_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert str(Event({"x": numpy.float64(2.5)})) == "[x,2.5]"
