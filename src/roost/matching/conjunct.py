"""A filter in the terms in which coverings are found: points, spans and other sets.

Each attribute that a satisfiable filter speaks of stands in just one of three tables:

    points   it must equal one value           symbol = 'IBM'
    spans    it must lie in an interval        volume > 300000, 10 <= high <= 20
    others   it must lie in any other set      name prefix 'A', price != 0, size in (1, 2), date present

Whatever the spelling, a set of one value stands among the points (so `x >= 5 and x <= 5` is `x = 5`).
That makes two rules exact, on which the access keys of `poset_candidates` rest:

    a point covers an equal point, and nothing else;
    a span covers a set of numbers just if it holds the smallest and the largest of them.

The tables say what `roost.language.covers` says, only faster; tests hold the two to each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import TypeGuard

from roost.language import Filter, Interest, Operator, filters_of
from roost.language.numberset import NumberSet
from roost.language.stringset import StringSet
from roost.language.values import MIN_CHAR, Number, next_number, previous_number
from roost.language.valueset import ValueSet

# A value that equals no value of another kind: a bool stands in a tuple, as True == 1 in Python.
Point = str | int | float | tuple[bool]
Span = tuple[Number, Number]

_INF = math.inf


class Conjunct:
    """A filter that some event matches, as three tables by attribute."""

    __slots__ = ("filter", "others", "points", "spans")

    def __init__(
        self,
        filter_: Filter,
        points: dict[str, Point],
        spans: dict[str, Span],
        others: dict[str, ValueSet],
    ) -> None:
        self.filter = filter_
        self.points = points
        self.spans = spans
        self.others = others

    def covers(self, other: Conjunct) -> bool:
        """Whether every event that matches `other` matches this."""
        for name, point in self.points.items():
            if other.points.get(name) != point:
                return False
        for name, (low, high) in self.spans.items():
            span = other.span(name)
            if span is None or span[0] < low or high < span[1]:
                return False
        return all(other.lies_within(name, wide) for name, wide in self.others.items())

    def span(self, name: str) -> Span | None:
        """The smallest and the largest number that the attribute may be.

        None if it may also be something else, or if the filter does not speak of it.
        """
        span = self.spans.get(name)
        if span is not None:
            return span
        point = self.points.get(name)
        if point is not None:
            return (point, point) if isinstance(point, int | float) else None
        admitted = self.others.get(name)
        if admitted is None or admitted.strings or admitted.bools:
            return None
        return _ends(admitted.numbers)

    def lies_within(self, name: str, wide: ValueSet) -> bool:
        """Whether the attribute must have a value of the set `wide`."""
        point = self.points.get(name)
        if point is not None:
            return (point[0] if isinstance(point, tuple) else point) in wide
        if name in self.spans:
            return self.filter.sets[name] <= wide
        admitted = self.others.get(name)
        if admitted is None:
            return False
        # The first word of a prefix tells most of them apart, and comparing sets takes long.
        word = admitted.strings.low
        return (word in wide.strings or word not in admitted.strings) and admitted <= wide


Parts = tuple[Conjunct, ...]


def parts_of(interest: Interest) -> Parts:
    """The filters of which one must match, without those that never do and those another one covers."""
    filters = filters_of(interest)
    if len(filters) == 1:
        only = conjunct_of(filters[0])
        return () if only is None else (only,)
    widest: list[Conjunct] = []
    for filter_ in filters:
        part = conjunct_of(filter_)
        if part is None or any(w.covers(part) for w in widest):
            continue
        widest = [w for w in widest if not part.covers(w)]
        widest.append(part)
    return tuple(widest)


def parts_cover(a: Parts, b: Parts) -> bool:
    """Whether each of `b` is covered by one of `a`."""
    if len(a) == len(b) == 1:
        return a[0].covers(b[0])
    return all(any(x.covers(y) for x in a) for y in b)


def conjunct_of(filter_: Filter) -> Conjunct | None:
    """The filter's tables; None if no event can match it."""
    return _common_conjunct(filter_) or _general_conjunct(filter_)


def _common_conjunct(filter_: Filter) -> Conjunct | None:
    """The tables of a filter of equalities and numeric bounds, without sets; None for any other.

    Most filters are like that, and their sets take longer to make than a place in the poset to find.
    """
    points: dict[str, Point] = {}
    spans: dict[str, Span] = {}
    for predicate in filter_.predicates:
        name, op, constant = predicate.attribute, predicate.operator, predicate.constant
        if name in points:
            return None
        if op is Operator.EQ and (isinstance(constant, str) or _is_number(constant)):
            if name in spans:
                return None
            points[name] = constant
        elif op in _ENDS and _is_number(constant):
            low, high = spans.get(name, (-_INF, _INF))
            one, other = _ENDS[op](constant)
            if one is None or other is None:
                return None
            spans[name] = low, high = max(low, one), min(high, other)
            # Empty, a single point, or no bound at all (`x <= inf`).
            if low >= high or (low == -_INF and high == _INF):
                return None
        else:
            return None
    return Conjunct(filter_, points, spans, {})


def _is_number(constant: object) -> TypeGuard[Number]:
    return type(constant) is float or type(constant) is int


_ENDS: dict[Operator, Callable[[Number], tuple[Number | None, Number | None]]] = {
    Operator.LT: lambda x: (-_INF, previous_number(x)),
    Operator.LE: lambda x: (-_INF, x),
    Operator.GT: lambda x: (next_number(x), _INF),
    Operator.GE: lambda x: (x, _INF),
}


def _general_conjunct(filter_: Filter) -> Conjunct | None:
    if not filter_:
        return None
    points: dict[str, Point] = {}
    spans: dict[str, Span] = {}
    others: dict[str, ValueSet] = {}
    for name, admitted in filter_.sets.items():
        point = _only_value(admitted)
        if point is not None:
            points[name] = point
        elif _is_span(admitted):
            spans[name] = admitted.numbers.low, admitted.numbers.high
        else:
            others[name] = admitted
    return Conjunct(filter_, points, spans, others)


def _is_span(admitted: ValueSet) -> bool:
    numbers = admitted.numbers
    if numbers.members is not None or numbers.excluded:
        return False
    bounded = numbers.low != -_INF or numbers.high != _INF
    return bounded and not admitted.strings and not admitted.bools


def _only_value(admitted: ValueSet) -> Point | None:
    """The value of a set of one value; None for any other set."""
    numbers, strings, bools = admitted.numbers, admitted.strings, admitted.bools
    if numbers:
        low, high = _ends(numbers)
        return low if low == high and not strings and not bools else None
    if bools:
        return (True in bools,) if len(bools) == 1 and not strings else None
    return _only_word(strings)


def _ends(numbers: NumberSet) -> Span:
    """The smallest and the largest; of an interval, the ends are always in it."""
    if numbers.members is not None:
        return min(numbers.members), max(numbers.members)
    return numbers.low, numbers.high


def _only_word(strings: StringSet) -> str | None:
    if strings.members is not None:
        return next(iter(strings.members)) if len(strings.members) == 1 else None
    # What lies between two words is finite only if the second is the first and then MIN_CHARs.
    low, high = strings.low, strings.high
    if high is None or high.rstrip(MIN_CHAR) != low.rstrip(MIN_CHAR):
        return None
    between = (low + n * MIN_CHAR for n in range(len(high) - len(low)))
    words = list(islice((word for word in between if word in strings), 2))
    return words[0] if len(words) == 1 else None
