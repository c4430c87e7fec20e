"""The trace of a live broker, in segments: whoever is killed loses the one that is open, and no other.

    TABLE/run=NAME/part-BROKER-000017.parquet          a segment
    TABLE/run=NAME/part-BROKER-000001_000060.parquet   those of an hour, joined (see `joining`)
    runs/run=NAME/part-BROKER-000017.parquet           what the broker was when that segment began

A segment is a file a table, closed after some time or so many rows, and shown by a rename. Numbers go on,
through all tables and all lives of the broker: one that comes back takes the number behind the highest that
is there. Its first segment has a file in every table, so that each is there, and later ones only where there
are rows. Of a segment that was being shown when its broker was killed, some tables may have their file and
others not.

Names alone say what counts: a file of joined segments stands for all that are in its range, so that there is
no moment at which readers who know this see rows twice or not at all.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

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
from roost.traces.writer import ROWS_A_GROUP

SEGMENT_S = 60.0
SEGMENT_ROWS = 1_000_000
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
        content: bool = False,
        segment_s: float = SEGMENT_S,
        segment_rows: int = SEGMENT_ROWS,
        rows_a_group: int = ROWS_A_GROUP,
    ) -> None:
        check_run_name(run)
        row = about_row(part, about)
        tables = traced_tables(content=content)
        self.columns = {table: Columns(SCHEMAS[table]) for table in tables}
        self._folders = {t: part_path(folder, t, run, part).parent for t in (*tables, "runs")}
        self._part = safe_name(part)
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
        self._files = {t: TableFile(self._path(t), self.columns[t]) for t in self.columns}

    # --- rows ---------------------------------------------------------------------------------------

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """A row of that table (see `rows`), which is a tuple of its values in the order of the schema."""
        self.columns[table].add(row)
        self.flush_if_full(table)

    def flush_if_full(self, table: str) -> None:
        if len(self.columns[table]) >= self._rows_a_group:
            self._files[table].flush()

    def look(self, now: float) -> None:
        """To be called now and then: the segment is closed if it has had its time, or its rows."""
        rows = sum(file.rows for file in self._files.values())
        if now - self._since >= self._segment_s or rows >= self._segment_rows:
            self.next_segment(now)

    # --- segments -----------------------------------------------------------------------------------

    def next_segment(self, now: float) -> None:
        """What was recorded so far is there for all. OSError if it can't be; the segment is lost then."""
        self._show()
        self.number += 1
        self._begin(now)

    def _show(self) -> None:
        wanted = [f for f in self._files.values() if self._is_first or f.rows]
        for file in wanted:
            file.finish()
        for file in wanted:
            file.show()
        self._is_first = False

    def close(self) -> None:
        """No more: all of it is there. If the open segment can't be completed, it is not."""
        if self._lock is None:
            return
        try:
            self._show()
        except BaseException:
            self.discard()
            raise
        self._unlock()

    def discard(self) -> None:
        """The open segment is not wanted."""
        for file in self._files.values():
            file.discard()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
