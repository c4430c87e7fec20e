"""What lines of CSV and of JSON say, for everyone who reads files of them.

Whoever reads decides what becomes of it: an event a line, a request with an event in it, or the columns of a
table. What a line says, and the words for what is wrong with it, are the same for all.

In CSV a cell says `true` or `false`, an integer, another number, or a text; a column is of the narrowest kind
that all of its cells have.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from roost.language.errors import LanguageError
from roost.language.literals import abbreviate, read_float, read_integer
from roost.language.values import Value

INTEGER_PATTERN = r"[+-]?[0-9]+"
NUMBER_PATTERN = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_is_integer = re.compile(INTEGER_PATTERN).fullmatch
_is_number = re.compile(NUMBER_PATTERN).fullmatch
_BOOLS = {"true": True, "false": False}
# What a column of CSV may be.
CELL_KINDS = ("bool", "integer", "number", "text")


class LineError(ValueError):
    """What is wrong with a line; `place` counts from the first of those that were given."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(what)
        self.place = place


def decoded(raw: bytes, place: int = 0) -> str:
    """The text of a line."""
    try:
        return raw.decode()
    except UnicodeDecodeError as bad:
        raise LineError(place, f"byte {bad.start + 1} is not UTF-8") from None


# --- CSV ------------------------------------------------------------------------------------------


def csv_rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The place and the cells of each row that is not blank; a row of several lines is where it ends."""
    rows = csv.reader(lines, strict=True)
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as bad:
            raise LineError(rows.line_num - 1, f"not CSV: {bad}") from None
        if cells is None:
            return
        if cells:
            yield rows.line_num - 1, cells


def check_header(place: int, names: Sequence[str]) -> None:
    """Refuses a header that names a column twice."""
    for name in names:
        if names.count(name) > 1:
            raise LineError(place, f"the header has {name!r} twice")


def check_cells(place: int, cells: Sequence[str], names: Sequence[str]) -> None:
    """Refuses a row with more or fewer cells than the header."""
    if len(cells) != len(names):
        raise LineError(place, f"{len(cells)} values, but the header has {len(names)} names")


@lru_cache(maxsize=1 << 16)
def cell_kind(text: str) -> str:
    """The narrowest kind that a cell has by itself."""
    if text.lower() in _BOOLS:
        return "bool"
    if _is_integer(text):
        return "integer"
    return "number" if _is_number(text) else "text"


def column_kind(kinds: Collection[str]) -> str:
    """The narrowest kind that all cells of a column have; without any, it is one of texts.

    >>> column_kind({"integer", "number"}), column_kind({"number", "bool"}), column_kind(())
    ('number', 'text', 'text')
    """
    if set(kinds) == {"integer", "number"}:
        return "number"
    return next(iter(kinds)) if len(kinds) == 1 else "text"


@lru_cache(maxsize=1 << 16)
def cell_as(text: str, kind: str) -> Value:
    """What a cell says in a column of a kind; an error if it is not of that kind.

    >>> cell_as("3946e2", "text"), cell_as("3946e2", "number"), cell_as("7", "number")
    ('3946e2', 394600.0, 7)
    """
    if kind == "text":
        return text
    own = cell_kind(text)
    if own != kind and (own, kind) != ("integer", "number"):
        raise LanguageError(f"{abbreviate(text)!r} is no {kind}, and this is a column of them")
    if kind == "bool":
        return _BOOLS[text.lower()]
    return read_integer(text) if own == "integer" else read_float(text)


def plain_number(text: str) -> int | float | None:
    """The number that a text is; None if it is none, an error if the language does not have it."""
    if _is_integer(text):
        return read_integer(text)
    if _is_number(text):
        return read_float(text)
    return None


# --- JSON -----------------------------------------------------------------------------------------


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(0, f"{abbreviate(twice)!r} stands twice in an object")
    return found


def _refuse_constant(literal: str) -> NoReturn:
    raise LineError(0, f"JSON has no {literal}")


_decode = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_refuse_constant).decode
# Much slower, for a function of Python is called for every number; only to say what is wrong.
_decode_carefully = json.JSONDecoder(
    object_pairs_hook=_once_each,
    parse_int=read_integer,
    parse_float=read_float,
    parse_constant=_refuse_constant,
).decode


def json_object(line: str, place: int = 0, example: str = '{"volume": 1000}') -> dict[str, Any]:
    """The object that a line is. Values are as they stand there: an integer of any size, null, or nested."""
    try:
        said = _decode(line)
    except (ValueError, RecursionError):
        _refuse_json(line, place)
    if not isinstance(said, dict):
        found = abbreviate(line.strip())
        raise LineError(place, f"expected an object such as {example}, found {found}")
    values = said.values()
    # A number too large for a float is infinite now.
    if math.inf in values or -math.inf in values:
        _refuse_json(line, place)
    return said


def _refuse_json(line: str, place: int) -> NoReturn:
    try:
        _decode_carefully(line)
    except (LineError, LanguageError) as bad:
        raise LineError(place, str(bad)) from None
    except (ValueError, RecursionError) as bad:
        words = str(bad)
        raise LineError(place, f"not JSON: {words[:1].lower()}{words[1:]}") from None
    raise LineError(place, "not JSON")
