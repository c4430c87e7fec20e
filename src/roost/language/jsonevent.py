"""Events as JSON objects: `{"class": "STOCK", "volume": 400000}`.

The standard library's decoder reads the names and values. The flat object around them is walked
here, because only so can an error point at the attribute that is nested, doubled or out of range.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from roost.language.bracket import doubled_attribute, too_many_attributes
from roost.language.cursor import describe
from roost.language.errors import ParseError
from roost.language.event import ATTRIBUTES_MAX
from roost.language.literals import (
    LiteralError,
    abbreviate,
    check_name,
    check_string,
    read_float,
    read_integer,
)
from roost.language.values import STRING_LENGTH_MAX, Value

_NAME = "an attribute name in double quotes"
_VALUE = "a string, a number, true or false"


def _refuse_constant(literal: str) -> NoReturn:
    raise LiteralError(literal, "a number", "JSON has neither NaN nor infinities")


_decode = json.JSONDecoder(
    parse_int=read_integer, parse_float=read_float, parse_constant=_refuse_constant
).raw_decode
_blank = re.compile(r"[ \t\n\r]*").match
# What stands at an error, for its message: one word, or one character.
_thing = re.compile(r"[\w.+-]+|.?", re.DOTALL).match


def read_attributes(text: str, start: int) -> dict[str, Value]:
    """The attributes of the event whose object opens at `start`."""
    attributes: dict[str, Value] = {}
    position = _skip(text, start + 1)
    if text.startswith("}", position):
        return _finish(text, position, attributes)
    while True:
        if len(attributes) == ATTRIBUTES_MAX:
            raise too_many_attributes(text, position)
        name, after = _name(text, position)
        if name in attributes:
            raise doubled_attribute(text, position, name)
        position = _skip(text, after)
        if not text.startswith(":", position):
            raise _error(text, position, "':'")
        attributes[name], after = _value(text, _skip(text, position + 1))
        position = _skip(text, after)
        if text.startswith("}", position):
            return _finish(text, position, attributes)
        if not text.startswith(",", position):
            raise _error(text, position, "',' or '}'")
        position = _skip(text, position + 1)


def _finish(text: str, position: int, attributes: dict[str, Value]) -> dict[str, Value]:
    end = _skip(text, position + 1)
    if end < len(text):
        raise _error(text, end, "the end", "one object is one event")
    return attributes


def _name(text: str, position: int) -> tuple[str, int]:
    if not text.startswith('"', position):
        found = _found(text, position)
        hint = "remove the comma before the }" if found == "}" else _hint(found)
        raise _error(text, position, _NAME, hint)
    name, end = _scalar(text, position)
    assert isinstance(name, str)
    try:
        check_name(name)
    except LiteralError as error:
        raise _refusal(text, position, error) from None
    return name, end


def _value(text: str, position: int) -> tuple[Value, int]:
    if text.startswith(("{", "["), position):
        hint = 'events are flat; a name may have dots: {"order.price": 12.5}'
        raise _error(text, position, _VALUE, hint)
    value, end = _scalar(text, position)
    if value is None:
        raise _error(text, position, _VALUE, _hint("null"))
    if isinstance(value, str):
        try:
            check_string(value, STRING_LENGTH_MAX)
        except LiteralError as error:
            raise _refusal(text, position, error) from None
    return value, end


def _scalar(text: str, position: int) -> tuple[Value | None, int]:
    """What the decoder makes of the text from `position`, and where that ends."""
    try:
        value: Value | None
        value, end = _decode(text, position)
    except LiteralError as error:
        raise _refusal(text, position, error) from None
    except json.JSONDecodeError as error:
        raise _malformed(text, error) from None
    return value, end


def _malformed(text: str, error: json.JSONDecodeError) -> ParseError:
    if error.msg.startswith("Unterminated"):
        hint = 'close the string with "'
        return ParseError(text, error.pos, "a quote that is never closed", "a string", hint)
    if error.msg.startswith("Invalid control"):
        return _error(text, error.pos, "an escape, such as \\n")
    if error.msg.startswith("Invalid"):
        hint = "for a backslash itself write \\\\"
        return _error(text, error.pos, "an escape that JSON has", hint)
    return _error(text, error.pos, _VALUE, _hint(_found(text, error.pos)))


def _hint(found: str) -> str | None:
    """What was probably meant where a name or a value was expected."""
    word = found.lower()
    if found == "'":
        return "JSON's quotes are double quotes"
    if word in ("true", "false"):
        return f"write {word}"
    if word in ("null", "none", "nil", "undefined"):
        return "there is no null; leave the attribute out"
    return f'put it in quotes: "{abbreviate(found)}"' if word[:1].isalpha() else None


def _found(text: str, position: int) -> str:
    thing = _thing(text, position)
    return thing[0] if thing else ""


def _error(text: str, position: int, expected: str, hint: str | None = None) -> ParseError:
    found = _found(text, position)
    return ParseError(text, position, describe("symbol" if found else "end", found), expected, hint)


def _refusal(text: str, position: int, error: LiteralError) -> ParseError:
    return ParseError(text, position, error.found, error.expected, error.suggestion)


def _skip(text: str, position: int) -> int:
    blank = _blank(text, position)
    return blank.end() if blank else position
