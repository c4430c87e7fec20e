"""The trace tables: declared once, written by the simulator and by live brokers, read by the pipeline.

`deliveries` has a row for every broker that a publication visits, `links` one a neighbour, class and
period, `loads` one a broker and period, `decisions` one for everything that an optimiser chose, `interests`
one for every subscription and advertisement that came or went, `measures` one for what optimisers measured,
and `events` one a publication, if its content is to be recorded. Beside these, which grow while a run lasts,
`runs` says what the run was (see `run`): one row for each that writes into it.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import pyarrow as pa

from roost.traces.rows import (
    DecisionRow,
    DeliveryRow,
    EventRow,
    InterestRow,
    LinkRow,
    LoadRow,
    MeasureRow,
    Row,
)

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
    "interests": schema_of(InterestRow),
    "measures": schema_of(MeasureRow),
    "events": schema_of(EventRow),
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

# Columns that traces of an earlier version end before, and what stands for them there: what nobody knows is
# null, and a profile that needs it says so.
LATER: dict[str, dict[str, Any]] = {
    "deliveries": dict.fromkeys(DeliveryRow._field_defaults),
    "links": {"queueing_s": 0.0, "life": None},
    "loads": {"client_queueing_delay_s": 0.0},
}

# The tables that are written row by row.
TRACED = tuple(table for table in SCHEMAS if table != "runs")
# What may be private: recorded only if somebody says so.
CONTENT = "events"


def counted_schema() -> pa.Schema:
    """Of `deliveries` that say to how many publications went, and not where from and to whom.

    So did those of earlier versions, and are read as such.
    """
    names = [field.name for field in SCHEMAS["deliveries"] if field.name not in LATER["deliveries"]]
    return pa.schema([SCHEMAS["deliveries"].field(name) for name in names])


def traced_tables(*, content: bool) -> tuple[str, ...]:
    """Those that a trace has, with the content of publications or without."""
    return tuple(table for table in TRACED if content or table != CONTENT)
