"""Searchable dimensions: where an event is on each, and what a subscription takes of it (004 III.A).

A *dimension* is an attribute with a line of *coordinates*, which are floats. An event is a point: a
coordinate a dimension, or none where it does not have the attribute. A subscription is a *footprint*: for
each of its filters and each dimension some closed spans, or the whole line where it says nothing of the
attribute.

All that the partition relies on is this: **if an event matches a filter, then on every dimension either the
filter takes the whole line, or the event has a coordinate there and it lies in one of the filter's spans.**
Two values may share a coordinate, and a span may be wider than what is asked for: that costs copies, and
never a match.

    numbers    are their own coordinates; rounding an int to a float keeps the order, and infinity is
               where the greatest float is
    strings    are hashed in order: the first seven characters are the digits of a fraction, which is laid
               over the extent of the dimension. Strings that begin alike share a coordinate
    bools      are at the two ends of the extent
    missing    the event is on the whole line: only filters that take all of it can match (so with NaN)
    =, in      points                     >, <, open ranges      spans that end at infinity
    or         a filter each              !=, suffix, contains   the whole of their kind
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from roost.language import Event, Filter, Interest, Value, filters_of
from roost.language.numberset import NumberSet
from roost.language.stringset import StringSet
from roost.language.values import is_nan
from roost.language.valueset import ValueSet

# Both ends belong to it.
Span: TypeAlias = tuple[float, float]
# Of a filter on a dimension: spans, or None for the whole line.
Spans: TypeAlias = tuple[Span, ...] | None
Point: TypeAlias = tuple[float | None, ...]
Footprint: TypeAlias = tuple[tuple[Spans, ...], ...]

# Digits of a string: 0 for its end, 1 for a control character, 2 and on from the blank, the last for all
# behind the tilde. Seven of them fit into a float.
BASE = 98
DIGITS = 7
FIRST, LAST = ord(" "), ord("~")


class Dimension(Struct, frozen=True, array_like=True):
    """An attribute, and where its values are to be expected: outside of that they are rare, and welcome."""

    attribute: str
    low: float = 0.0
    high: float = 1.0

    def coordinate(self, value: Value) -> float | None:
        """Where a value is; None for what no predicate is true of."""
        if isinstance(value, bool):
            return self.high if value else self.low
        if isinstance(value, str):
            return self._laid(ordered_hash(value))
        return None if is_nan(value) else _placed(value)

    def spans(self, values: ValueSet) -> tuple[Span, ...]:
        """Where these values are."""
        found = [*_of_numbers(values.numbers), *self._of_strings(values.strings)]
        ends = [self.high if value else self.low for value in sorted(values.bools)]
        return merged([*found, *((end, end) for end in ends)])

    def _of_strings(self, strings: StringSet) -> Iterable[Span]:
        if strings.members is not None:
            places = sorted(self._laid(ordered_hash(member)) for member in strings.members)
            return [(place, place) for place in places]
        if not strings:
            return []
        last = self.high if strings.high is None else self._laid(ordered_hash(strings.high))
        return [(self._laid(ordered_hash(strings.low)), last)]

    def _laid(self, fraction: float) -> float:
        return self.low + fraction * (self.high - self.low)


def ordered_hash(text: str) -> float:
    """A fraction below 1: of two strings the one behind the other has no smaller one.

    What comes behind a character that shares its digit with others does not count.
    """
    number = 0
    alone = True
    for place in range(DIGITS):
        digit = 0
        if alone and place < len(text):
            code = ord(text[place])
            digit = min(max(code, FIRST - 1), LAST + 1) - FIRST + 2
            alone = FIRST <= code <= LAST
        number = number * BASE + digit
    fraction: float = number / BASE**DIGITS
    return fraction


def _of_numbers(numbers: NumberSet) -> Iterable[Span]:
    if numbers.members is not None:
        return [(_placed(member), _placed(member)) for member in sorted(numbers.members)]
    return [(_placed(numbers.low), float(numbers.high))] if numbers else []


def _placed(number: float) -> float:
    """Where a number is: segments do not include their ends, so what is infinite is at the last before."""
    return min(float(number), sys.float_info.max)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same, in order and apart from each other."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def point_of(event: Event, dimensions: Sequence[Dimension]) -> Point:
    """Where an event is."""
    attributes = event.attributes
    return tuple(
        dimension.coordinate(attributes[dimension.attribute])
        if dimension.attribute in attributes
        else None
        for dimension in dimensions
    )


def footprint_of(interest: Interest, dimensions: Sequence[Dimension]) -> Footprint:
    """What a subscription takes; filters that nothing can match take nothing."""
    return tuple(_of_filter(f, dimensions) for f in filters_of(interest) if f)


def _of_filter(one: Filter, dimensions: Sequence[Dimension]) -> tuple[Spans, ...]:
    found: list[Spans] = []
    for dimension in dimensions:
        values = one.sets.get(dimension.attribute)
        # `present` takes all values, and still not an event without any: its spans are the whole line.
        found.append(None if values is None else dimension.spans(values))
    return tuple(found)
