"""Names and values as text: how they are written, and how they are read back.

Writing and reading stand side by side because they must be each other's inverse: `read(write(x))`
is x, to the sign of a zero and the last control character.
"""

from __future__ import annotations

import math
import re

from roost.language.errors import LanguageError
from roost.language.values import INT_MAX, INT_MIN, NAME_LENGTH_MAX, Value

# `[^\W\d]` is a letter, an underscore or one of Unicode's numerals that are no decimal digits.
BARE_NAME = r"[^\W\d][\w.%\-:/@#$]*"
QUOTED = r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'" + r'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"'

# Words that the readable syntax needs where a name could stand: as names they are quoted.
_WORDS = "and or not in prefix suffix contains present"
_PAPERS_WORDS = (
    "eq neq ispresent str-prefix str-suffix str-contains str-lt str-le str-gt str-ge str-postfix"
)
RESERVED = frozenset(f"{_WORDS} {_PAPERS_WORDS}".split())

_bare_name = re.compile(BARE_NAME).fullmatch
_escape = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)|''|\"\"", re.S)

_ESCAPES = {
    "\\'": "'",
    '\\"': '"',
    "\\\\": "\\",
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
    "\\0": "\0",
}
_INT_LENGTH_MAX = len(str(INT_MIN))
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


class LiteralError(LanguageError):
    """A literal that is well formed but says nothing; `offset` counts from the literal's start."""

    def __init__(
        self, found: str, expected: str, suggestion: str | None = None, offset: int = 0
    ) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected
        self.suggestion = suggestion
        self.offset = offset


def write_value(value: Value) -> str:
    """A value as both syntaxes spell it."""
    if isinstance(value, str):
        return write_string(value, "'")
    if isinstance(value, bool):
        return "true" if value else "false"
    # Not repr(value): a subclass (numpy's float64) may print itself otherwise.
    return float.__repr__(value) if isinstance(value, float) else int.__repr__(value)


def write_name(name: str) -> str:
    """An attribute name: bare if its characters allow it, else in double quotes."""
    return name if _bare_name(name) else write_string(name, '"')


def write_readable_name(name: str) -> str:
    """The same for the readable syntax, where some words are reserved."""
    return write_string(name, '"') if name.lower() in RESERVED else write_name(name)


def write_string(text: str, quote: str) -> str:
    """`text` between quotes, on one line and in printable characters only."""
    if not text.isprintable() or quote in text or "\\" in text:
        text = "".join([_written(c, quote) for c in text])
    return f"{quote}{text}{quote}"


def _written(c: str, quote: str) -> str:
    if c == quote:
        return "\\" + c
    if c in _ESCAPED:
        return _ESCAPED[c]
    if c.isprintable():
        return c
    code = ord(c)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def read_string(literal: str, length_max: int) -> str:
    """What a quoted literal says."""
    text = literal[1:-1]
    if "\\" in text or literal[0] in text:
        text = _unescape(text, literal[0])
    if len(text) > length_max or not text.isascii():
        check_string(text, length_max)
    return text


def _unescape(body: str, quote: str) -> str:
    def meaning(found: re.Match[str]) -> str:
        escape = found[0]
        if escape[0] != "\\":
            return quote if escape[0] == quote else escape
        if found.lastindex is None:
            if escape in _ESCAPES:
                return _ESCAPES[escape]
            raise LiteralError(
                f"the escape \\{_written(escape[1], '')}",
                r"\' \" \\ \n \r \t \0 \xHH \uXXXX or \UXXXXXXXX",
                r"for a backslash itself write \\",
                offset=1 + found.start(),
            )
        code = int(found[found.lastindex], 16)
        if code > 0x10FFFF:
            raise LiteralError(
                f"the escape {escape}",
                "a character up to \\U0010ffff",
                offset=1 + found.start(),
            )
        return chr(code)

    return _escape.sub(meaning, body)


def check_string(text: str, length_max: int, what: str = "string") -> None:
    """Refuse a string that is too long, or that has half a character in it."""
    if len(text) > length_max:
        raise LiteralError(
            f"a {what} of {len(text):,} characters", f"at most {length_max:,} characters"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as bad:
        raise LiteralError(
            f"\\u{ord(text[bad.start]):04x}, half of a surrogate pair", "whole characters"
        ) from None


def check_name(name: str) -> None:
    """Refuse what cannot name an attribute."""
    if not name:
        raise LiteralError("an empty name", "an attribute name")
    check_string(name, NAME_LENGTH_MAX, "name")


def read_integer(literal: str) -> int:
    """The integer that a literal of digits says, if 64 bits hold it."""
    digits = literal
    if len(literal) > _INT_LENGTH_MAX:
        digits = ("-" if literal[0] == "-" else "") + (literal.lstrip("+-0") or "0")
    # Longer ones are not converted at all: that takes more than linear time.
    if len(digits) <= _INT_LENGTH_MAX and INT_MIN <= (value := int(digits)) <= INT_MAX:
        return value
    raise LiteralError(
        f"the integer {abbreviate(literal)}",
        "an integer of 64 bits",
        "write it as a float, such as 1e19, if that is precise enough",
    )


def read_float(literal: str) -> float:
    """The float that a literal says, if it is not too large for one."""
    value = float(literal)
    if math.isinf(value) and literal[-1] not in "fF":
        raise LiteralError(
            f"the number {abbreviate(literal)}", "a number up to 1.7976931348623157e308"
        )
    return value


def abbreviate(text: str) -> str:
    """The beginning of `text`, for a message."""
    return text if len(text) <= 40 else text[:37] + "..."
