"""What a filter demands, in the terms of the index: tokens, banned tokens and intervals of numbers.

Bounds are floats. A bound that is an int which no float equals is widened to the nearest float outside, and
the demand is marked inexact: whoever matches it must compare exactly before it counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from roost.language import Filter, Operator
from roost.language.numberset import ALL_NUMBERS, NumberSet
from roost.language.predicate import ORDER_OPERATORS
from roost.language.values import EXACT_INT, Number, Value
from roost.language.valueset import ValueSet, finite
from roost.matching.vocabulary import Attribute


@dataclass(slots=True)
class Demand:
    """One filter: tokens an event must have or not have, and an interval a slot."""

    needed: list[int]
    banned: list[int]
    intervals: dict[int, tuple[float, float]]
    exact: bool = True


# How the index names things: an attribute by its name, and the token of a set of values.
NameAttribute = Callable[[str], Attribute]
NameToken = Callable[[Attribute, ValueSet], int]

_INF = math.inf


def demand_of(filter_: Filter, attribute: NameAttribute, token: NameToken) -> Demand | None:
    """The filter's demand; None if no event can match it."""
    quick = _common_demand(filter_, attribute, token)
    return _general_demand(filter_, attribute, token) if quick is None else quick


def _common_demand(filter_: Filter, attribute: NameAttribute, token: NameToken) -> Demand | None:
    """The demand of a filter of equalities and plain bounds on different attributes, without sets.

    Most filters are like that, and adding them is a hot path; None for any other.
    """
    equal: dict[str, Value] = {}
    bounds: dict[str, tuple[float, float]] = {}
    for predicate in filter_.predicates:
        name, op, constant = predicate.attribute, predicate.operator, predicate.constant
        kind = type(constant)
        if name in equal:
            return None
        if op is Operator.EQ and (kind is str or kind is int or kind is float):
            if name in bounds:
                return None
            equal[name] = constant  # type: ignore[assignment]
        elif op in ORDER_OPERATORS and (kind is float or kind is int):
            if not -EXACT_INT < constant < EXACT_INT:  # type: ignore[operator]
                return None
            low, high = bounds.get(name, (-_INF, _INF))
            bound = float(constant)  # type: ignore[arg-type]
            if op is Operator.GT:
                low = max(low, math.nextafter(bound, _INF))
            elif op is Operator.LT:
                high = min(high, math.nextafter(bound, -_INF))
            elif op is Operator.GE:
                low = max(low, bound)
            else:
                high = min(high, bound)
            if low > high:
                return None
            bounds[name] = (low, high)
        else:
            return None
    # Only now is anything named: a name that no group comes to use would stay for ever.
    needed = []
    for name, value in equal.items():
        a = attribute(name)
        known = a.equal.get(value)
        needed.append(token(a, finite((value,))) if known is None else known)
    return Demand(needed, [], {attribute(name).slot: b for name, b in bounds.items()})


def _general_demand(filter_: Filter, attribute: NameAttribute, token: NameToken) -> Demand | None:
    if not filter_:
        return None
    demand = Demand([], [], {})
    for name, admitted in filter_.sets.items():
        numbers = admitted.numbers
        a = attribute(name)
        if numbers.members is not None or admitted.strings or numbers == ALL_NUMBERS:
            demand.needed.append(token(a, admitted))
            continue
        demand.banned.extend(token(a, finite((x,))) for x in sorted(numbers.excluded))
        if numbers.low == -_INF and numbers.high == _INF:
            demand.needed.append(token(a, ValueSet(numbers=ALL_NUMBERS)))
            continue
        low, high = _outward(numbers)
        demand.exact &= low == numbers.low and high == numbers.high
        demand.intervals[a.slot] = (low, high)
    return demand


def _outward(numbers: NumberSet) -> tuple[float, float]:
    return float_below(numbers.low), float_above(numbers.high)


def float_below(x: Number) -> float:
    """The largest float <= x."""
    f = float(x)
    return f if f <= x else math.nextafter(f, -_INF)


def float_above(x: Number) -> float:
    """The smallest float >= x."""
    f = float(x)
    return f if f >= x else math.nextafter(f, _INF)
