"""Filters and events as text, in the spelling that the parsers read back to the same thing.

The readable form is what `str` gives, so it stands with the classes themselves; here is the papers'
bracket syntax, and JSON.
"""

from __future__ import annotations

import json
import math

from roost.errors import type_of
from roost.language.errors import LanguageError
from roost.language.event import Event
from roost.language.filter import Filter, Interest, filters_of
from roost.language.literals import write_name, write_value
from roost.language.predicate import Operator, Predicate
from roost.language.values import Kind

_PAPERS_SPELLING = {
    Operator.EQ: "eq",
    Operator.NE: "neq",
    Operator.PREFIX: "str-prefix",
    Operator.SUFFIX: "str-suffix",
    Operator.CONTAINS: "str-contains",
    Operator.PRESENT: "isPresent",
}
# `isPresent` says the kind by an example of it.
_WITNESS = {None: "*", Kind.NUMBER: "0", Kind.STRING: "''", Kind.BOOL: "false"}


def to_readable(x: Predicate | Interest) -> str:
    """`class = 'STOCK' and volume > 300000`."""
    if not isinstance(x, Predicate):
        filters_of(x)  # or it says what it is instead
    return str(x)


def to_bracket(x: Predicate | Interest | Event) -> str:
    """`[class,eq,'STOCK'],[volume,>,300000]`, or for an event `[class,'STOCK'],[volume,400000]`."""
    if isinstance(x, Event):
        return str(x)
    if isinstance(x, Predicate):
        return _predicate(x)
    return " or ".join(map(_filter, filters_of(x)))


def to_json(event: Event) -> str:
    """`{"class": "STOCK", "volume": 400000}`; an error for the numbers that JSON does not have."""
    if not isinstance(event, Event):
        raise TypeError(f"the event is {type_of(event)}; expected an Event")
    for name, value in event.attributes.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise LanguageError(f"event attribute {name[:40]!r}: JSON has no {value}")
    return json.dumps(event.attributes, ensure_ascii=False)


def _filter(filter_: Filter) -> str:
    return ",".join(map(_predicate, filter_.predicates)) or "[*]"


def _predicate(predicate: Predicate) -> str:
    constant = predicate.constant
    if constant is None or isinstance(constant, Kind):
        written = _WITNESS[constant]
    elif isinstance(constant, tuple):
        written = f"({','.join(map(write_value, constant))})"
    else:
        written = write_value(constant)
    operator = _PAPERS_SPELLING.get(predicate.operator, predicate.operator.value)
    return f"[{write_name(predicate.attribute)},{operator},{written}]"
