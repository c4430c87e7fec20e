"""A predicate: one condition on one attribute.

`Predicate.holds` is the meaning of the language, written in the obvious way. `Predicate.accepts` says the
same as a set of values; `covers`, `overlaps` and the matching index are built on that, and property tests
hold the two to each other.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any, assert_never, final

from roost.errors import type_of
from roost.language import numberset, stringset
from roost.language.errors import LanguageError
from roost.language.literals import write_readable_name, write_value
from roost.language.numberset import ALL_NUMBERS, NumberSet
from roost.language.stringset import StringSet
from roost.language.values import (
    CONSTANT_LENGTH_MAX,
    Kind,
    Number,
    Value,
    check_name,
    check_value,
    is_nan,
    kind_of,
)
from roost.language.valueset import ANYTHING, ValueSet, finite, of_kind

MEMBERS_MAX = 4_096


class Operator(enum.Enum):
    """The operators, by their readable spelling."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    PRESENT = "present"


STRING_OPERATORS = frozenset((Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS))
ORDER_OPERATORS = frozenset((Operator.LT, Operator.LE, Operator.GT, Operator.GE))

# What stands on the right of an operator: a value, the members of `in`, the kind that `present` asks for.
Constant = Value | tuple[Value, ...] | Kind | None

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
    Operator.PREFIX: str.startswith,
    Operator.SUFFIX: str.endswith,
    Operator.CONTAINS: operator.contains,
}


@final
class Predicate:
    """`attribute operator constant`, for instance `volume > 300000`.

    The constant of IN is a tuple of values (kept sorted, without repetition); that of PRESENT is the
    `Kind` the value must have, or None for any. Two predicates are equal when they say the same thing
    in the same way: 1 and 1.0 are one constant, 1 and true are not.
    """

    __slots__ = ("attribute", "constant", "operator")

    attribute: str
    operator: Operator
    constant: Constant

    def __init__(self, attribute: str, operator: Operator, constant: Constant = None) -> None:
        self.attribute = check_name(attribute, "predicate")
        if not isinstance(operator, Operator):
            raise LanguageError(f"predicate on {attribute!r}: {operator!r} is not an Operator")
        self.operator = operator
        self.constant = _check_constant(attribute, operator, constant)

    def holds(self, value: Value) -> bool:
        """Whether the attribute's value satisfies this predicate; another kind of value does not."""
        if not isinstance(value, (int, float, str)):  # a bool is an int
            what = f"the value is {type_of(value)}"
            raise TypeError(f"{what}; expected a bool, an int, a float or a string")
        if is_nan(value):
            return False
        if self.operator is Operator.PRESENT:
            return self.constant is None or kind_of(value) is self.constant
        if isinstance(self.constant, tuple):
            return any(kind_of(value) is kind_of(c) and value == c for c in self.constant)
        assert self.constant is not None and not isinstance(self.constant, Kind)
        if kind_of(value) is not kind_of(self.constant):
            return False
        return _COMPARE[self.operator](value, self.constant)

    def accepts(self) -> ValueSet:
        """The values that satisfy this predicate, as a set."""
        constant = self.constant
        if self.operator is Operator.PRESENT:
            return of_kind(constant) if isinstance(constant, Kind) else ANYTHING
        if isinstance(constant, tuple):
            return finite(constant)
        assert constant is not None and not isinstance(constant, Kind)
        if self.operator is Operator.EQ:
            return finite((constant,))
        if isinstance(constant, bool):
            return finite((not constant,))
        if isinstance(constant, str):
            return ValueSet(strings=_strings(self.operator, constant))
        return ValueSet(numbers=_numbers(self.operator, constant))

    def _identity(self) -> tuple[object, ...]:
        constant = self.constant
        if isinstance(constant, tuple):
            return (self.attribute, self.operator, constant, tuple(map(kind_of, constant)))
        return (self.attribute, self.operator, constant, isinstance(constant, bool))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        """The readable form, which `parse_filter` reads back."""
        words = [write_readable_name(self.attribute), self.operator.value]
        if isinstance(self.constant, Kind):
            words.append(self.constant.value)
        elif isinstance(self.constant, tuple):
            words.append(f"({', '.join(map(write_value, self.constant))})")
        elif self.constant is not None:
            words.append(write_value(self.constant))
        return " ".join(words)

    def __repr__(self) -> str:
        constant = "" if self.constant is None else f", {self.constant!r}"
        return f"Predicate({self.attribute!r}, {self.operator}{constant})"


def _check_constant(attribute: str, op: Operator, constant: Constant) -> Constant:
    # Mostly, and quickly told.
    if op is Operator.EQ and type(constant) is str and _is_plain(constant):
        return constant
    where = f"predicate on {attribute[:40]!r}"
    if op is Operator.PRESENT:
        if constant is not None and not isinstance(constant, Kind):
            raise LanguageError(f"{where}: 'present' takes a kind of value or nothing")
        return constant
    if op is Operator.IN:
        return _check_members(where, constant)
    value = _check_scalar(where, constant)
    if op in STRING_OPERATORS and not isinstance(value, str):
        raise LanguageError(f"{where}: '{op.value}' needs a string, not {value!r}")
    if op in ORDER_OPERATORS and isinstance(value, bool):
        raise LanguageError(f"{where}: '{op.value}' needs a number or a string, not a bool")
    return value


def _is_plain(text: str) -> bool:
    return len(text) <= CONSTANT_LENGTH_MAX and text.isascii()


def _check_members(where: str, constant: Constant) -> tuple[Value, ...]:
    if not isinstance(constant, tuple):
        raise LanguageError(f"{where}: 'in' needs a tuple of values")
    if not constant:
        raise LanguageError(f"{where}: 'in' needs at least one value")
    if len(constant) > MEMBERS_MAX:
        raise LanguageError(
            f"{where}: 'in' has {len(constant):,} values; at most {MEMBERS_MAX:,} are allowed"
        )
    keyed = {(kind_of(v).value, v): v for v in (_check_scalar(where, c) for c in constant)}
    return tuple(keyed[key] for key in sorted(keyed))


def _check_scalar(where: str, constant: object) -> Value:
    value = check_value(constant, where, CONSTANT_LENGTH_MAX)
    if is_nan(value):
        raise LanguageError(f"{where}: NaN compares with nothing, so this would never be true")
    return value


def _numbers(op: Operator, x: Number) -> NumberSet:
    match op:
        case Operator.NE:
            return numberset.interval(ALL_NUMBERS.low, ALL_NUMBERS.high, frozenset((x,)))
        case Operator.LT:
            return numberset.below(x)
        case Operator.LE:
            return NumberSet(high=x)
        case Operator.GT:
            return numberset.above(x)
        case Operator.GE:
            return NumberSet(low=x)
        case Operator.EQ | Operator.IN | Operator.PRESENT:
            raise AssertionError(f"{op} is a finite set, or all of a kind")
        case Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS:
            raise AssertionError(f"{op} is for strings")
        case _:
            assert_never(op)


def _strings(op: Operator, s: str) -> StringSet:
    match op:
        case Operator.NE:
            return StringSet(excluded=frozenset((s,)))
        case Operator.LT:
            return StringSet(high=s)
        case Operator.LE:
            return StringSet(high=stringset.successor(s))
        case Operator.GT:
            return StringSet(low=stringset.successor(s))
        case Operator.GE:
            return StringSet(low=s)
        case Operator.PREFIX:
            return stringset.starting_with(s)
        case Operator.SUFFIX:
            return StringSet(suffix=s)
        case Operator.CONTAINS:
            return StringSet(infixes=frozenset((s,)))
        case Operator.EQ | Operator.IN | Operator.PRESENT:
            raise AssertionError(f"{op} is a finite set, or all of a kind")
        case _:
            assert_never(op)
