"""What a run comes to over time, from its tables, without Spark: a file and a batch of rows at a time.

Sums by slices of time, and of delays a histogram in steps of 2 %, from which quantiles follow. However long a
run is, there are as many slices, so that memory and the page that is made of it are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from numpy.typing import NDArray

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.lake.files import read_footers
from roost.pipeline.plans.placement import in_order
from roost.pipeline.plans.reading import overlays_of
from roost.traces import read_table

SLICES_MIN, SLICES_MAX = 24, 240
# Fewer visits of events to brokers tell nothing of a slice.
VISITS_A_SLICE = 200
ROWS_A_BATCH = 262_144
# Delays from a microsecond up, each step 2 % longer than the one before.
SHORTEST_S, STEP = 1e-6, 1.02
STEPS = 1_200
DECISIONS_MAX = 200

Floats = NDArray[np.float64]
Edge = tuple[str, str]


class Decided(Struct, frozen=True):
    """A decision, as a trace has it."""

    time: float  # since the run began
    broker: str
    module: str
    kind: str
    subject: str
    choice: str
    acted: bool
    evidence: Mapping[str, Any]
    predicted: Mapping[str, float]

    @property
    def why(self) -> str:
        """In the words of the optimiser."""
        found = self.evidence.get("worth")
        reason = found.get("reason") if isinstance(found, Mapping) else None
        return str(reason or self.evidence.get("why") or "")

    @property
    def measured(self) -> Mapping[str, float]:
        """Of an outcome."""
        found = self.evidence.get("measured")
        return found if isinstance(found, Mapping) else {}


class Series(Struct, frozen=True, kw_only=True):
    """A run over time; arrays have a value a slice."""

    run: str
    kind: str
    seconds: float
    brokers: tuple[str, ...]
    times: Floats  # the middle of each slice, since the run began
    width_s: float
    published: Floats  # a second
    messages: Floats  # between brokers
    delivered: Floats
    mean_s: Floats  # NaN where nothing was delivered
    p50_s: Floats
    p99_s: Floats
    utilisation: Mapping[
        str, Floats
    ]  # of each broker: the higher of input and output; NaN: no sample
    links_before: Mapping[Edge, float]  # messages a second, of the overlay as it began
    links_after: Mapping[Edge, float]
    decisions: tuple[Decided, ...]
    decided: int  # all of them
    total_published: int
    total_messages: int
    total_delivered: int
    total_mean_s: float
    total_p99_s: float

    @property
    def busiest(self) -> tuple[str, float]:
        """The broker that was busiest on average, and how much."""
        means = {
            b: float(np.nanmean(u)) for b, u in self.utilisation.items() if not np.isnan(u).all()
        }
        if not means:
            return "", 0.0
        broker = max(means, key=lambda each: means[each])
        return broker, means[broker]


def series_of(lake: Lake, run: str) -> Series:
    """A run of a lake. UserError says what is missing."""
    info = lake.run(run)
    files = lake.files("deliveries", run)
    start, end = _span(lake, run)
    if not end > start:
        raise UserError(f"{run}: nothing happened in it; expected traffic over some time")
    visits = sum(footer.rows for footer in read_footers(files))
    slices = max(SLICES_MIN, min(SLICES_MAX, visits // VISITS_A_SLICE))
    width = (end - start) / slices
    sums = _Sums(start, width, slices)
    for path in files:
        for batch in _batches(path):
            sums.add(batch)
    loads = _table(lake, "loads", run)
    decisions = _table(lake, "decisions", run)
    overlays = overlays_of(part.config for part in info.parts)
    first, last = _links(lake, run, start, end, overlays)
    found, decided = _decisions(decisions, start)
    return Series(
        run=run,
        kind=info.kind,
        seconds=end - start,
        brokers=tuple(sorted(set(loads["broker"].unique().to_pylist()))),
        times=(np.arange(slices, dtype=np.float64) + 0.5) * np.float64(width),
        width_s=width,
        published=sums.published / width,
        messages=sums.messages / width,
        delivered=sums.delivered / width,
        mean_s=_divided(sums.ages_s, sums.delivered),
        p50_s=_quantile(sums.histogram, 0.5),
        p99_s=_quantile(sums.histogram, 0.99),
        utilisation=_utilisation(loads, start, width, slices),
        links_before=first,
        links_after=last,
        decisions=found,
        decided=decided,
        total_published=int(sums.published.sum()),
        total_messages=int(sums.messages.sum()),
        total_delivered=int(sums.delivered.sum()),
        total_mean_s=float(sums.ages_s.sum() / max(1.0, sums.delivered.sum())),
        total_p99_s=float(_quantile(sums.histogram.sum(0, keepdims=True), 0.99)[0]),
    )


def _table(lake: Lake, table: str, run: str) -> pa.Table:
    return pa.concat_tables([read_table(path) for path in lake.files(table, run)])


def _batches(path: Any) -> Iterator[pa.RecordBatch]:
    names = ["time", "age_s", "local_subscribers", "source", "from_client"]
    with pq.ParquetFile(path) as file:
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise UserError(
                f"{path}: it has no column {missing[0]!r}; expected a trace of this version of Roost"
            )
        yield from file.iter_batches(ROWS_A_BATCH, columns=names)


def _span(lake: Lake, run: str) -> tuple[float, float]:
    """From the first to the last event, by what the footers say."""
    low, high = np.inf, -np.inf
    for path in lake.files("deliveries", run):
        with pq.ParquetFile(path) as file:
            column = file.schema_arrow.names.index("time")
            for group in range(file.num_row_groups):
                said = file.metadata.row_group(group).column(column).statistics
                if said is not None and said.has_min_max:
                    low, high = min(low, said.min), max(high, said.max)
    return float(low), float(high)


class _Sums:
    def __init__(self, start: float, width: float, slices: int) -> None:
        self._start, self._width, self._slices = start, width, slices
        self.published, self.messages, self.delivered, self.ages_s = np.zeros((4, slices))
        self.histogram = np.zeros((slices, STEPS))

    def add(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch])
        rows = rows.filter(pc.is_valid(rows["source"]))
        slices = self._slices
        place = (rows["time"].to_numpy() - self._start) / self._width
        slot = np.clip(place, 0, slices - 1).astype(np.int64)
        begun = rows["from_client"].to_numpy(zero_copy_only=False).astype(bool)
        local = rows["local_subscribers"].to_numpy().astype(np.float64)
        ages = rows["age_s"].to_numpy()
        self.published += np.bincount(slot[begun], minlength=slices)
        self.messages += np.bincount(slot[~begun], minlength=slices)
        self.delivered += np.bincount(slot, local, minlength=slices)
        self.ages_s += np.bincount(slot, ages * local, minlength=slices)
        step = np.log(np.maximum(ages, SHORTEST_S) / SHORTEST_S) / np.log(STEP)
        step = np.clip(step, 0, STEPS - 1).astype(np.int64)
        self.histogram += np.bincount(slot * STEPS + step, local, minlength=slices * STEPS).reshape(
            slices, STEPS
        )


def _divided(a: Floats, b: Floats) -> Floats:
    found: Floats = np.divide(a, b, out=np.full(len(a), np.nan), where=b > 0)
    return found


def _quantile(histogram: NDArray[np.float64], share: float) -> Floats:
    """Of each row; the middle of the step that it falls into."""
    running = histogram.cumsum(1)
    total = running[:, -1]
    place = (running < share * total[:, None]).sum(1)
    values = SHORTEST_S * STEP ** (place + 0.5)
    found: Floats = np.where(total > 0, values, np.nan)
    return found


def _utilisation(loads: pa.Table, start: float, width: float, slices: int) -> dict[str, Floats]:
    slot = (loads["time"].to_numpy() - start) / width
    inside = (slot >= 0) & (slot <= slices)
    busy = np.maximum(loads["input_utilisation"].to_numpy(), loads["output_utilisation"].to_numpy())
    names = np.array(loads["broker"].to_pylist())
    found = {}
    for broker in sorted(set(names.tolist())):
        mine = inside & (names == broker)
        place = np.minimum(slot[mine], slices - 1).astype(np.int64)
        counts = np.bincount(place, minlength=slices).astype(np.float64)
        sums = np.bincount(place, busy[mine], minlength=slices).astype(np.float64)
        found[broker] = _divided(sums, counts)
    return found


# --- links ----------------------------------------------------------------------------------------------


def _links(
    lake: Lake,
    run: str,
    start: float,
    end: float,
    overlays: Sequence[tuple[float, Sequence[Sequence[Any]]]],
) -> tuple[dict[Edge, float], dict[Edge, float]]:
    """Messages a second over each link, of the overlay in the first and in the last quarter of the run."""
    quarter = (end - start) / 4
    rows = sorted(_table(lake, "links", run).to_pylist(), key=lambda row: float(row["time"]))
    sent: dict[tuple[str, str, Any], list[tuple[float, int]]] = {}
    for row in rows:
        if row["class"] == "data":
            way = (row["broker"], row["neighbour"], row["life"])
            sent.setdefault(way, []).append((row["time"], row["sent"]))
    halves = []
    for low, high in ((start, start + quarter), (end - quarter, end)):
        rates: dict[Edge, float] = {}
        for (broker, neighbour, _), counts in sent.items():
            times = [time for time, _ in counts]
            # A count holds until the next one; a link that is gone has none.
            before = [count for time, count in counts if time <= low]
            until = [count for time, count in counts if time <= high]
            if until and (overlays or times[-1] >= low):
                more = until[-1] - (before[-1] if before else 0)
                edge = in_order(broker, neighbour)
                rates[edge] = rates.get(edge, 0.0) + max(0, more) / (high - low)
        halves.append(rates)
    if overlays:
        first = {in_order(a, b) for a, b, *_ in overlays[0][1]}
        last = {in_order(a, b) for a, b, *_ in overlays[-1][1]}
        return (
            {edge: halves[0].get(edge, 0.0) for edge in sorted(first)},
            {edge: halves[1].get(edge, 0.0) for edge in sorted(last)},
        )
    return dict(sorted(halves[0].items())), dict(sorted(halves[1].items()))


# --- decisions ------------------------------------------------------------------------------------------


def _decisions(table: pa.Table, start: float) -> tuple[tuple[Decided, ...], int]:
    """The last ones that change something or say what came of it, and how many there were in all."""
    rows = sorted(table.to_pylist(), key=lambda row: float(row["time"]))
    told = [row for row in rows if row["kind"] in ("move", "rewire", "outcome")]
    found = tuple(
        Decided(
            row["time"] - start,
            row["broker"],
            row["module"],
            row["kind"],
            row["subject"],
            row["choice"],
            row["acted"],
            msgspec.json.decode(row["evidence"]),
            msgspec.json.decode(row["predicted"]),
        )
        for row in told[-DECISIONS_MAX:]
    )
    return found, len(rows)
