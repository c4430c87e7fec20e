"""The trace tables: declared once, written by the simulator and by live brokers, read by the pipeline.

`deliveries` has a row for every broker that a publication visits, `links` one a neighbour, class and
period, `loads` one a broker and period, `decisions` one for everything that an optimiser chose. Beside these
four, which grow while a run lasts, `runs` says what the run was (see `run`): one row for each that writes
into it.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMAS = {
    "deliveries": pa.schema(
        [
            ("time", pa.float64()),  # when it had been matched, in seconds since the run began
            ("publisher", pa.string()),
            ("sequence", pa.int64()),  # with the publisher: the publication
            ("broker", pa.string()),
            ("hop", pa.int32()),  # 0 at the publisher's broker
            ("local_subscribers", pa.int32()),  # clients at this broker that it was delivered to
            ("forwarded", pa.int32()),  # neighbours that it was sent on to
            ("bytes", pa.int32()),
            ("queueing_s", pa.float64()),  # how long it waited in the input queue
            ("matching_s", pa.float64()),
            ("age_s", pa.float64()),  # since it was published
        ]
    ),
    "links": pa.schema(
        [
            ("time", pa.float64()),  # the end of the period
            ("broker", pa.string()),
            ("neighbour", pa.string()),
            ("class", pa.string()),  # control or data
            ("sent", pa.int64()),  # messages since the broker began
            ("received", pa.int64()),
            ("waiting", pa.int64()),  # sent and not acknowledged
        ]
    ),
    "loads": pa.schema(
        [
            ("time", pa.float64()),
            ("broker", pa.string()),
            ("input_utilisation", pa.float64()),
            ("matching_delay_s", pa.float64()),
            ("output_utilisation", pa.float64()),
            ("input_rate", pa.float64()),
            ("output_rate", pa.float64()),
            ("output_bytes_per_s", pa.float64()),
            ("input_queue", pa.int64()),
            ("output_queue", pa.int64()),
            ("input_queueing_delay_s", pa.float64()),
            ("output_queueing_delay_s", pa.float64()),
            ("cpu_utilisation", pa.float64()),
            ("memory_bytes", pa.float64()),
            ("memory_total_bytes", pa.float64()),
            ("subscriptions", pa.int64()),
        ]
    ),
    "decisions": pa.schema(
        [
            ("time", pa.float64()),
            ("broker", pa.string()),
            ("module", pa.string()),
            ("kind", pa.string()),
            ("subject", pa.string()),
            ("choice", pa.string()),
            ("acted", pa.bool_()),
            ("evidence", pa.string()),  # JSON
            ("predicted", pa.string()),  # JSON
            ("cause", pa.string()),
        ]
    ),
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

# The tables of events, which are written row by row.
TRACED = tuple(table for table in SCHEMAS if table != "runs")
