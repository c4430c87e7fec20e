"""What brokers record, simulated or live: Parquet tables that the pipeline reads."""

from roost.traces.reader import read_table
from roost.traces.rows import decision_row
from roost.traces.run import About
from roost.traces.schemas import SCHEMAS
from roost.traces.writer import TraceWriter

__all__ = ["SCHEMAS", "About", "TraceWriter", "decision_row", "read_table"]
