"""Why: why an event matches a filter or does not, and why one filter does not cover another.

The answers come with examples (an event that tells two filters apart). An example is looked for
among likely values and tried before it is given; where none is found the answer is None, and
nothing follows from that.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from roost.language.event import Event
from roost.language.filter import Filter, Interest, filters_of
from roost.language.literals import write_value
from roost.language.predicate import Operator, Predicate
from roost.language.relations import contradictions, simplify
from roost.language.sample import sample, samples
from roost.language.values import Kind, Value, is_nan, kind_of
from roost.language.valueset import ANYTHING, ValueSet


class Cause(enum.Enum):
    """Why a predicate holds for an event or fails."""

    HELD = "held"
    MISSING = "missing"
    KIND = "kind"
    NAN = "nan"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One predicate against one event; `value` is the event's, None where it has none."""

    predicate: Predicate
    value: Value | None
    cause: Cause

    @property
    def held(self) -> bool:
        """Whether the predicate holds."""
        return self.cause is Cause.HELD

    @property
    def why(self) -> str:
        """The same as a sentence without its end; empty for what holds."""
        match self.cause:
            case Cause.HELD:
                return ""
            case Cause.MISSING:
                return "the event does not have the attribute"
            case Cause.NAN:
                return "NaN satisfies no predicate"
            case Cause.KIND:
                assert self.value is not None
                asked = " or a ".join(kind.value for kind in _kinds(self.predicate))
                return f"the event has a {kind_of(self.value).value}, the filter asks for a {asked}"
            case Cause.VALUE:
                assert self.value is not None
                return f"{write_value(self.value)} {self._failure()}"
            case _:
                assert_never(self.cause)

    def _failure(self) -> str:
        constant = self.predicate.constant
        if isinstance(constant, tuple):
            return "is none of the values"
        assert constant is not None and not isinstance(constant, Kind)
        return f"{_FAILED[self.predicate.operator]} {write_value(constant)}"


_FAILED = {
    Operator.EQ: "is not",
    Operator.NE: "equals",
    Operator.LT: "is not less than",
    Operator.LE: "is greater than",
    Operator.GT: "is not greater than",
    Operator.GE: "is less than",
    Operator.PREFIX: "does not start with",
    Operator.SUFFIX: "does not end with",
    Operator.CONTAINS: "does not contain",
}


def explain(filter_: Filter, event: Event) -> tuple[Outcome, ...]:
    """The outcome of every predicate; the event matches if all of them held."""
    return tuple(_outcome(predicate, event) for predicate in filter_.predicates)


def redundant(filter_: Filter) -> tuple[Predicate, ...]:
    """The predicates that the others imply; none if the filter can never match anyway."""
    if contradictions(filter_):
        return ()
    kept = {id(predicate) for predicate in simplify(filter_).predicates}
    return tuple(predicate for predicate in filter_.predicates if id(predicate) not in kept)


@dataclass(frozen=True, slots=True)
class Gap:
    """An attribute for which `b` admits something that `a` does not.

    `asked` tells whether `b` says anything about it: if not, an event without the attribute is such
    a thing. Otherwise `example` is a value, if one was found.
    """

    attribute: str
    asked: bool
    example: Value | None


def gaps(a: Filter, b: Filter) -> tuple[Gap, ...]:
    """Why `a` does not cover `b`; empty just if it does."""
    if not b:
        return ()
    found = []
    for name, admitted in a.sets.items():
        if name not in b.sets:
            found.append(Gap(name, asked=False, example=None))
        elif not b.sets[name] <= admitted:
            found.append(Gap(name, asked=True, example=sample(b.sets[name], but_not=admitted)))
    return tuple(found)


def apart(a: Filter, b: Filter) -> tuple[str, ...]:
    """The attributes for which no value satisfies both, though each filter alone can match."""
    if not (a and b):
        return ()
    return tuple(name for name in a.sets if name in b.sets and not a.sets[name] & b.sets[name])


def counterexample(a: Interest, b: Interest) -> Event | None:
    """An event that matches `b` and not `a`."""
    for narrow in filters_of(b):
        for wide in filters_of(a):
            for event in _outside(wide, narrow):
                if b.matches(event) and not a.matches(event):
                    return event
    return None


def common_example(a: Interest, b: Interest) -> Event | None:
    """An event that matches both."""
    for x in filters_of(a):
        for y in filters_of(b):
            names = [*x.sets, *(name for name in y.sets if name not in x.sets)]
            event = _event({n: _admitted(x, n) & _admitted(y, n) for n in names})
            if event is not None and a.matches(event) and b.matches(event):
                return event
    return None


def _outside(wide: Filter, narrow: Filter) -> Iterator[Event]:
    typical = _event(narrow.sets)
    if typical is None:
        return
    for gap in gaps(wide, narrow):
        if not gap.asked:
            yield typical
            continue
        admitted = narrow.sets[gap.attribute], wide.sets[gap.attribute]
        for value in samples(*admitted):
            yield Event({**typical.attributes, gap.attribute: value})


def _event(admitted: Mapping[str, ValueSet]) -> Event | None:
    values = {name: sample(values) for name, values in admitted.items()}
    known = {name: value for name, value in values.items() if value is not None}
    return Event(known) if len(known) == len(values) else None


def _admitted(filter_: Filter, name: str) -> ValueSet:
    return filter_.sets.get(name, ANYTHING)


def _outcome(predicate: Predicate, event: Event) -> Outcome:
    value = event.attributes.get(predicate.attribute)
    if value is None:
        return Outcome(predicate, None, Cause.MISSING)
    if predicate.holds(value):
        cause = Cause.HELD
    elif is_nan(value):
        cause = Cause.NAN
    elif kind_of(value) not in _kinds(predicate):
        cause = Cause.KIND
    else:
        cause = Cause.VALUE
    return Outcome(predicate, value, cause)


def _kinds(predicate: Predicate) -> tuple[Kind, ...]:
    """The kinds of value that a predicate can hold for."""
    constant = predicate.constant
    if constant is None:
        return tuple(Kind)
    if isinstance(constant, Kind):
        return (constant,)
    if isinstance(constant, tuple):
        return tuple(dict.fromkeys(map(kind_of, constant)))
    return (kind_of(constant),)
