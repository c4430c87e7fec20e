"""What events, predicates and filters can be made of, and when two of them are equal."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from roost.errors import UserError, type_of
from roost.language import (
    Advertisement,
    Event,
    Filter,
    Kind,
    LanguageError,
    Operator,
    Predicate,
    Subscription,
    contradictions,
    covers,
    filters_of,
    overlaps,
    simplify,
)
from roost.language.event import ATTRIBUTES_MAX
from roost.language.filter import FILTERS_MAX, PREDICATES_MAX
from roost.language.predicate import MEMBERS_MAX, ORDER_OPERATORS, STRING_OPERATORS
from roost.language.values import (
    CONSTANT_LENGTH_MAX,
    INT_MAX,
    INT_MIN,
    NAME_LENGTH_MAX,
    STRING_LENGTH_MAX,
)
from tests.language.strategies import events, predicates


def refuses(*fragments: str) -> Any:
    """A refusal whose message has all the fragments, in this order."""
    return pytest.raises(LanguageError, match=".*".join(map(re.escape, fragments)))


def test_a_refusal_is_the_users_error_and_a_value_error() -> None:
    assert issubclass(LanguageError, UserError)
    assert issubclass(LanguageError, ValueError)


# Names and values, in events and in predicates alike


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (1, "an attribute name is a string, not an int"),
        (None, "an attribute name is a string, not None"),
        ("", "an attribute name is empty"),
        ("n" * (NAME_LENGTH_MAX + 1), "has 257 characters; at most 256 are allowed"),
        ("a\ud800", r"'\ud800' is half of a surrogate pair, not a character"),
    ],
)
def test_bad_attribute_names(name: Any, reason: str) -> None:
    with refuses("event: ", reason):
        Event({name: 1})
    with refuses("predicate: ", reason):
        Predicate(name, Operator.EQ, 1)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda x: Filter([x]), "among the predicates is"),
        (lambda x: Subscription([x]), "among the filters is"),
        (lambda x: covers(x, Filter()), "the interest is"),
        (lambda x: covers(Filter(), x), "the interest is"),
        (lambda x: overlaps(x, Filter()), "the interest is"),
        (simplify, "the filter is"),
        (contradictions, "the filter is"),
        (Filter([Predicate("x", Operator.EQ, 1)]).matches, "the event is"),
    ],
)
@pytest.mark.parametrize("wrong", [None, "x = 1", {"x": 1}])
def test_arguments_of_wrong_types_are_named(call: Any, named: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"{named} {type_of(wrong)}; expected"):
        call(wrong)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (None, "an attribute that an event does not have is left out"),
        ({"price": 1}, "give each part a name of its own, such as order.price"),
        ([1], "give each part a name of its own"),
        (b"STOCK", r"write a text as value\.decode\(\)"),
        (datetime.datetime(2026, 1, 2), r"as a text, value\.isoformat\(\), or as a number"),
        (datetime.date(2026, 1, 2), r"value\.isoformat\(\)"),
        (Decimal("1.5"), r"as float\(value\), if that is precise enough, or as str\(value\)"),
        (np.True_, r"write a value of NumPy as value\.item\(\)"),
        (np.int64(7), r"value\.item\(\)"),
    ],
)
def test_what_was_probably_meant(value: Any, hint: str) -> None:
    with pytest.raises(LanguageError, match=f"event attribute 'x': .*\nhint: .*{hint}"):
        Event({"x": value})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null is not a value; expected a bool, an int, a float or a string"),
        ({"b": 1}, "a nested object is not a value"),
        ([1], "a nested list is not a value"),
        ({1}, "a nested list is not a value"),
        ((1, 2), "a nested list is not a value"),
        (b"bytes", "a bytes is not a value"),
        (1j, "a complex is not a value"),
        (Kind.NUMBER, "a Kind is not a value"),
        (INT_MAX + 1, "the integer does not fit 64 bits"),
        (INT_MIN - 1, "the integer does not fit 64 bits"),
        (10**400, "the integer does not fit 64 bits"),
        ("a\udfffb", r"'\udfff' is half of a surrogate pair, not a character"),
    ],
)
def test_bad_values(value: Any, reason: str) -> None:
    with refuses("event attribute 'price': ", reason):
        Event({"good": 1, "price": value})
    with refuses("predicate on 'price': ", reason):
        Predicate("price", Operator.EQ, value)
    with refuses("predicate on 'price': ", reason):
        Predicate("price", Operator.IN, (1, value))


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, 0, INT_MIN, INT_MAX, -0.0, math.inf, math.nan, 1e308, "", "\0"),
        *("\U0010ffff", "\ud7ff\ue000", "s" * STRING_LENGTH_MAX),
    ],
)
def test_good_event_values(value: Any) -> None:
    assert Event({"a": value}).attributes["a"] is value


def test_strings_of_events_may_be_longer_than_constants() -> None:
    with refuses("event attribute 'a': the string has 65,537 characters; at most 65,536"):
        Event({"a": "s" * (STRING_LENGTH_MAX + 1)})
    Predicate("a", Operator.EQ, "s" * CONSTANT_LENGTH_MAX)
    with refuses("predicate on 'a': the string has 4,097 characters; at most 4,096"):
        Predicate("a", Operator.EQ, "s" * (CONSTANT_LENGTH_MAX + 1))


@pytest.mark.parametrize("name", ["n" * NAME_LENGTH_MAX, "a.b", " ", "\0", "größe", "\U0010ffff"])
def test_good_attribute_names(name: str) -> None:
    assert Event({name: 1}).attributes == {name: 1}
    assert Predicate(name, Operator.EQ, 1).attribute == name


def test_a_long_name_is_not_repeated_whole_in_a_message() -> None:
    attributes: Any = {"n" * NAME_LENGTH_MAX: None}
    with pytest.raises(LanguageError) as refusal:
        Event(attributes)
    assert len(str(refusal.value)) < NAME_LENGTH_MAX


# Events


def test_an_event_is_made_of_a_mapping_of_limited_size() -> None:
    pairs: Any = [("a", 1)]
    with refuses("event: expected attributes by name, not a list"):
        Event(pairs)
    largest = {str(i): i for i in range(ATTRIBUTES_MAX)}
    assert Event(largest).attributes == largest
    with refuses("event: 1,025 attributes; at most 1,024 are allowed"):
        Event(largest | {"more": 1})


def test_an_event_keeps_its_own_copy_unless_trusted() -> None:
    attributes: dict[str, Any] = {"a": 1}
    event, trusted = Event(attributes), Event.trusted(attributes)
    attributes["a"] = 2
    assert event.attributes == {"a": 1}
    assert trusted.attributes is attributes


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1, "b": "x"}, {"b": "x", "a": 1}, True),
        ({"a": 0.0}, {"a": -0.0}, True),
        ({"a": 2**53}, {"a": 2.0**53}, True),
        ({"a": 2**53 + 1}, {"a": 2.0**53}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0.0}, {"a": False}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {}, False),
        ({}, {}, True),
    ],
)
def test_equality_of_events(left: Any, right: Any, equal: bool) -> None:
    a, b = Event(left), Event(right)
    assert (a == b) == equal
    assert (b == a) == equal
    assert len({a, b}) == (1 if equal else 2)
    assert a != left


@given(events(), events())
def test_equal_events_have_equal_hashes(a: Event, b: Event) -> None:
    assert a == Event.trusted(dict(a.attributes))
    assert a != b or hash(a) == hash(b)


def test_repr_of_an_event() -> None:
    assert repr(Event({"a": 1, "b": "x"})) == "Event({'a': 1, 'b': 'x'})"


# Predicates


@pytest.mark.parametrize("op", sorted(ORDER_OPERATORS, key=str))
def test_order_operators_take_no_bool(op: Operator) -> None:
    with refuses(f"predicate on 'a': '{op.value}' needs a number or a string, not a bool"):
        Predicate("a", op, True)
    for constant in (1, 1.5, math.inf, "x"):
        assert Predicate("a", op, constant).constant == constant


@pytest.mark.parametrize("op", sorted(STRING_OPERATORS, key=str))
@pytest.mark.parametrize("constant", [1, 1.5, True])
def test_string_operators_take_strings_only(op: Operator, constant: Any) -> None:
    with refuses(f"predicate on 'a': '{op.value}' needs a string, not {constant}"):
        Predicate("a", op, constant)


@pytest.mark.parametrize("op", [op for op in Operator if op is not Operator.PRESENT])
def test_nan_is_no_constant(op: Operator) -> None:
    constant = (1, math.nan) if op is Operator.IN else math.nan
    with refuses("predicate on 'a': NaN compares with nothing, so this would never be true"):
        Predicate("a", op, constant)


@pytest.mark.parametrize("op", [op for op in Operator if op is not Operator.PRESENT])
def test_every_operator_but_present_needs_a_constant(op: Operator) -> None:
    with refuses("predicate on 'a': "):
        Predicate("a", op)


def test_in_takes_a_tuple_of_limited_size() -> None:
    members: Any = [1]
    with refuses("predicate on 'a': 'in' needs a tuple of values"):
        Predicate("a", Operator.IN, members)
    with refuses("predicate on 'a': 'in' needs a tuple of values"):
        Predicate("a", Operator.IN, 1)
    with refuses("predicate on 'a': 'in' needs at least one value"):
        Predicate("a", Operator.IN, ())
    largest = tuple(range(MEMBERS_MAX))
    assert Predicate("a", Operator.IN, largest).constant == largest
    with refuses("predicate on 'a': 'in' has 4,097 values; at most 4,096 are allowed"):
        Predicate("a", Operator.IN, (*largest, -1))


@pytest.mark.parametrize("constant", [0, "", False, (1,)])
def test_present_takes_a_kind_or_nothing(constant: Any) -> None:
    with refuses("predicate on 'a': 'present' takes a kind of value or nothing"):
        Predicate("a", Operator.PRESENT, constant)


def test_members_are_sorted_and_not_repeated() -> None:
    mixed = Predicate("a", Operator.IN, ("b", 2, True, "a", 1, 2.0, False, "b", 1))
    assert mixed.constant == (False, True, 1, 2, "a", "b")
    assert mixed == Predicate("a", Operator.IN, (1.0, 2, False, True, "a", "b"))
    assert [mixed.holds(v) for v in (1, 1.0, True, "a", 3, "c")] == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (("a", Operator.EQ, 1), ("a", Operator.EQ, 1.0), True),
        (("a", Operator.EQ, 0.0), ("a", Operator.EQ, -0.0), True),
        (("a", Operator.EQ, 1), ("a", Operator.EQ, True), False),
        (("a", Operator.NE, 0), ("a", Operator.NE, False), False),
        (("a", Operator.EQ, 1), ("a", Operator.EQ, "1"), False),
        (("a", Operator.EQ, 1), ("b", Operator.EQ, 1), False),
        (("a", Operator.EQ, 1), ("a", Operator.GE, 1), False),
        (("a", Operator.EQ, 1), ("a", Operator.IN, (1,)), False),
        (("a", Operator.IN, (1, 2)), ("a", Operator.IN, (2.0, 1, 2)), True),
        (("a", Operator.IN, (1,)), ("a", Operator.IN, (True,)), False),
        (("a", Operator.IN, (0, True)), ("a", Operator.IN, (False, 1)), False),
        (("a", Operator.PRESENT), ("a", Operator.PRESENT, None), True),
        (("a", Operator.PRESENT), ("a", Operator.PRESENT, Kind.BOOL), False),
        (("a", Operator.EQ, "number"), ("a", Operator.PRESENT, Kind.NUMBER), False),
    ],
)
def test_equality_of_predicates(left: Any, right: Any, equal: bool) -> None:
    a, b = Predicate(*left), Predicate(*right)
    assert (a == b) == equal
    assert (b == a) == equal
    assert len({a, b}) == (1 if equal else 2)
    assert a != left


@given(predicates(), predicates())
def test_equal_predicates_have_equal_hashes(a: Predicate, b: Predicate) -> None:
    twin = Predicate(a.attribute, a.operator, a.constant)
    assert a == twin
    assert hash(a) == hash(twin)
    assert a != b or hash(a) == hash(b)


def test_repr_of_a_predicate() -> None:
    assert repr(Predicate("a", Operator.GT, 1)) == "Predicate('a', Operator.GT, 1)"
    assert repr(Predicate("a", Operator.PRESENT)) == "Predicate('a', Operator.PRESENT)"


# Filters, subscriptions, advertisements


def test_a_filter_has_limited_predicates() -> None:
    p = Predicate("a", Operator.EQ, 1)
    assert len(Filter([p] * PREDICATES_MAX).predicates) == PREDICATES_MAX
    with refuses("filter: 257 predicates; at most 256 are allowed"):
        Filter([p] * (PREDICATES_MAX + 1))


@pytest.mark.parametrize("shape", [Subscription, Advertisement])
def test_a_disjunction_has_one_filter_to_many(
    shape: type[Subscription] | type[Advertisement],
) -> None:
    name = shape.__name__.lower()
    with refuses(f"{name}: needs at least one filter"):
        shape([])
    assert len(shape([Filter()] * FILTERS_MAX).filters) == FILTERS_MAX
    with refuses(f"{name}: 65 filters; at most 64 are allowed"):
        shape([Filter()] * (FILTERS_MAX + 1))


def test_equality_of_filters_and_disjunctions() -> None:
    one, same, true = (Filter([Predicate("a", Operator.EQ, c)]) for c in (1, 1.0, True))
    assert one == same
    assert hash(one) == hash(same)
    assert one != true
    assert Subscription([one]) == Subscription([same])
    assert hash(Subscription([one])) == hash(Subscription([same]))
    assert Subscription([one]) != Subscription([true])
    assert Subscription([one]) != Advertisement([one])
    assert Subscription([one]) != one
    assert len({one, same, true, Subscription([one]), Advertisement([one])}) == 4


def test_repr_of_filters_and_disjunctions() -> None:
    f = Filter([Predicate("a", Operator.GT, 1)])
    assert repr(f) == "Filter([Predicate('a', Operator.GT, 1)])"
    assert repr(Subscription([f])) == f"Subscription([{f!r}])"
    assert repr(Advertisement([f])) == f"Advertisement([{f!r}])"


def test_matching_a_conjunction_and_a_disjunction() -> None:
    a = Filter([Predicate("a", Operator.GT, 1), Predicate("a", Operator.LT, 5)])
    b = Filter([Predicate("b", Operator.PRESENT)])
    either = Subscription([a, b])
    assert a.matches(Event({"a": 2, "c": "more"}))
    assert not a.matches(Event({"a": 5}))
    assert not a.matches(Event({"b": 2}))
    assert not a.matches(Event({"a": "2"}))
    assert not a.matches(Event({"a": True}))
    assert either.matches(Event({"a": 9, "b": False}))
    assert not either.matches(Event({"a": 9, "b": math.nan}))
    assert Filter().matches(Event({}))
    assert filters_of(either) == (a, b)
    assert filters_of(a) == (a,)
    assert either
    assert not Subscription([Filter([Predicate("a", Operator.LT, "")])])
