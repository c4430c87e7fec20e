"""The values that events carry and predicates compare with.

A value is a bool, an int, a float or a str. Three *kinds* never compare with one another: number,
string and bool (a bool is not a number here, although it is one in Python).

Numbers compare as numbers: 1 = 1.0, and an int beyond 2^53 compares exactly with a float. The ints are
those of 64 bits, because every format that Roost speaks (MessagePack, Arrow, Parquet) has just these.
So the numbers form one discrete line: floats up to 2^53, every int from there to 2^63, floats again
beyond. `next_number` walks it. That is why an open bound can be replaced by a closed one without
changing what it means (`> 5` is `>= next_number(5)`), and why questions such as "is there anything
between these two bounds" have exact answers. NaN is on no line: it satisfies no predicate.

Strings compare by code point. The immediate successor of `s` is `s + "\\0"`, so string bounds can be
made half-open in the same way.
"""

from __future__ import annotations

import enum
import math

from roost.errors import type_of
from roost.language.errors import LanguageError

Value = bool | int | float | str
Number = int | float

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
# Up to here every int is a float and floats are at least as dense as ints.
EXACT_INT = 2**53

NAME_LENGTH_MAX = 256
STRING_LENGTH_MAX = 65_536
CONSTANT_LENGTH_MAX = 4_096

MIN_CHAR, MAX_CHAR = "\0", "\U0010ffff"


class Kind(enum.Enum):
    """The kinds of value; a predicate on a value of another kind is false."""

    NUMBER = "number"
    STRING = "string"
    BOOL = "bool"


def kind_of(value: Value) -> Kind:
    """The kind of a value of the language."""
    if isinstance(value, bool):
        return Kind.BOOL
    return Kind.STRING if isinstance(value, str) else Kind.NUMBER


def is_nan(value: Value) -> bool:
    """Whether `value` is the float that compares with nothing."""
    return isinstance(value, float) and math.isnan(value)


def check_name(name: object, where: str) -> str:
    """`name` if it can name an attribute, else a `LanguageError` that says where and why."""
    if not isinstance(name, str):
        raise LanguageError(f"{where}: an attribute name is a string, not {type_of(name)}")
    if not name:
        raise LanguageError(f"{where}: an attribute name is empty")
    if len(name) > NAME_LENGTH_MAX:
        raise LanguageError(
            f"{where}: the attribute name {name[:20]!r}... has {len(name):,} characters;"
            f" at most {NAME_LENGTH_MAX} are allowed"
        )
    _check_encodable(name, where)
    return name


def check_value(value: object, where: str, length_max: int = STRING_LENGTH_MAX) -> Value:
    """`value` if the language has it, else a `LanguageError` that says where and why."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)  # subclasses, such as NumPy's, become what they stand for
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise LanguageError(
                f"{where}: the integer does not fit 64 bits; write it as a float if that is precise enough"
            )
        return int(value)
    if isinstance(value, str):
        if len(value) > length_max:
            raise LanguageError(
                f"{where}: the string has {len(value):,} characters; at most {length_max:,} are allowed"
            )
        _check_encodable(value, where)
        return str(value)
    hint = _hint(value)
    raise LanguageError(
        f"{where}: {_describe(value)} is not a value; expected a bool, an int, a float or a string"
        " (events are flat)" + (f"\nhint: {hint}" if hint else "")
    )


def _check_encodable(text: str, where: str) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as bad:
        raise LanguageError(
            f"{where}: {text[bad.start]!r} is half of a surrogate pair, not a character"
        ) from None


# What to do with a value of somebody else's, by the module of its type.
_HINTS = {
    "datetime": "write a time as a text, value.isoformat(), or as a number, value.timestamp()",
    "decimal": "write a Decimal as float(value), if that is precise enough, or as str(value)",
    "numpy": "write a value of NumPy as value.item()",
    "uuid": "write it as str(value)",
}


def _hint(value: object) -> str:
    """What was probably meant, of near misses."""
    if value is None:
        return "an attribute that an event does not have is left out"
    if isinstance(value, dict | list | tuple | set | frozenset):
        return "give each part a name of its own, such as order.price"
    if isinstance(value, bytes | bytearray):
        return "write a text as value.decode(); other bytes go along as the payload"
    modules = (kind.__module__ for kind in type(value).__mro__)
    return next((_HINTS[module] for module in modules if module in _HINTS), "")


def _describe(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a nested object"
    if isinstance(value, list | tuple | set | frozenset):
        return "a nested list"
    return type_of(value)


def next_number(x: Number) -> Number | None:
    """The smallest number above `x`; None above infinity."""
    if x == math.inf:
        return None
    if -EXACT_INT <= x < EXACT_INT or x >= 2**63 or x < INT_MIN:
        return math.nextafter(float(x), math.inf)
    return int(x) + 1 if x < INT_MAX else float(2**63)


def previous_number(x: Number) -> Number | None:
    """The largest number below `x`; None below minus infinity."""
    mirrored = next_number(-x)
    return None if mirrored is None else -mirrored


def next_char(c: str) -> str | None:
    """The character after `c` in code point order (surrogates are no characters); None after the last."""
    if c == MAX_CHAR:
        return None
    return "\ue000" if c == "\ud7ff" else chr(ord(c) + 1)


def previous_char(c: str) -> str | None:
    """The character before `c` in code point order; None before the first."""
    if c == MIN_CHAR:
        return None
    return "\ud7ff" if c == "\ue000" else chr(ord(c) - 1)


def after_prefix(prefix: str) -> str | None:
    """The smallest string above all that start with `prefix`; None if there is none."""
    stem = prefix.rstrip(MAX_CHAR)
    if not stem:
        return None
    following = next_char(stem[-1])
    assert following is not None
    return stem[:-1] + following
