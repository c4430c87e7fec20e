"""Columns of types that the language does not have, as values that it has: for `match` and for the sink.

An attribute is a boolean, a whole number, a floating-point number or a text (docs/LANGUAGE.md). So

    timestamp                   a float: seconds since 1970. An instant, which numbers compare
    date, timestamp_ntz         a text, as Spark writes it: 2026-01-31, 2026-01-31 09:30:00.5; in order
    decimal(p,0), up to 18      a whole number, which has room for it
    other decimals              a float, the nearest: there are no other fractions
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

# The types of the language, as Spark names them.
NUMBER, WHOLE, TEXT = "double", "bigint", "string"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# As many digits as all fit into 64 bits.
_WHOLE_DIGITS = 18


def language_type(kind: str) -> str | None:
    """What a column of this type becomes, as Spark names it; None if there is no rule for it."""
    if kind == "timestamp":
        return NUMBER
    if kind in ("date", "timestamp_ntz"):
        return TEXT
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        return None
    digits, scale = map(int, found.groups())
    return WHOLE if scale == 0 and digits <= _WHOLE_DIGITS else NUMBER


def converter(kind: str) -> Callable[[Any], Any] | None:
    """The same for a value of such a column, as Python has it: what Spark's cast gives."""
    if kind == "timestamp":
        return lambda value: value.timestamp()
    if kind in ("date", "timestamp_ntz"):
        return _text
    became = language_type(kind)
    if became is None:
        return None
    return int if became == WHOLE else float


def _text(value: date | datetime | Decimal) -> str:
    text = str(value)
    return text.rstrip("0") if "." in text else text
