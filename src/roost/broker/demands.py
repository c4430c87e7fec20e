"""Advertisements looked at one by one: quicker than a matcher, while a client has only a few.

Most clients advertise once or twice, and each event that they publish has to be like one of these. A filter
that compares attributes with constants is a list of *demands*, each a call of one function of `operator`.
Every other advertisement, and a value of any other type, is left to the matcher.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from roost.language import Advertisement, Operator

# The name, the types that the value may have, and what must hold of it and the constant.
Demand = tuple[str, tuple[type, ...], Callable[[Any, Any], Any], Any]

_NUMBERS = (float, int)
_ANY = (str, float, int, bool)
_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQ: operator.eq,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


def _is_there(value: Any, _: Any) -> bool:
    return bool(value == value)  # noqa: PLR0124 (NaN, which differs from itself, is as good as absent)


def demands_of(advertisement: Advertisement) -> tuple[Demand, ...] | None:
    """What an event must have; None if that is not a matter of a few comparisons."""
    if len(advertisement.filters) != 1:
        return None
    demands: list[Demand] = []
    for predicate in advertisement.filters[0].predicates:
        constant, compare = predicate.constant, _COMPARE.get(predicate.operator)
        if predicate.operator is Operator.PRESENT and constant is None:
            demands.append((predicate.attribute, _ANY, _is_there, None))
        elif compare is not None and type(constant) in (str, float, int):
            types = (str,) if type(constant) is str else _NUMBERS
            demands.append((predicate.attribute, types, compare, constant))
        else:
            return None
    return tuple(demands)


def meets(demands: tuple[Demand, ...], attributes: Mapping[str, Any]) -> bool | None:
    """Whether an event meets them all; None if that is not for us to say."""
    for name, types, holds, constant in demands:
        value = attributes.get(name)
        if type(value) not in types:
            return False if value is None or type(value) in _ANY else None
        if not holds(value, constant):
            return False
    return True
