"""Sets of numbers that conjunctions of predicates can describe, with exact answers.

The numbers form a discrete line (see `values`), so every bound can be closed: a set is either finitely
many `members`, or the closed interval `low..high` without some `excluded` points. The ends of an
interval are never excluded points: building it moves them inwards. Hence it is empty only if
low > high, and one interval lies within another just if its ends do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roost.language.values import Number, next_number, previous_number


@dataclass(frozen=True, slots=True)
class NumberSet:
    """Finitely many `members`, or `low..high` without the points `excluded`."""

    low: Number = -math.inf
    high: Number = math.inf
    excluded: frozenset[Number] = frozenset()
    members: frozenset[Number] | None = None

    def __contains__(self, x: Number) -> bool:
        if self.members is not None:
            return x in self.members
        return self.low <= x <= self.high and x not in self.excluded

    def __bool__(self) -> bool:
        """Whether there is any number in it."""
        return bool(self.members) if self.members is not None else self.low <= self.high

    def __and__(self, other: NumberSet) -> NumberSet:
        if self.members is not None:
            return NumberSet(members=frozenset(x for x in self.members if x in other))
        if other.members is not None:
            return other & self
        low, high = max(self.low, other.low), min(self.high, other.high)
        return interval(low, high, self.excluded | other.excluded)

    def __le__(self, other: NumberSet) -> bool:
        """Whether every number of this set is in the other."""
        if self.members is not None:
            return all(x in other for x in self.members)
        if not self:
            return True
        if other.members is not None:
            return self._walk_within(other.members)
        return (
            other.low <= self.low
            and self.high <= other.high
            and not any(x in self for x in other.excluded)
        )

    def _walk_within(self, members: frozenset[Number]) -> bool:
        # Ends soon: each step but the last lands on a member or an excluded point.
        x: Number | None = self.low
        while x is not None and x <= self.high:
            if x not in members and x not in self.excluded:
                return False
            x = next_number(x)
        return True


ALL_NUMBERS = NumberSet()
NO_NUMBERS = NumberSet(members=frozenset())


def interval(low: Number, high: Number, excluded: frozenset[Number] = frozenset()) -> NumberSet:
    """The closed interval `low..high` without `excluded`, with its ends drawn in past excluded points."""
    first: Number | None = low
    while first is not None and first <= high and first in excluded:
        first = next_number(first)
    last: Number | None = high
    while last is not None and last >= low and last in excluded:
        last = previous_number(last)
    if first is None or last is None or first > last:
        return NO_NUMBERS
    return NumberSet(first, last, frozenset(x for x in excluded if first < x < last))


def above(x: Number) -> NumberSet:
    """All numbers greater than `x`."""
    low = next_number(x)
    return NO_NUMBERS if low is None else NumberSet(low=low)


def below(x: Number) -> NumberSet:
    """All numbers less than `x`."""
    high = previous_number(x)
    return NO_NUMBERS if high is None else NumberSet(high=high)
