"""Rows of a table on their way into a Parquet file, a row group at a time; hidden until it is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from roost.traces.run import hidden, open_anew

# Columns of `deliveries`.
RISING = ("sequence", "life")
# Numbers that no compression makes smaller to speak of, for three times the work of writing them.
DENSE = ("time", "age_s")


class TableFile:
    """A file of one table. It is opened by the first rows, or when it is shown."""

    def __init__(self, path: Path, schema: pa.Schema, *, in_haste: bool = False) -> None:
        self.path = path
        self._schema = schema
        self._in_haste = in_haste
        self._open = ExitStack()
        self._writer: pq.ParquetWriter | None = None

    def open(self) -> pq.ParquetWriter:
        """OSError if it can't be written."""
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self._open.enter_context(open_anew(hidden(self.path)))
            self._writer = self._open.enter_context(self._new_writer(file))
        return self._writer

    def _new_writer(self, file: BinaryIO) -> pq.ParquetWriter:
        return parquet_writer(file, self._schema, in_haste=self._in_haste)

    def write(self, rows: pa.Table) -> None:
        """A row group more."""
        self.open().write_table(rows)

    def finish(self) -> None:
        """It is whole, and still hidden."""
        self.open()
        self._open.close()

    def show(self) -> None:
        """It is there for all; after `finish`."""
        hidden(self.path).replace(self.path)
        self._writer = None

    def discard(self) -> None:
        """It is not wanted, nor a folder that holds nothing else."""
        # What it still has to write may be what can't be written.
        with suppress(OSError, pa.ArrowException):
            self._open.close()
        self._writer = None
        with suppress(OSError):
            hidden(self.path).unlink(missing_ok=True)
            self.path.parent.rmdir()  # unless it holds something
            self.path.parent.parent.rmdir()


def parquet_writer(
    file: BinaryIO, schema: pa.Schema, *, in_haste: bool = False
) -> pq.ParquetWriter:
    """Of a trace table. In haste the file says only of `time` which are the least and the greatest.

    Numbers that rise by little, or stay, are then written as differences: a third of the time, and hardly
    any bytes. Those that are dense as they are stay so.
    """
    # Only words repeat: to look for repeated numbers takes ten times as long as writing them.
    leaves = {path: type_ for field in schema for path, type_ in _leaves(field)}
    words = [n for n, t in leaves.items() if t == pa.string() or pa.types.is_dictionary(t)]
    return pq.ParquetWriter(
        file,
        schema,
        compression=_hasty(leaves) if in_haste else "zstd",
        use_dictionary=words,
        write_statistics=["time"] if in_haste else True,
        column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED") if in_haste else None,
        write_batch_size=1 << 16 if in_haste else None,
        store_schema=not in_haste,  # which would say how it was in memory, and is not how it is to be read
    )


def _hasty(columns: Iterable[str]) -> dict[str, str]:
    """How each column is compressed in haste; when segments are joined there is time for more."""
    return {path: "none" if path in DENSE else "lz4" for path in columns}


def _leaves(field: pa.Field, prefix: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """The plain columns in a column, as Parquet calls them, and their types."""
    name = f"{prefix}{field.name}"
    if pa.types.is_list(field.type):
        yield from _leaves(field.type.value_field.with_name("element"), f"{name}.list.")
    elif pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _leaves(inner, f"{name}.")
    else:
        yield name, field.type
