"""Subscriptions and events from files: NDJSON, CSV and Parquet, and NDJSON from standard input.

Files are read in batches, so that their size does not matter. Whatever is wrong is a `UserError`
that starts with the file and the line (of a Parquet file: the row), both counted from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from roost.cli.csv_events import Rows, csv_events
from roost.cli.lines import (
    BATCH,
    STANDARD_INPUT,
    batched,
    chunks_of,
    event_of,
    lines_of,
    opened,
    refuse_text,
    shown,
    text_of,
)
from roost.errors import UserError, type_of
from roost.language import Event, LanguageError, ParseError, Subscription, parse_subscription
from roost.language.lines import LineError, check_cells, check_header, csv_rows, json_object
from roost.language.values import INT_MAX, INT_MIN

SUBSCRIPTION = '{"id": 7, "filter": "volume > 1000"}'

Id = int | str


class Read(NamedTuple):
    """A subscription, and where it was read."""

    where: str
    id: Id
    subscription: Subscription


class Format(NamedTuple):
    """How one format is read; both functions take the path and the name to use in messages.

    Events are read with the attributes that matter, and the kinds of columns that somebody has said.
    """

    subscriptions: Callable[[str, str], Iterator[tuple[str, object, object]]]
    events: Callable[
        [str, str, Collection[str], Mapping[str, str]], Iterator[Sequence[Event] | pa.RecordBatch]
    ]


def read_subscriptions(source: str) -> Iterator[Read]:
    """The subscriptions of a file. No id comes twice, whether it is written 7 or "7"."""
    form, name = format_of(source), shown(source)
    known: dict[str, str] = {}
    for where, raw_id, text in form.subscriptions(source, name):
        id_ = _checked_id(where, raw_id)
        if not isinstance(text, str):
            raise UserError(f"{where}: the filter is {_described(text)}; expected a text")
        before = known.setdefault(str(id_), where)
        if before is not where:
            raise UserError(f"{where}: the id {id_!r} is already that of {before}")
        yield Read(where, id_, _parsed(where, text))


def read_events(
    source: str, attributes: Collection[str], kinds: Mapping[str, str]
) -> Iterator[Sequence[Event] | pa.RecordBatch]:
    """The events of a file in batches, as `Index.match_batch` takes them.

    `attributes` are those that matter; others may be left out, where that saves reading them. `kinds` are
    those of columns of CSV, for which the cells need not speak then; in other formats values say it
    themselves.
    """
    form = format_of(source)
    if kinds and form is not _FORMATS[".csv"]:
        raise UserError(f"{shown(source)}: --type is for CSV; here values say what they are")
    return form.events(source, shown(source), attributes, kinds)


def format_of(source: str) -> Format:
    """The format, by the end of the file's name."""
    suffix = ".ndjson" if source == STANDARD_INPUT else Path(source).suffix.lower()
    if suffix not in _FORMATS:
        raise UserError(
            f"{source}: expected a file that ends in {', '.join(_FORMATS)}, or - for NDJSON on"
            " standard input"
        )
    return _FORMATS[suffix]


def _parsed(where: str, text: str) -> Subscription:
    try:
        return parse_subscription(text)
    except ParseError as error:
        line = f"line {error.place.line}, " if error.place.line > 1 else ""
        refuse_text(f"{where}: in the filter, {line}column {error.place.column}", error)
    except LanguageError as error:
        raise UserError(f"{where}: in the filter: {error}") from None


def _checked_id(where: str, id_: object) -> Id:
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        raise UserError(f"{where}: the id is {_described(id_)}; expected a whole number or a text")
    if isinstance(id_, int) and not INT_MIN <= id_ <= INT_MAX:
        raise UserError(f"{where}: the id {id_} does not fit 64 bits; write it as a text")
    if id_ == "":
        raise UserError(f"{where}: the id is empty")
    return id_


def _described(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, dict | list):
        return "nested"
    names = {bool: "a bool", int: "a number", float: "a number with a fraction", str: "a text"}
    return names.get(type(value), type_of(value))


# --- NDJSON ---------------------------------------------------------------------------------------


def _ndjson_subscriptions(source: str, _: str) -> Iterator[tuple[str, object, object]]:
    for where, line in lines_of(source):
        if not line.strip():
            continue
        try:
            row = json_object(line, example=SUBSCRIPTION)
        except LineError as bad:
            raise UserError(f"{where}: {bad}") from None
        id_ = _id_column(row)
        for key in (id_, "filter"):
            if key not in row:
                raise UserError(f'{where}: the object has no "{key}"')
        yield where, row[id_], row["filter"]


def _ndjson_events(
    source: str, _: str, __: Collection[str], ___: Mapping[str, str]
) -> Iterator[Sequence[Event]]:
    for chunk in chunks_of(source):
        lines = ((where, text_of(where, raw)) for where, raw in chunk)
        yield [event_of(where, line) for where, line in lines if not line.isspace()]


# --- CSV ------------------------------------------------------------------------------------------


def _csv_table(source: str, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """(where, cells by their columns) of each row. The header comes first, without cells."""
    header: list[str] = []
    try:
        for place, cells in csv_rows(line for _, line in lines_of(source)):
            where = f"{name}, line {place + 1}"
            if header:
                check_cells(place, cells, header)
                yield where, dict(zip(header, cells, strict=True))
            else:
                check_header(place, cells)
                header = cells
                yield where, dict.fromkeys(header, "")
    except LineError as bad:
        raise UserError(f"{name}, line {bad.place + 1}: {bad}") from None
    if not header:
        raise UserError(f"{name}, line 1: expected a header, the names of the columns")


def _csv_subscriptions(source: str, name: str) -> Iterator[tuple[str, object, object]]:
    rows = _csv_table(source, name)
    where, header = next(rows)
    id_ = _need_columns(where, header)
    for where, row in rows:
        yield where, _csv_id(row[id_]), row["filter"]


def _csv_id(text: str) -> Id:
    # Only what is printed back as it was, and fits: 007 is a text.
    if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    return text


def _csv_events(
    source: str, name: str, _: Collection[str], kinds: Mapping[str, str]
) -> Iterator[Sequence[Event]]:
    rows: Callable[[], Rows] = partial(_csv_table, source, name)
    if not Path(source).is_file():  # a pipe, which can be read once only
        kept = list(rows())
        rows = partial(iter, kept)
    return batched(csv_events(rows, kinds))


# --- Parquet --------------------------------------------------------------------------------------


@contextmanager
def _parquet(source: str, name: str) -> Iterator[pq.ParquetFile]:
    try:
        with opened(source) as raw, pq.ParquetFile(raw) as file:
            yield file
    except pa.ArrowException as bad:
        raise UserError(f"{name}: not a Parquet file that can be read: {bad}") from None


def _parquet_subscriptions(source: str, name: str) -> Iterator[tuple[str, object, object]]:
    with _parquet(source, name) as file:
        needed = [_need_columns(name, file.schema_arrow.names), "filter"]
        row = 0
        for batch in file.iter_batches(BATCH, columns=needed):
            columns = [batch.column(column).to_pylist() for column in needed]
            for id_, text in zip(*columns, strict=True):
                row += 1
                yield f"{name}, row {row}", id_, text


def _parquet_events(
    source: str, name: str, attributes: Collection[str], _: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    with _parquet(source, name) as file:
        schema = file.schema_arrow
        for field in schema:
            if pa.types.is_nested(field.type):
                raise UserError(
                    f"{name}: the column {field.name!r} is nested ({field.type}); events are flat"
                )
        wanted = [column for column in schema.names if column in attributes]
        yield from file.iter_batches(BATCH, columns=wanted)


def _id_column(names: Collection[str]) -> str:
    """The one with the ids: `subscription`, as tables of the pipeline have it, or `id`."""
    return "subscription" if "subscription" in names else "id"


def _need_columns(where: str, names: Collection[str]) -> str:
    """The column with the ids; a `UserError` if it is not there, or that of the filters."""
    id_ = _id_column(names)
    missing = [column for column in (id_, "filter") if column not in names]
    if missing:
        has = ", ".join(map(repr, names)) or "none"
        raise UserError(
            f"{where}: no column {' and no column '.join(map(repr, missing))}; there are {has}"
        )
    return id_


_NDJSON = Format(_ndjson_subscriptions, _ndjson_events)
_FORMATS = {
    ".ndjson": _NDJSON,
    ".jsonl": _NDJSON,
    ".csv": Format(_csv_subscriptions, _csv_events),
    ".parquet": Format(_parquet_subscriptions, _parquet_events),
}
