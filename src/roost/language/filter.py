"""Filters, and what they are used for: subscriptions and advertisements.

A filter is a conjunction of predicates. A subscription and an advertisement are each a disjunction of
filters: the first says which events somebody wants, the second which events somebody may publish. Both
are the same kind of statement about events, so `covers` and `overlaps` take any mix of the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import final

from roost.errors import type_of
from roost.language.errors import LanguageError
from roost.language.event import Event
from roost.language.predicate import Predicate
from roost.language.valueset import ANYTHING, ValueSet

PREDICATES_MAX = 256
FILTERS_MAX = 64


@final
class Filter:
    """A conjunction: an event matches when it satisfies every predicate. Without any, it matches all."""

    __slots__ = ("_sets", "predicates")

    predicates: tuple[Predicate, ...]
    _sets: Mapping[str, ValueSet] | None

    def __init__(self, predicates: Iterable[Predicate] = ()) -> None:
        if not hasattr(predicates, "__iter__"):
            raise TypeError(f"the predicates are {type_of(predicates)}; expected Predicates")
        self.predicates = tuple(predicates)
        self._sets = None
        for predicate in self.predicates:
            if not isinstance(predicate, Predicate):
                raise _wrong("predicates", predicate, "Predicate", "parse_filter")
        if len(self.predicates) > PREDICATES_MAX:
            raise LanguageError(
                f"filter: {len(self.predicates):,} predicates; at most {PREDICATES_MAX} are allowed"
            )

    def matches(self, event: Event) -> bool:
        """Whether the event satisfies every predicate (a missing attribute satisfies none)."""
        try:
            attributes = event.attributes
        except AttributeError:
            raise not_an_event(event) from None
        return all(
            p.attribute in attributes and p.holds(attributes[p.attribute]) for p in self.predicates
        )

    @property
    def sets(self) -> Mapping[str, ValueSet]:
        """The same filter as a set of admitted values an attribute."""
        if self._sets is None:
            by_name: dict[str, list[ValueSet]] = {}
            for p in self.predicates:
                by_name.setdefault(p.attribute, []).append(p.accepts())
            self._sets = {name: reduce(and_, sets, ANYTHING) for name, sets in by_name.items()}
        return self._sets

    def __bool__(self) -> bool:
        """Whether any event can match."""
        return all(self.sets.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.predicates == other.predicates

    def __hash__(self) -> int:
        return hash(self.predicates)

    def __str__(self) -> str:
        """The readable form, which `parse_filter` reads back."""
        return " and ".join(map(str, self.predicates)) or "*"

    def __repr__(self) -> str:
        return f"Filter({list(self.predicates)!r})"


class Disjunction:
    """Several filters; an event matches when it matches one of them."""

    __slots__ = ("filters",)

    filters: tuple[Filter, ...]

    def __init__(self, filters: Iterable[Filter]) -> None:
        if not hasattr(filters, "__iter__"):
            raise TypeError(f"the filters are {type_of(filters)}; expected Filters")
        self.filters = tuple(filters)
        for filter_ in self.filters:
            if not isinstance(filter_, Filter):
                raise _wrong("filters", filter_, "Filter", "parse_subscription")
        if not self.filters:
            raise LanguageError(f"{type(self).__name__.lower()}: needs at least one filter")
        if len(self.filters) > FILTERS_MAX:
            raise LanguageError(
                f"{type(self).__name__.lower()}: {len(self.filters):,} filters;"
                f" at most {FILTERS_MAX} are allowed"
            )

    def matches(self, event: Event) -> bool:
        """Whether the event matches one of the filters."""
        return any(f.matches(event) for f in self.filters)

    def __bool__(self) -> bool:
        """Whether any event can match."""
        return any(self.filters)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.filters == other.filters

    def __hash__(self) -> int:
        return hash((type(self), self.filters))

    def __str__(self) -> str:
        """The readable form, which the parsers read back."""
        if len(self.filters) == 1:
            return str(self.filters[0])
        return " or ".join(f"({f})" if len(f.predicates) > 1 else str(f) for f in self.filters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.filters)!r})"


@final
class Subscription(Disjunction):
    """The events that a subscriber wants."""

    __slots__ = ()


@final
class Advertisement(Disjunction):
    """The events that a publisher may publish: each of them matches the advertisement.

    An event may carry attributes that its advertisement does not name (001 section 2.1.2 leaves this
    open; reading it otherwise would make a subscription on such an attribute miss events).
    """

    __slots__ = ()


Interest = Filter | Subscription | Advertisement


def filters_of(interest: Interest) -> tuple[Filter, ...]:
    """The filters of which one must match."""
    if isinstance(interest, Filter):
        return (interest,)
    if isinstance(interest, Disjunction):
        return interest.filters
    raise TypeError(
        f"the interest is {type_of(interest)}; expected a Filter, a Subscription or an"
        " Advertisement (parse_filter and others make one of a text)"
    )


def not_an_event(event: object) -> TypeError:
    """Something else was handed in where an event is matched."""
    return TypeError(f"the event is {type_of(event)}; expected an Event, of attributes")


def check_filter(filter_: object) -> None:
    """A TypeError if it is none."""
    if not isinstance(filter_, Filter):
        what = f"the filter is {type_of(filter_)}; expected a Filter"
        raise TypeError(f"{what} (parse_filter makes one of a text)")


def _wrong(name: str, member: object, kind: str, parser: str) -> TypeError:
    what = f"among the {name} is {type_of(member)}; expected only {kind}s"
    return TypeError(f"{what} ({parser} reads a text)")
