"""The mean delay of a live federation, from what its brokers record meanwhile.

A broker does not know how old events are when they are delivered, unless it records them: so what a plan has
come to in delay is read from the run that it was made from, if that goes on. Brokers show what they record a
segment at a time, a minute unless they are told otherwise; `loads`, which have a row a second, say how far
the segments of each have come.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.pipeline.lake import Lake

LOOK_EVERY_S = 1.0
# Longer than a segment is open.
PATIENCE_S = 90.0


def mean_delay_s(lake: Lake, run: str, since: float, until: float) -> float | None:
    """From publishing until matched where it is delivered, by delivery; None if nothing was, then."""
    within = (pc.field("time") > since) & (pc.field("time") <= until)
    ages = delivered = 0.0
    for path in lake.files("deliveries", run):
        found = _read(path, ["age_s", "local_subscribers"], within)
        counts = found.column("local_subscribers")
        delivered += pc.sum(counts).as_py() or 0
        ages += pc.sum(pc.multiply(found.column("age_s"), counts)).as_py() or 0.0
    return ages / delivered if delivered else None


def shown_until(lake: Lake, run: str) -> dict[str, float]:
    """Of each broker that records, up to when."""
    found: dict[str, float] = {}
    for path in lake.files("loads", run):
        rows = _read(path, ["broker", "time"], None)
        for row in rows.group_by("broker").aggregate([("time", "max")]).to_pylist():
            at = row["time_max"]
            found[row["broker"]] = max(at, found.get(row["broker"], at))
    return found


def wait_until_shown(
    lake: Lake,
    run: str,
    until: float,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Until all that record have shown what there was then. UserError if one of them does not."""
    late: list[str] = []
    for _ in range(int(patience_s / LOOK_EVERY_S) + 1):
        late = sorted(broker for broker, at in shown_until(lake, run).items() if at < until)
        if not late:
            return
        sleep(LOOK_EVERY_S)
    raise UserError(
        f"{run}: nothing that {', '.join(late)} has recorded since has been shown for {patience_s:g} s;"
        " expected brokers that still record this run (`roost trace on`)"
    )


def _read(path: Path, columns: list[str], within: pc.Expression | None) -> pa.Table:
    return pq.read_table(path, columns=columns, filters=within, partitioning=None)
