"""The trace of a live broker, in segments: whoever is killed loses the one that is open, and no other.

    TABLE/run=NAME/part-BROKER-000017.parquet          a segment
    TABLE/run=NAME/part-BROKER-000001_000060.parquet   those of an hour, joined (see `joining`)
    runs/run=NAME/part-BROKER-000017.parquet           what the broker was when that segment began

A segment is a file a table, closed after some time or so many rows, and shown by a rename. Numbers go on,
through all tables and all lives of the broker: one that comes back takes the number behind the highest that
is there. Its first segment has a file in every table, so that each is there, and later ones only where there
are rows. Of a segment that was being shown when its broker was killed, some tables may have their file and
others not.

Rows are gathered by the broker; to make tables of them, and to write and show these, is what a *scribe* is
asked for, who does one thing after the other. A live broker has one in a thread, so that its traffic need not
wait for the disk; a segment that was closed a moment ago, and that the scribe has not shown yet, is as open.

Names alone say what counts: a file of joined segments stands for all that are in its range, so that there is
no moment at which readers who know this see rows twice or not at all.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from roost.errors import UserError
from roost.traces.columns import Columns
from roost.traces.run import (
    UNKNOWN,
    About,
    about_row,
    check_run_name,
    part_path,
    safe_name,
    write_row,
)
from roost.traces.schemas import SCHEMAS, traced_tables
from roost.traces.table_file import TableFile
from roost.traces.visits import Stretch, delivery_schema, delivery_table

DELIVERIES = "deliveries"
SEGMENT_S = 60.0
SEGMENT_ROWS = 1_000_000
# A group costs about as much as 10,000 rows more. In much larger ones the columns of rows with ten clients
# are blocks so large that the system gives each anew, and clears it: a fifth of all that such a row costs.
ROWS_A_GROUP = 75_000
_NAME = re.compile(r"part-(?P<part>.+)-(?P<first>[0-9]{6,})(?:_(?P<last>[0-9]{6,}))?\.parquet")


class Span(NamedTuple):
    """What the name of a file says: one segment of a part, or several that were joined."""

    part: str  # as `safe_name` has it
    first: int
    last: int

    @property
    def name(self) -> str:
        joined = "" if self.first == self.last else f"_{self.last:06}"
        return f"part-{self.part}-{self.first:06}{joined}.parquet"

    def holds(self, other: Span) -> bool:
        return self.part == other.part and self.first <= other.first and other.last <= self.last


def span_of(name: str) -> Span | None:
    """What a file holds, by its name; None if it is no segment."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    first = int(found["first"])
    return Span(found["part"], first, int(found["last"] or first))


def superseded(names: Collection[str]) -> set[str]:
    """Of the files of a folder those whose rows another one has, too."""
    spans = {name: span for name in names if (span := span_of(name)) is not None}
    joined = [span for span in spans.values() if span.first < span.last]
    if not joined:
        return set()
    return {
        name
        for name, span in spans.items()
        if any(other.holds(span) and other != span for other in joined)
    }


def last_number(folders: Iterable[Path], part: str) -> int:
    """The highest number of a segment that a part has in these folders; 0 if there is none."""
    numbers = [0]
    for folder in folders:
        with suppress(FileNotFoundError):
            spans = [span_of(entry.name) for entry in os.scandir(folder)]
            numbers += [span.last for span in spans if span is not None and span.part == part]
    return max(numbers)


class Scribe(Protocol):
    """Who writes, when there is time for it, and in the order in which it was asked."""

    def ask(self, job: Callable[[], None]) -> None:
        """OSError if this, or something earlier, can't be done; nothing is done after that."""

    def settle(self) -> None:
        """Wait until all is done that was asked for. OSError if it can't be."""


class AtOnce:
    """A scribe whom everybody waits for."""

    def ask(self, job: Callable[[], None]) -> None:
        job()

    def settle(self) -> None:
        pass


class SegmentWriter:
    """The part of a run that one broker writes. No two processes can write the same part at a time."""

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        part: str,
        now: float,
        about: About = UNKNOWN,
        life: int = 0,
        content: bool = False,
        scribe: Scribe | None = None,
        segment_s: float = SEGMENT_S,
        segment_rows: int = SEGMENT_ROWS,
        rows_a_group: int = ROWS_A_GROUP,
    ) -> None:
        check_run_name(run)
        row = about_row(part, about)
        tables = traced_tables(content=content)
        self._columns = {t: Columns(SCHEMAS[t]) for t in tables if t != DELIVERIES}
        self._folders = {t: part_path(folder, t, run, part).parent for t in (*tables, "runs")}
        self._broker = part
        self._part = safe_name(part)
        self._life = life
        self._scribe = scribe or AtOnce()
        self._stretches: list[Stretch] = []
        self._visits = 0  # that are in these
        self._leaving: deque[list[TableFile]] = deque()  # of segments that are to be shown
        self._segment_s = segment_s
        self._segment_rows = segment_rows
        self._rows_a_group = rows_a_group
        try:
            for each in self._folders.values():
                each.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = self._locked(run, part)
            self._clear()
            self.number = last_number(self._folders.values(), self._part) + 1
            write_row(self._path("runs"), row)
        except OSError as error:
            where = error.filename or folder
            raise UserError(f"{where}: can't be written: {error.strerror or error}") from None
        self._is_first = True
        self._begin(now)

    def _locked(self, run: str, part: str) -> int:
        """Until we end, by whatever death."""
        path = self._folders["runs"] / f".part-{self._part}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UserError(
                f"{path.parent}: another process is recording {part!r} in the run {run!r}; expected the name"
                " of another run"
            ) from None
        return lock

    def _clear(self) -> None:
        """What a broker left that was killed is of no use: it has no footer."""
        for folder in self._folders.values():
            for path in folder.glob(".part-*.parquet.writing"):
                span = span_of(path.name.removeprefix(".").removesuffix(".writing"))
                if span is not None and span.part == self._part:
                    path.unlink()

    def _path(self, table: str) -> Path:
        return self._folders[table] / Span(self._part, self.number, self.number).name

    def _begin(self, now: float) -> None:
        self._since = now
        self._rows = 0  # that went into its files
        self._files = {t: TableFile(self._path(t), c.schema) for t, c in self._columns.items()}
        visits = TableFile(self._path(DELIVERIES), delivery_schema(), in_haste=True)
        self._files[DELIVERIES] = visits
        self._used = set(self._files) if self._is_first else set[str]()  # tables that have rows

    # --- rows ---------------------------------------------------------------------------------------

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """A row of that table (see `rows`), which is a tuple of its values in the order of the schema."""
        columns = self._columns[table]
        columns.add(row)
        if len(columns) >= self._rows_a_group:
            self._flush(table)

    def visited(self, stretch: Stretch) -> None:
        """Rows of `deliveries`, of all that was routed for a while."""
        self._stretches.append(stretch)
        self._visits += len(stretch)
        if self._visits >= self._rows_a_group:
            self._flush_visits()

    def look(self, now: float) -> None:
        """To be called now and then: the segment is closed if it has had its time, or its rows."""
        rows = self._rows + self._visits + sum(map(len, self._columns.values()))
        if now - self._since >= self._segment_s or rows >= self._segment_rows:
            self.next_segment(now)

    def _flush(self, table: str) -> None:
        if len(self._columns[table]):
            gathered = self._columns[table].take()
            self._write(table, len(gathered.records), gathered.table)

    def _flush_visits(self) -> None:
        if self._visits:
            make = partial(delivery_table, self._broker, self._life, self._stretches)
            self._write(DELIVERIES, self._visits, make)
            self._stretches, self._visits = [], 0

    def _write(self, table: str, rows: int, make: Callable[[], pa.Table]) -> None:
        file = self._files[table]
        self._used.add(table)
        self._rows += rows
        self._scribe.ask(lambda: file.write(make()))

    # --- segments -----------------------------------------------------------------------------------

    def next_segment(self, now: float) -> None:
        """What was recorded so far is there for all before long. OSError if it, or the last one, can't be."""
        self._show()
        self.number += 1
        self._begin(now)

    def _show(self) -> None:
        for table in self._columns:
            self._flush(table)
        self._flush_visits()
        self._is_first = False
        self._leaving.append([file for table, file in self._files.items() if table in self._used])
        self._scribe.ask(self._show_oldest)

    def _show_oldest(self) -> None:
        files = self._leaving[0]
        for file in files:
            file.finish()
        for file in files:
            file.show()
        self._leaving.popleft()

    def settle(self) -> None:
        """Wait until all that was handed over is written. OSError if it can't be."""
        self._scribe.settle()

    def close(self) -> None:
        """No more: all of it is there. If the open segment can't be completed, it is not."""
        if self._lock is None:
            return
        try:
            self._show()
            self.settle()
        except BaseException:
            self.discard()
            raise
        self._unlock()

    def discard(self) -> None:
        """The open segment is not wanted."""
        with suppress(OSError, pa.ArrowException):
            self.settle()
        for file in (*chain(*self._leaving), *self._files.values()):
            file.discard()
        self._leaving.clear()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
