"""The set of values that a conjunction of predicates admits for one attribute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roost.language.numberset import ALL_NUMBERS, NO_NUMBERS, NumberSet
from roost.language.stringset import ALL_STRINGS, NO_STRINGS, StringSet
from roost.language.values import Kind, Value, is_nan

_NO_BOOLS: frozenset[bool] = frozenset()
_ALL_BOOLS = frozenset((False, True))


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Numbers, strings and bools: kinds never mix, so a set of values is one set of each."""

    numbers: NumberSet = NO_NUMBERS
    strings: StringSet = NO_STRINGS
    bools: frozenset[bool] = _NO_BOOLS

    def __contains__(self, value: Value) -> bool:
        if isinstance(value, bool):
            return value in self.bools
        if isinstance(value, str):
            return value in self.strings
        return not is_nan(value) and value in self.numbers

    def __bool__(self) -> bool:
        """Whether there is any value in it."""
        return bool(self.bools) or bool(self.numbers) or bool(self.strings)

    def __and__(self, other: ValueSet) -> ValueSet:
        return ValueSet(
            self.numbers & other.numbers, self.strings & other.strings, self.bools & other.bools
        )

    def __le__(self, other: ValueSet) -> bool:
        """Whether every value of this set is in the other."""
        return (
            self.bools <= other.bools
            and self.numbers <= other.numbers
            and self.strings <= other.strings
        )


ANYTHING = ValueSet(ALL_NUMBERS, ALL_STRINGS, _ALL_BOOLS)

_BY_KIND = {
    Kind.NUMBER: ValueSet(numbers=ALL_NUMBERS),
    Kind.STRING: ValueSet(strings=ALL_STRINGS),
    Kind.BOOL: ValueSet(bools=_ALL_BOOLS),
}


def of_kind(kind: Kind) -> ValueSet:
    """All values of one kind."""
    return _BY_KIND[kind]


def finite(values: Iterable[Value]) -> ValueSet:
    """Just these values."""
    numbers, strings, bools = set(), set(), set()
    for value in values:
        if isinstance(value, bool):
            bools.add(value)
        elif isinstance(value, str):
            strings.add(value)
        else:
            numbers.add(value)
    return ValueSet(
        NumberSet(members=frozenset(numbers)) if numbers else NO_NUMBERS,
        StringSet(members=frozenset(strings)) if strings else NO_STRINGS,
        frozenset(bools),
    )
