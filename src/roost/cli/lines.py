"""Lines of a file, or of standard input as they come, each with where it stands.

Whatever is wrong is a `UserError` that starts with the file and the line, counted from 1.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from roost.errors import UserError
from roost.language import Event, LanguageError, ParseError, parse_event
from roost.language.lines import LineError, decoded, json_object

BATCH = 4_096
STANDARD_INPUT = "-"
STREAM_BYTES = 1 << 20

T = TypeVar("T")


def shown(source: str) -> str:
    """The source as messages name it."""
    return "standard input" if source == STANDARD_INPUT else source


@contextmanager
def opened(source: str) -> Iterator[IO[bytes]]:
    """The file, in bytes; what the system refuses is a `UserError`."""
    try:
        if source == STANDARD_INPUT:
            yield sys.stdin.buffer
            return
        with Path(source).open("rb") as file:
            yield file
    except OSError as bad:
        raise UserError(f"{shown(source)}: {bad.strerror or bad}") from None


def lines_of(source: str) -> Iterator[tuple[str, str]]:
    """(where, line) of a text file, with the end of the line."""
    return ((where, text_of(where, raw)) for chunk in chunks_of(source) for where, raw in chunk)


def chunks_of(source: str) -> Iterator[list[tuple[str, bytes]]]:
    """(where, line), as many at a time as make a batch; of standard input, as many as have come."""
    name = shown(source)
    before = 0
    with opened(source) as file:
        for raws in arriving(file) if source == STANDARD_INPUT else batched(iter(file)):
            if not before:
                # Some programs start a file with a byte order mark.
                raws[0] = raws[0].removeprefix(BOM_UTF8)
            yield [(f"{name}, line {before + place}", raw) for place, raw in enumerate(raws, 1)]
            before += len(raws)


def arriving(file: IO[bytes]) -> Iterator[list[bytes]]:
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


def batched(items: Iterator[T]) -> Iterator[list[T]]:
    """As many at a time as make a batch."""
    while batch := list(islice(items, BATCH)):
        yield batch


def text_of(where: str, raw: bytes) -> str:
    """A line as text."""
    try:
        return decoded(raw)
    except LineError as bad:
        raise UserError(f"{where}: {bad}") from None


def event_of(where: str, line: str) -> Event:
    """One line of JSON as an event: quickly if all is well, else carefully, to say what is wrong."""
    try:
        return Event(json_object(line))
    except (LineError, LanguageError):
        return careful_event(where, line)


def careful_event(where: str, line: str) -> Event:
    """The same, with the column of whatever is wrong."""
    if not line.lstrip().startswith("{"):
        raise UserError(f'{where}: expected an object such as {{"symbol": "YHOO", "volume": 1000}}')
    try:
        return parse_event(line)
    except ParseError as error:
        refuse_text(f"{where}, column {error.place.column}", error)


def refuse_text(where: str, error: ParseError) -> NoReturn:
    """Say what is wrong with a text of the language."""
    hint = f"\nhint: {error.suggestion}" if error.suggestion else ""
    raise UserError(
        f"{where}: found {error.found}, expected {error.expected}\n{error.excerpt}{hint}"
    ) from None
