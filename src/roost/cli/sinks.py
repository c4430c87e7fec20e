"""Where the answers of `roost match` go: a table for people, NDJSON or Parquet for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roost.cli.console import people
from roost.cli.sources import Id
from roost.errors import UserError
from roost.matching import Ids

EVENTS_SHOWN = 40
IDS_SHOWN = 8


class Names:
    """The subscriptions' own ids, by their positions."""

    def __init__(self, ids: Sequence[Id]) -> None:
        self._ids = ids
        whole = all(isinstance(id_, int) for id_ in ids)
        self._numbers = np.array(ids, np.int64) if whole else None
        self.arrow = pa.array(ids if whole else map(str, ids), pa.int64() if whole else pa.string())

    def of(self, positions: Ids) -> list[Id]:
        """The ids of the subscriptions at these positions."""
        if self._numbers is not None:
            numbers: list[Id] = self._numbers[positions].tolist()
            return numbers
        return [self._ids[position] for position in positions.tolist()]


class Sink(Protocol):
    """Takes the answers batch by batch."""

    def write(self, first: int, offsets: Ids, positions: Ids) -> None:
        """Event `first + i` matches the subscriptions at positions[offsets[i]:offsets[i + 1]]."""


class NdjsonSink:
    """One line an event: `{"event": 0, "subscriptions": [7]}`."""

    def __init__(self, names: Names, out: IO[bytes]) -> None:
        self._names = names
        self._out = out

    def write(self, first: int, offsets: Ids, positions: Ids) -> None:
        """One line an event, also for those that match nothing."""
        encode = msgspec.json.Encoder().encode
        for event, (start, end) in enumerate(pairwise(offsets.tolist()), first):
            line = {"event": event, "subscriptions": self._names.of(positions[start:end])}
            self._out.write(encode(line) + b"\n")
        self._out.flush()


class ParquetSink:
    """One row a match: event, subscription."""

    def __init__(self, names: Names, out: IO[bytes]) -> None:
        self._names = names
        schema = pa.schema({"event": pa.int64(), "subscription": names.arrow.type})
        self._writer = pq.ParquetWriter(out, schema)

    def write(self, first: int, offsets: Ids, positions: Ids) -> None:
        """One row group a batch."""
        events = np.repeat(np.arange(first, first + len(offsets) - 1), np.diff(offsets))
        columns = [pa.array(events), self._names.arrow.take(pa.array(positions))]
        self._writer.write_batch(pa.record_batch(columns, schema=self._writer.schema))

    def close(self) -> None:
        """Writes the end of the file, without which it is none."""
        self._writer.close()


class TableSink:
    """The first events with the first of their subscriptions, and how many there were in all."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._rows: list[tuple[str, str, str]] = []
        self._events = self._matched = self._matches = 0

    def write(self, first: int, offsets: Ids, positions: Ids) -> None:
        """Counts all, keeps the first."""
        self._events += len(offsets) - 1
        self._matched += int(np.count_nonzero(np.diff(offsets)))
        self._matches += len(positions)
        for event, (start, end) in enumerate(pairwise(offsets.tolist()), first):
            if event >= EVENTS_SHOWN:
                break
            ids = self._names.of(positions[start : min(end, start + IDS_SHOWN)])
            more = end - start - len(ids)
            listed = ", ".join(map(printable, ids)) + (f" and {more:,} more" if more else "")
            self._rows.append((f"{event:,}", f"{end - start:,}", listed))

    def show(self) -> None:
        """Prints the table."""
        from rich.table import Table
        from rich.text import Text

        console = people()
        table = Table()
        table.add_column("event", justify="right")
        table.add_column("matches", justify="right")
        table.add_column("subscriptions", overflow="fold")
        for event, count, listed in self._rows:
            table.add_row(event, count, Text(listed))
        console.print(table)
        if self._events > len(self._rows):
            console.print(
                f"... and {self._events - len(self._rows):,} events more (--out writes all)"
            )
        console.print(
            f"{self._events:,} events, {self._matched:,} of them with a subscription;"
            f" {self._matches:,} matches"
        )


def printable(id_: Id) -> str:
    """An id as a terminal can take it."""
    text = str(id_)
    return text if text.isprintable() else repr(text)


@contextmanager
def ndjson_sink(names: Names, out: Path | None) -> Iterator[Sink]:
    """To a file, or to standard output."""
    if out is None:
        yield NdjsonSink(names, sys.stdout.buffer)
        return
    with whole_file(out) as file:
        yield NdjsonSink(names, file)


@contextmanager
def parquet_sink(names: Names, out: Path) -> Iterator[Sink]:
    """To a file."""
    with whole_file(out) as file, closing(ParquetSink(names, file)) as sink:
        yield sink


@contextmanager
def table_sink(names: Names) -> Iterator[Sink]:
    """To standard output, once all is known."""
    sink = TableSink(names)
    yield sink
    sink.show()


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there when all went well, and else as it was before."""
    special = path.exists() and not path.is_file()
    target = path if special else path.with_name(f"{path.name}.part")
    try:
        with target.open("wb") as file:
            yield file
        if not special:
            os.replace(target, path)
    except BrokenPipeError:
        raise
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror or bad}") from None
    finally:
        if not special:
            with suppress(OSError):
                target.unlink()
