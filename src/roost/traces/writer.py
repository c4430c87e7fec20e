"""Writes trace tables as Parquet, a row group at a time, into a folder a table and run.

Tracing costs about a microsecond a row, and no memory to speak of. The same rows give the same bytes.

A file is hidden until it is whole, and what `runs` says of the run comes last: who finds that finds all of
the part. What was broken off leaves nothing behind, and what it would have replaced as it was.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.traces.columns import Columns
from roost.traces.run import UNKNOWN, About, about_row, check_run_name, hidden, part_path, write_row
from roost.traces.schemas import SCHEMAS, TRACED

ROWS_A_GROUP = 50_000


class TraceWriter:
    """One part of the trace of a run: `folder/TABLE/run=NAME/part-PART.parquet`.

    A part that is there already is replaced, or with `replace=False` refused.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        part: str = "0",
        about: About = UNKNOWN,
        replace: bool = True,
        rows_a_group: int = ROWS_A_GROUP,
    ) -> None:
        check_run_name(run)
        self._rows_a_group = rows_a_group
        self._row = about_row(part, about)
        self.columns = {table: Columns(SCHEMAS[table]) for table in TRACED}
        self.paths = {table: part_path(folder, table, run, part) for table in SCHEMAS}
        if not replace:
            for path in self.paths.values():
                if path.exists() or hidden(path).exists():
                    raise UserError(
                        f"{path}: the run {run!r} has a trace of {part!r} already; expected the name of"
                        " another run"
                    )
        self._writers: dict[str, pq.ParquetWriter] = {}
        for table in TRACED:
            try:
                self._writers[table] = self._opened(table)
            except OSError as error:
                self.discard()
                raise UserError(
                    f"{self.paths[table]}: can't be written: {error.strerror or error}"
                ) from None

    def _opened(self, table: str) -> pq.ParquetWriter:
        path, schema = self.paths[table], SCHEMAS[table]
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only words repeat: to look for repeated numbers takes ten times as long as writing them.
        words = [field.name for field in schema if field.type == pa.string()]
        return pq.ParquetWriter(hidden(path), schema, compression="zstd", use_dictionary=words)

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """A row of that table (see `rows`), which is a tuple of its values in the order of the schema."""
        self.columns[table].add(row)
        self.flush_if_full(table)

    def flush_if_full(self, table: str) -> None:
        if len(self.columns[table]) >= self._rows_a_group:
            self._flush(table)

    def _flush(self, table: str) -> None:
        if len(self.columns[table]):
            self._writers[table].write_table(self.columns[table].take())

    def close(self) -> None:
        """The trace is complete. If it can't be completed, there is none."""
        if not self._writers:
            return
        try:
            for table, writer in self._writers.items():
                self._flush(table)
                writer.close()
            for table in TRACED:
                hidden(self.paths[table]).replace(self.paths[table])
            write_row(self.paths["runs"], self._row)
        except BaseException:
            self.discard()
            raise
        self._writers.clear()

    def discard(self) -> None:
        """Nothing of it is wanted."""
        for writer in self._writers.values():
            # What it still has to write may be what can't be written.
            with suppress(OSError, pa.ArrowException):
                writer.close()
        for table in TRACED:
            path = self.paths[table]
            with suppress(OSError):
                hidden(path).unlink(missing_ok=True)
                path.parent.rmdir()  # unless it holds something
                path.parent.parent.rmdir()
        self._writers.clear()

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
