"""Events from CSV: a column has one type, whatever its cells look like by themselves.

`3946e2` is a number for itself, and a text among the identifiers of its column. So a file is read twice: to
see of which kinds the cells of each column are, and then for the events. A column is of the narrowest kind
that all of its cells have: bool, integer, number, else text; or of the kind that somebody says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from roost.errors import UserError
from roost.language import Event, LanguageError, Value
from roost.language.lines import CELL_KINDS, cell_as, cell_kind, column_kind
from roost.language.values import check_name

# (where, cells by their columns) of each row. The header comes first, without cells.
Rows: TypeAlias = Iterator[tuple[str, dict[str, str]]]


def read_kinds(texts: list[str]) -> dict[str, str]:
    """The kinds of columns from NAME=KIND."""
    kinds: dict[str, str] = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals or not name or kind not in CELL_KINDS:
            raise UserError(
                f"--type {text}: expected NAME=KIND, with one of the kinds {', '.join(CELL_KINDS)}"
            )
        if kinds.setdefault(name, kind) != kind:
            raise UserError(f"--type {text}: {name} is a {kinds[name]} already")
    return kinds


def csv_events(open_rows: Callable[[], Rows], given: Mapping[str, str]) -> Iterator[Event]:
    """The events of a file, whose rows can be had twice."""
    kinds = survey(open_rows(), given)
    rows = open_rows()
    next(rows)
    return (event_of(where, row, kinds) for where, row in rows)


def survey(rows: Rows, given: Mapping[str, str]) -> dict[str, str]:
    """The kind of each column."""
    where, header = next(rows)
    try:
        for name in header:
            check_name(name, "the header")
    except LanguageError as bad:
        raise UserError(f"{where}: {bad}") from None
    for name in given:
        if name not in header:
            raise UserError(f"{where}: there is no column {name!r}, of which --type speaks")
    seen: dict[str, set[str]] = {name: set() for name in header if name not in given}
    for _, row in rows:
        for name, kinds in seen.items():
            if row[name]:
                kinds.add(cell_kind(row[name]))
    return {**{name: column_kind(kinds) for name, kinds in seen.items()}, **given}


def event_of(where: str, row: Mapping[str, str], kinds: Mapping[str, str]) -> Event:
    """A row; an empty cell is an attribute that the event does not have."""
    attributes: dict[str, Value] = {}
    for name, text in row.items():
        if text:
            try:
                attributes[name] = cell_as(text, kinds[name])
            except LanguageError as bad:
                raise UserError(f"{where}, {name}: {bad}") from None
    try:
        return Event(attributes)
    except LanguageError as bad:
        raise UserError(f"{where}: {bad}") from None
