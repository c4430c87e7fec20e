"""Writes trace tables as Parquet, a row group at a time, into a folder a table and run.

Tracing costs about a microsecond a row, and no memory to speak of. The same rows give the same bytes.

A file is hidden until it is whole, and what `runs` says of the run comes last: who finds that finds all of
the part. What was broken off leaves nothing behind, and what it would have replaced as it was. So it is with
runs of virtual time, which can be had again; a live broker writes `segments`.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from roost.errors import UserError
from roost.traces.columns import Columns
from roost.traces.run import UNKNOWN, About, about_row, check_run_name, part_path, write_row
from roost.traces.schemas import SCHEMAS, counted_schema, traced_tables
from roost.traces.table_file import TableFile

ROWS_A_GROUP = 50_000


class TraceWriter:
    """One part of the trace of a run: `folder/TABLE/run=NAME/part-PART.parquet`, replaced if it is there."""

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        part: str = "0",
        about: About = UNKNOWN,
        content: bool = False,
        ways: bool = True,
        rows_a_group: int = ROWS_A_GROUP,
    ) -> None:
        check_run_name(run)
        # Whether it says where events came from and whom they reached, and who wanted what. Experiments that
        # only count are an eighth quicker without.
        self.ways = ways
        self._rows_a_group = rows_a_group
        self._part, self._about = part, about
        self._row = about_row(part, about)
        self._is_over = False
        tables = traced_tables(content=content)
        self.columns = {table: Columns(SCHEMAS[table]) for table in tables}
        if not ways:
            self.columns["deliveries"] = Columns(counted_schema())
        self.paths = {table: part_path(folder, table, run, part) for table in (*tables, "runs")}
        self._files = {t: TableFile(self.paths[t], self.columns[t].schema) for t in tables}
        for file in self._files.values():
            try:
                file.open()
            except OSError as error:
                self.discard()
                raise UserError(
                    f"{file.path}: can't be written: {error.strerror or error}"
                ) from None

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """A row of that table (see `rows`), which is a tuple of its values in the order of the schema."""
        self.columns[table].add(row)
        self.flush_if_full(table)

    def note(self, **known: Any) -> None:
        """What has turned out meanwhile, for the row of `runs`."""
        self._about = replace(self._about, config={**self._about.config, **known})
        self._row = about_row(self._part, self._about)

    def flush_if_full(self, table: str) -> None:
        if len(self.columns[table]) >= self._rows_a_group:
            self._flush(table)

    def _flush(self, table: str) -> None:
        if len(self.columns[table]):
            self._files[table].write(self.columns[table].take().table())

    def close(self) -> None:
        """The trace is complete. If it can't be completed, there is none."""
        if self._is_over:
            return
        try:
            for table, file in self._files.items():
                self._flush(table)
                file.finish()
            for file in self._files.values():
                file.show()
            write_row(self.paths["runs"], self._row)
        except BaseException:
            self.discard()
            raise
        self._is_over = True

    def discard(self) -> None:
        """Nothing of it is wanted."""
        for file in self._files.values():
            file.discard()
        self._is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.discard()
