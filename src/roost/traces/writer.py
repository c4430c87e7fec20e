"""Writes trace tables as Parquet, in batches, into a folder a table and run.

Rows are tuples in the order of the schema. They are gathered and written a row group at a time, so that
tracing costs about a microsecond a row and no memory to speak of. The same rows give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.traces.schemas import SCHEMAS

ROWS_A_GROUP = 50_000
# Rows are turned into columns so many at a time: as tuples they take three times the memory, and that
# few stay in the processor's cache.
ROWS_A_BATCH = 2_000


class TraceWriter:
    """The trace of one run: `folder/TABLE/run=NAME/part-0.parquet`."""

    def __init__(self, folder: Path, run: str) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in SCHEMAS}
        self._batches: dict[str, list[pa.Table]] = {table: [] for table in SCHEMAS}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.paths: dict[str, Path] = {}
        for table, schema in SCHEMAS.items():
            path = folder / table / f"run={run}" / "part-0.parquet"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._writers[table] = pq.ParquetWriter(path, schema, compression="zstd")
            except OSError as error:
                raise UserError(f"{path}: can't be written: {error.strerror or error}") from None
            self.paths[table] = path
        # For the hot path: append to it, and flush now and then.
        self.deliveries = self._rows["deliveries"]

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        self._rows[table].append(row)
        self.flush_if_full(table)

    def flush_if_full(self, table: str) -> None:
        """Call it now and then, or after each row."""
        if len(self._rows[table]) >= ROWS_A_BATCH:
            self._gather(table)
            if sum(len(batch) for batch in self._batches[table]) >= ROWS_A_GROUP:
                self._write(table)

    def _gather(self, table: str) -> None:
        rows = self._rows[table]
        if rows:
            self._batches[table].append(to_table(table, rows))
            rows.clear()

    def _write(self, table: str) -> None:
        if self._batches[table]:
            group = pa.concat_tables(self._batches[table]).combine_chunks()
            self._writers[table].write_table(group)
            self._batches[table].clear()

    def close(self) -> None:
        for table, writer in self._writers.items():
            self._gather(table)
            self._write(table)
            writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def to_table(name: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Rows of a trace table, in the types that its schema says."""
    schema = SCHEMAS[name]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
