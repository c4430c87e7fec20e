"""Reads trace tables back, and refuses what is none."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.traces.schemas import LATER, SCHEMAS


def read_table(path: Path) -> pa.Table:
    """A trace table. Which one it has to be is said by its folder: `TABLE/run=NAME/part-0.parquet`."""
    name = path.parent.parent.name
    if name not in SCHEMAS:
        raise UserError(
            f"{path}: not in the folder of a trace table; expected TABLE/run=NAME/{path.name}"
            f" with a table of {', '.join(SCHEMAS)}"
        )
    try:
        with pq.ParquetFile(path) as file:
            refuse_other(path, name, file.schema_arrow)
            return _completed(file.read(), name)
    except OSError as bad:
        # Arrow raises it for damaged pages too, then without an error of the system's.
        what = os.strerror(bad.errno) if bad.errno else "the file is damaged"
        raise UserError(f"{path}: {what}; expected a trace of {name}") from None
    except pa.ArrowInvalid:
        raise UserError(f"{path}: not a whole Parquet file; expected a trace of {name}") from None


def refuse_other(path: Path, name: str, found: pa.Schema) -> None:
    """The first column that is not as the schema says, in words."""
    expected = SCHEMAS[name]
    for number, field in enumerate(expected):
        if number >= len(found):
            if field.name in LATER.get(name, ()):
                return
            raise UserError(f"{path}: no column {field.name!r}; expected a trace of {name}")
        there = found.field(number)
        if (there.name, there.type) != (field.name, field.type):
            raise UserError(
                f"{path}: column {number + 1} is {there.name!r} ({there.type}); expected"
                f" {field.name!r} ({field.type}), as a trace of {name} has"
            )
    if len(found) > len(expected):
        extra = found.field(len(expected)).name
        raise UserError(f"{path}: a column {extra!r} too many; expected a trace of {name}")


def _completed(table: pa.Table, name: str) -> pa.Table:
    """With the columns that an earlier version did not write."""
    for field in list(SCHEMAS[name])[table.num_columns :]:
        value = pa.scalar(LATER[name][field.name], field.type)
        table = table.append_column(field, pa.repeat(value, table.num_rows))
    return table
