"""Derived advertisements: they cover all events of the shape that they follow from."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from roost.client.advertising import (
    EVERYTHING,
    NAMES_MAX,
    SHAPES_MAX,
    Derived,
    advertisement_of,
    shape_of,
)
from roost.language import Event, Value, parse_advertisement
from roost.language.values import CONSTANT_LENGTH_MAX
from tests.language.strategies import names, values

anything = st.one_of(values(), st.just(math.nan))
events = st.dictionaries(st.one_of(names(), st.just("class")), anything, max_size=6)


def test_what_it_says() -> None:
    shape = shape_of({"volume": 1, "class": "STOCK", "symbol": "YHOO"})
    expected = "class = 'STOCK' and symbol present and volume present"
    assert advertisement_of(shape) == parse_advertisement(expected)
    assert str(advertisement_of(shape_of({"class": 7}))) == "class present"
    assert advertisement_of(shape_of({})) == EVERYTHING


@given(events)
def test_it_covers_the_event_it_follows_from(attributes: dict[str, Value]) -> None:
    assert advertisement_of(shape_of(attributes)).matches(Event(attributes))


@given(events, st.data())
def test_it_covers_every_event_of_the_same_shape(
    attributes: dict[str, Value], data: st.DataObject
) -> None:
    """The same names, in any order, with whatever values, and the same class."""
    shape = shape_of(attributes)
    others = {name: data.draw(anything) for name in data.draw(st.permutations(list(attributes)))}
    if isinstance(attributes.get("class"), str):
        others["class"] = attributes["class"]
    if shape_of(others) == shape:
        assert advertisement_of(shape).matches(Event(others))


@given(events)
def test_it_is_read_back(attributes: dict[str, Value]) -> None:
    """It travels as text."""
    advertisement = advertisement_of(shape_of(attributes))
    assert parse_advertisement(str(advertisement)) == advertisement


def test_large_events() -> None:
    attributes: dict[str, Value] = {f"a{i}": i for i in range(1_000)}
    attributes["class"] = "x" * (CONSTANT_LENGTH_MAX + 1)
    advertisement = advertisement_of(shape_of(attributes))
    assert len(advertisement.filters[0].predicates) == NAMES_MAX
    assert advertisement.matches(Event(attributes))


def test_one_a_shape_and_in_the_end_one_of_everything() -> None:
    derived = Derived()
    made = [derived.missing(shape_of({f"a{i}": i})) for i in range(SHAPES_MAX)]
    assert len({name for name, _ in filter(None, made)}) == SHAPES_MAX
    assert derived.missing(shape_of({"a0": 7})) is None
    last = derived.missing(shape_of({"more": 1}))
    assert last is not None
    assert last[1] == EVERYTHING
    assert derived.missing(shape_of({"still more": 1})) is None


def test_one_that_was_refused_is_asked_for_again() -> None:
    derived = Derived()
    shape = shape_of({"a": 1})
    first = derived.missing(shape)
    assert first is not None
    derived.refused(first[0])
    second = derived.missing(shape)
    assert second is not None
    assert second[0] != first[0]
