"""The trace tables: declared once, written by the simulator and by live brokers, read by the pipeline.

`deliveries` has a row for every broker that a publication visits, `links` one a neighbour, class and
period, `loads` one a broker and period, `decisions` one for everything that an optimiser chose. Beside these
four, which grow while a run lasts, `runs` says what the run was (see `run`): one row for each that writes
into it.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import pyarrow as pa

from roost.traces.rows import DecisionRow, DeliveryRow, LinkRow, LoadRow, Row

TYPES = {float: pa.float64(), int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def schema_of(row: type[Row]) -> pa.Schema:
    """The columns of a table, from the names and types of its rows."""
    hints = get_type_hints(row, include_extras=True)
    return pa.schema([(name.removesuffix("_"), _type_of(hint)) for name, hint in hints.items()])


def _type_of(hint: Any) -> pa.DataType:
    (exact,) = getattr(hint, "__metadata__", None) or (TYPES[hint],)
    return exact


SCHEMAS = {
    "deliveries": schema_of(DeliveryRow),
    "links": schema_of(LinkRow),
    "loads": schema_of(LoadRow),
    "decisions": schema_of(DecisionRow),
    "runs": pa.schema(
        [
            ("part", pa.string()),  # whose files: a broker's, or those of a table of the pipeline
            ("kind", pa.string()),  # simulated, live, generated, matched, ...
            ("seed", pa.int64()),  # null where none was drawn from
            ("config", pa.string()),  # JSON
            ("versions", pa.string()),  # JSON, of what it was made with
            ("began", pa.float64()),  # in seconds since the epoch; null where time is virtual
        ]
    ),
}

# Columns that traces of an earlier version end before, and what stands for them there.
LATER = {table: row._field_defaults for table, row in (("links", LinkRow), ("loads", LoadRow))}

# The tables of events, which are written row by row.
TRACED = tuple(table for table in SCHEMAS if table != "runs")
