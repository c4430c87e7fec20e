"""Subscriptions and events from files: NDJSON, CSV and Parquet, and NDJSON from standard input.

Files are read in batches, so that their size does not matter. Whatever is wrong is a `UserError`
that starts with the file and the line (of a Parquet file: the row), both counted from 1.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.language import (
    Event,
    LanguageError,
    ParseError,
    Subscription,
    Value,
    parse_event,
    parse_subscription,
)
from roost.language.literals import read_float, read_integer
from roost.language.values import INT_MAX, INT_MIN, check_name

BATCH = 4_096
STANDARD_INPUT = "-"
STREAM_BYTES = 1 << 20

Id = int | str
T = TypeVar("T")


class Read(NamedTuple):
    """A subscription, and where it was read."""

    where: str
    id: Id
    subscription: Subscription


class Format(NamedTuple):
    """How one format is read; both functions take the path and the name to use in messages."""

    subscriptions: Callable[[str, str], Iterator[tuple[str, object, object]]]
    events: Callable[[str, str, Collection[str]], Iterator[Sequence[Event] | pa.RecordBatch]]


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
    source: str, attributes: Collection[str]
) -> Iterator[Sequence[Event] | pa.RecordBatch]:
    """The events of a file in batches, as `Index.match_batch` takes them.

    `attributes` are those that matter; others may be left out, where that saves reading them.
    """
    return format_of(source).events(source, shown(source), attributes)


def shown(source: str) -> str:
    """The source as messages name it."""
    return "standard input" if source == STANDARD_INPUT else source


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
        _refuse_text(f"{where}: in the filter, {line}column {error.place.column}", error)
    except LanguageError as error:
        raise UserError(f"{where}: in the filter: {error}") from None


def _refuse_text(where: str, error: ParseError) -> NoReturn:
    hint = f"\nhint: {error.suggestion}" if error.suggestion else ""
    raise UserError(
        f"{where}: found {error.found}, expected {error.expected}\n{error.excerpt}{hint}"
    ) from None


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
    return names.get(type(value), f"a {type(value).__name__}")


# --- lines of text --------------------------------------------------------------------------------


@contextmanager
def opened(source: str, name: str) -> Iterator[IO[bytes]]:
    """The file, in bytes; what the system refuses is a `UserError`."""
    try:
        if source == STANDARD_INPUT:
            yield sys.stdin.buffer
            return
        with Path(source).open("rb") as file:
            yield file
    except OSError as bad:
        raise UserError(f"{name}: {bad.strerror or bad}") from None


def _lines(source: str, name: str) -> Iterator[tuple[str, str]]:
    """(where, line) of a text file, with the end of the line."""
    return (line for chunk in _chunks(source, name) for line in chunk)


def _chunks(source: str, name: str) -> Iterator[list[tuple[str, str]]]:
    """The same, as many at a time as make a batch; of standard input, as many as have come."""
    with opened(source, name) as file:
        numbers = count(1)
        for raws in _arriving(file) if source == STANDARD_INPUT else _batched(iter(file)):
            chunk = []
            for raw in raws:
                number = next(numbers)
                where = f"{name}, line {number}"
                try:
                    # Some programs start a file with a byte order mark.
                    chunk.append((where, raw.decode("utf-8-sig" if number == 1 else "utf-8")))
                except UnicodeDecodeError as bad:
                    raise UserError(f"{where}: byte {bad.start + 1} is not UTF-8") from None
            yield chunk


def _arriving(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Lines as they come: whoever follows a stream of events does not wait for a full batch."""
    rest = b""
    # Every buffered reader has read1, which takes what is there; its type does not say so.
    while data := file.read1(STREAM_BYTES):  # type: ignore[attr-defined]
        lines = (rest + data).splitlines(keepends=True)
        rest = lines.pop() if not lines[-1].endswith(b"\n") else b""
        if lines:
            yield lines
    if rest:
        yield [rest]


def _batched(items: Iterator[T]) -> Iterator[list[T]]:
    while batch := list(islice(items, BATCH)):
        yield batch


# --- NDJSON ---------------------------------------------------------------------------------------


def _ndjson_subscriptions(source: str, name: str) -> Iterator[tuple[str, object, object]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for where, line in _lines(source, name):
        if not line.strip():
            continue
        try:
            row = decode(line)
        except msgspec.ValidationError:
            raise UserError(
                f'{where}: expected an object such as {{"id": 7, "filter": "volume > 1000"}}'
            ) from None
        except msgspec.DecodeError as bad:
            raise UserError(f"{where}: not JSON: {_lower(bad)}") from None
        for key in ("id", "filter"):
            if key not in row:
                raise UserError(f'{where}: the object has no "{key}"')
        yield where, row["id"], row["filter"]


def _lower(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def _ndjson_events(source: str, name: str, _: Collection[str]) -> Iterator[Sequence[Event]]:
    for chunk in _chunks(source, name):
        yield [_json_event(where, line) for where, line in chunk if not line.isspace()]


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(literal)


# An object becomes a tuple of pairs, so that it differs from a list of lists.
_decode_pairs = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse_constant).decode


def _json_event(where: str, line: str) -> Event:
    """One line as an event: quickly if all is well, else carefully, to say what is wrong."""
    try:
        pairs = _decode_pairs(line)
        if isinstance(pairs, tuple):
            attributes = dict(pairs)
            values = attributes.values()
            # A number too large for a float is infinite now, and of a doubled name one is left.
            if len(attributes) == len(pairs) and not (math.inf in values or -math.inf in values):
                return Event(attributes)
    except (ValueError, RecursionError):
        pass
    if not line.lstrip().startswith("{"):
        raise UserError(f'{where}: expected an object such as {{"symbol": "YHOO", "volume": 1000}}')
    try:
        return parse_event(line)
    except ParseError as error:
        _refuse_text(f"{where}, column {error.place.column}", error)


# --- CSV ------------------------------------------------------------------------------------------


def _csv_rows(source: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """(where, cells) of a CSV file, its header first; a row of several lines is where it ends."""
    rows = csv.reader((line for _, line in _lines(source, name)), strict=True)
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as bad:
            raise UserError(f"{name}, line {rows.line_num}: not CSV: {bad}") from None
        if cells is None:
            return
        if cells:
            yield f"{name}, line {rows.line_num}", cells


def _csv_table(source: str, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    rows = _csv_rows(source, name)
    where, header = next(rows, (f"{name}, line 1", []))
    if not header:
        raise UserError(f"{where}: expected a header, the names of the columns")
    for column in header:
        if header.count(column) > 1:
            raise UserError(f"{where}: the header has {column!r} twice")
    yield where, dict.fromkeys(header, "")
    for where, cells in rows:
        if len(cells) != len(header):
            raise UserError(f"{where}: {len(cells)} values, but the header has {len(header)} names")
        yield where, dict(zip(header, cells, strict=True))


def _csv_subscriptions(source: str, name: str) -> Iterator[tuple[str, object, object]]:
    rows = _csv_table(source, name)
    where, header = next(rows)
    _need_columns(where, header)
    for where, row in rows:
        yield where, _csv_id(row["id"]), row["filter"]


def _csv_id(text: str) -> Id:
    # Only what is printed back as it was, and fits: 007 is a text.
    if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    return text


def _csv_events(source: str, name: str, _: Collection[str]) -> Iterator[Sequence[Event]]:
    rows = _csv_table(source, name)
    where, header = next(rows)
    try:
        for attribute in header:
            check_name(attribute, "the header")
    except LanguageError as bad:
        raise UserError(f"{where}: {bad}") from None
    return _batched(_csv_event(where, row) for where, row in rows)


def _csv_event(where: str, row: dict[str, str]) -> Event:
    attributes: dict[str, Value] = {}
    for name, text in row.items():
        if text:
            try:
                attributes[name] = _typed(text)
            except LanguageError as bad:
                raise UserError(f"{where}, {name}: {bad}") from None
    try:
        return Event(attributes)
    except LanguageError as bad:
        raise UserError(f"{where}: {bad}") from None


_is_integer = re.compile(r"[+-]?[0-9]+").fullmatch
_is_decimal = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?").fullmatch
_BOOLS = {"true": True, "false": False}


@lru_cache(maxsize=1 << 16)
def _typed(text: str) -> Value:
    """What a cell says: an integer, another number, true or false, or else a text."""
    if _is_integer(text):
        return read_integer(text)
    if _is_decimal(text):
        return read_float(text)
    return _BOOLS.get(text.lower(), text)


# --- Parquet --------------------------------------------------------------------------------------


@contextmanager
def _parquet(source: str, name: str) -> Iterator[pq.ParquetFile]:
    try:
        with opened(source, name) as raw, pq.ParquetFile(raw) as file:
            yield file
    except pa.ArrowException as bad:
        raise UserError(f"{name}: not a Parquet file that can be read: {bad}") from None


def _parquet_subscriptions(source: str, name: str) -> Iterator[tuple[str, object, object]]:
    with _parquet(source, name) as file:
        _need_columns(name, file.schema_arrow.names)
        row = 0
        for batch in file.iter_batches(BATCH, columns=["id", "filter"]):
            columns = (batch.column("id").to_pylist(), batch.column("filter").to_pylist())
            for id_, text in zip(*columns, strict=True):
                row += 1
                yield f"{name}, row {row}", id_, text


def _parquet_events(
    source: str, name: str, attributes: Collection[str]
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


def _need_columns(where: str, names: Collection[str]) -> None:
    missing = [column for column in ("id", "filter") if column not in names]
    if missing:
        has = ", ".join(map(repr, names)) or "none"
        raise UserError(
            f"{where}: no column {' and no column '.join(map(repr, missing))}; there are {has}"
        )


_NDJSON = Format(_ndjson_subscriptions, _ndjson_events)
_FORMATS = {
    ".ndjson": _NDJSON,
    ".jsonl": _NDJSON,
    ".csv": Format(_csv_subscriptions, _csv_events),
    ".parquet": Format(_parquet_subscriptions, _parquet_events),
}
