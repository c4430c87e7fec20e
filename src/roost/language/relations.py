"""Covering and overlapping (001 section 2.1.2 and 2.1.3), and simplification.

`covers(a, b)`: every event that matches b matches a. Then a broker that already receives a's events need
not ask for b's. `overlaps(a, b)`: some event matches both. Then a subscription must travel towards the
advertisement.

Both are exact between conjunctions. With disjunctions `overlaps` stays exact, and `covers` is sound: it
may say no where only several filters of `a` together cover one of `b` (deciding that is co-NP-hard), and
then a subscription travels a little farther than it had to. It never says yes wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass

from roost.language.filter import Filter, Interest, check_filter, filters_of
from roost.language.predicate import Predicate
from roost.language.valueset import ANYTHING, ValueSet


def covers(a: Interest, b: Interest) -> bool:
    """Whether every event that matches `b` also matches `a`."""
    return all(any(_covers(x, y) for x in filters_of(a)) for y in filters_of(b))


def overlaps(a: Interest, b: Interest) -> bool:
    """Whether some event matches both."""
    return any(_overlaps(x, y) for x in filters_of(a) for y in filters_of(b))


def _covers(a: Filter, b: Filter) -> bool:
    wide, narrow = a.sets, b.sets
    if all(name in narrow and narrow[name] <= admitted for name, admitted in wide.items()):
        return True
    return not b


def _overlaps(a: Filter, b: Filter) -> bool:
    if not (a and b):
        return False
    return all(admitted & b.sets[name] for name, admitted in a.sets.items() if name in b.sets)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why a filter can never match: these predicates on one attribute exclude each other."""

    attribute: str
    predicates: tuple[Predicate, ...]


def contradictions(filter_: Filter) -> tuple[Contradiction, ...]:
    """The attributes for which no value satisfies the filter; empty if some event can match."""
    check_filter(filter_)
    return tuple(
        Contradiction(name, tuple(p for p in filter_.predicates if p.attribute == name))
        for name, admitted in filter_.sets.items()
        if not admitted
    )


def simplify(filter_: Filter) -> Filter:
    """The filter without the predicates that others on the same attribute imply.

    It matches the same events. Of predicates that imply each other the first stays.
    """
    check_filter(filter_)
    by_name: dict[str, list[int]] = {}
    for i, predicate in enumerate(filter_.predicates):
        by_name.setdefault(predicate.attribute, []).append(i)
    dropped: set[int] = set()
    for positions in by_name.values():
        dropped.update(_implied([filter_.predicates[i].accepts() for i in positions], positions))
    return Filter(p for i, p in enumerate(filter_.predicates) if i not in dropped)


def _implied(admitted: list[ValueSet], positions: list[int]) -> list[int]:
    """The positions that can go, from the last to the first, as what is left implies them."""
    before = [ANYTHING]
    for one in admitted[:-1]:
        before.append(before[-1] & one)
    after = ANYTHING
    dropped: list[int] = []
    for i in reversed(range(len(admitted))):
        others = before[i] & after
        if len(admitted) - len(dropped) > 1 and others <= admitted[i]:
            dropped.append(positions[i])
        else:
            after &= admitted[i]
    return dropped
