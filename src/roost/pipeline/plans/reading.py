"""What plans are made from, out of a lake: two profiles on Spark, and a few small tables as they are.

Only the last part of a run counts (the *window*): traffic changes, and a plan for that of last week is none.
Of traffic, `profiles.audiences` and `profiles.hops` have sums over the rows of the window; `loads`, `links`
and `interests` are read as they are, as they grow with time and not with traffic.

**Where everybody is at the end** is said by `interests` (what has come, and has not gone) and by the overlay:
of a simulated run it is noted in `runs`, a live broker counts each of its links in every sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from roost.errors import UserError
from roost.optimising.bitvector import WORD_BITS
from roost.pipeline.lake import Lake
from roost.pipeline.plans.placement import in_order, placement_of
from roost.pipeline.plans.recorded import BrokerLoad, Recorded, Words, traffic_of
from roost.pipeline.profiles import audiences, hop_times
from roost.traces import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_S = 600.0
SIMULATED = "simulated"
# Spark has 64 bits with a sign.
WORD = (1 << WORD_BITS) - 1
# Of its links a live broker has a row in each sample; one that has none in the last few is gone.
SAMPLES_WITHOUT = 2.5


class Tables(NamedTuple):
    """What was read, of the window."""

    run: str
    kind: str
    audiences: Sequence[Mapping[str, Any]]
    hops: Sequence[Mapping[str, Any]]
    loads: Sequence[Mapping[str, Any]]
    links: Sequence[Mapping[str, Any]]
    interests: Sequence[Mapping[str, Any]]
    overlays: Sequence[
        tuple[float, Sequence[Sequence[Any]]]
    ]  # as `runs` has them; none if it has none


def read_run(spark: SparkSession, lake: Lake, run: str, window_s: float = WINDOW_S) -> Recorded:
    """A run of a lake. UserError says what is missing."""
    if not window_s > 0:
        raise UserError(f"a window of {window_s:g} s; expected some length")
    deliveries = lake.read(spark, "deliveries", run, needs=("source", "from_client", "clients"))
    end = deliveries.agg({"time": "max"}).first()[0]  # type: ignore[index]
    if end is None:
        raise UserError(f"{run}: nothing was published; expected traffic, to plan from")
    return recorded_of(
        tables_of(lake, run, deliveries.where(f"time >= {end - window_s!r}"), end, window_s)
    )


def tables_of(lake: Lake, run: str, deliveries: DataFrame, end: float, window_s: float) -> Tables:
    """All that a plan wants of a run, from the rows of `deliveries` that count."""
    info = lake.run(run)
    loads = [row for row in rows_of(lake, "loads", run) if end - window_s <= row["time"] <= end]
    return Tables(
        run,
        info.kind,
        audiences().of(deliveries.drop("run")).toArrow().to_pylist(),
        hop_times().of(deliveries.drop("run")).toArrow().to_pylist(),
        loads,
        rows_of(lake, "links", run),
        rows_of(lake, "interests", run),
        overlays_of(part.config for part in info.parts),
    )


def overlays_of(
    configs: Iterable[Mapping[str, Any]],
) -> list[tuple[float, Sequence[Sequence[Any]]]]:
    """The overlays that a simulated run has noted: since when, and links with their latencies."""
    return [(time, links) for config in configs for time, links in config.get("overlays", ())]


def rows_of(lake: Lake, table: str, run: str) -> list[dict[str, Any]]:
    """A table of a run that is small, in order of time."""
    found: list[dict[str, Any]] = []
    for path in lake.files(table, run):
        found += read_table(path).to_pylist()
    return sorted(found, key=lambda row: float(row["time"]))


# --- from rows ----------------------------------------------------------------------------------------


def recorded_of(tables: Tables) -> Recorded:
    """What the rows say."""
    left_out: list[str] = []
    words = [
        Words(
            row["publisher"],
            row["broker"],
            row["client"],
            row["published"],
            row["word"],
            row["bits"],
            row["last"],
        )
        for row in tables.audiences
    ]
    times = [(row["began"], row["last"]) for row in tables.audiences if row["published"]]
    if not times:
        raise UserError(f"{tables.run}: nothing was published; expected traffic, to plan from")
    seconds = max(last for _, last in times) - min(began for began, _ in times)
    publications = sum(
        (row["bits"] & WORD).bit_count() for row in tables.audiences if row["published"]
    )
    if seconds <= 0:
        raise UserError(
            f"{tables.run}: {publications} publications at one moment; expected some that take their time"
        )
    # The last one has its interval, too.
    seconds *= publications / max(1, publications - 1)
    brokers = sorted(
        {row["broker"] for row in tables.loads}
        | {row["broker"] for row in tables.hops}
        | {end for _, links in tables.overlays[-1:] for link in links for end in link[:2]}
    )
    links = [link for link in links_at_end(tables) if set(link) <= set(brokers)]
    clients, wants = interests_at_end(tables.interests)
    gone = sorted({broker for broker in clients.values() if broker not in brokers})
    if gone:
        left_out.append(f"clients at {', '.join(gone)}, of which no load was recorded")
    measured = [row for row in tables.hops if row["other"] is not None]
    delivered = sum(row["delivered"] for row in tables.hops)
    return Recorded(
        run=tables.run,
        seconds=seconds,
        placement=placement_of(
            brokers, links, {c: b for c, b in clients.items() if b in set(brokers)}
        ),
        brokers=loads_of(brokers, tables),
        transit_s=dict(transits(tables.hops)),
        wants=wants,
        publishers=tuple(traffic_of(words)),
        load_per_s=sum(row["arrived"] for row in measured) / seconds,
        delay_s=sum(row["ages_s"] for row in tables.hops) / delivered if delivered else 0.0,
        matching_grows=tables.kind == SIMULATED,
        left_out=tuple(left_out),
    )


def links_at_end(tables: Tables) -> list[tuple[str, str]]:
    """Of the overlay when the run ended."""
    if tables.overlays:
        return [in_order(link[0], link[1]) for link in tables.overlays[-1][1]]
    by_broker: dict[str, dict[str, float]] = {}
    for row in tables.links:
        by_broker.setdefault(row["broker"], {})[row["neighbour"]] = row["time"]
    period = _period(tables.links)
    found: dict[tuple[str, str], None] = {}
    for broker, last in by_broker.items():
        newest = max(last.values())
        for neighbour, time in last.items():
            if tables.kind == SIMULATED or newest - time <= SAMPLES_WITHOUT * period:
                found[in_order(broker, neighbour)] = None
    return list(found)


def _period(rows: Sequence[Mapping[str, Any]]) -> float:
    """How far samples are apart, at the median."""
    times = (
        sorted({row["time"] for row in rows if row["broker"] == rows[0]["broker"]}) if rows else []
    )
    gaps = [b - a for a, b in pairwise(times) if b - a > 0.05]
    return median(gaps) if gaps else 1.0


def interests_at_end(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Where each client is, and what it asks for: what has come and not gone. Rows are in order of time."""
    there: dict[tuple[str, str, str, str], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["client"], row["broker"], row["kind"], row["id"])
        if row["added"]:
            there.pop(key, None)
            there[key] = row
        else:
            there.pop(key, None)
    clients = {client: broker for client, broker, _, _ in there}  # the newest is the last
    wants: dict[str, list[str]] = {}
    for (client, broker, kind, _), row in there.items():
        if kind == "subscription" and clients[client] == broker:
            wants.setdefault(client, []).append(row["filter"])
    return clients, {client: tuple(sorted(texts)) for client, texts in wants.items()}


def transits(hops: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], float]]:
    """What each link took, by direction: the mean age on arrival less that on departure."""
    left = {(row["broker"], row["other"]): row for row in hops if row["left"]}
    for row in hops:
        way = (row["other"], row["broker"])
        if row["other"] is not None and row["arrived"] and way in left:
            departed = left[way]
            taken = row["arrival_s"] / row["arrived"] - departed["departure_s"] / departed["left"]
            yield way, max(0.0, taken)


def loads_of(brokers: Sequence[str], tables: Tables) -> dict[str, BrokerLoad]:
    """Means over the window; of a broker that nothing came to, times are the medians of the others."""
    through: dict[str, tuple[int, float, float]] = {}
    for row in tables.hops:
        arrived, waited, matched = through.get(row["broker"], (0, 0.0, 0.0))
        through[row["broker"]] = (
            arrived + row["arrived"],
            waited + row["waiting_s"],
            matched + row["matching_s"],
        )
    matching = {b: m / n for b, (n, _, m) in through.items() if n}
    waiting = {b: w / n for b, (n, w, _) in through.items() if n}
    samples: dict[str, list[Mapping[str, Any]]] = {}
    for row in tables.loads:
        samples.setdefault(row["broker"], []).append(row)
    sending = {
        broker: sum(row["output_utilisation"] for row in rows) / sent
        for broker, rows in samples.items()
        if (sent := sum(row["output_rate"] for row in rows)) > 0
    }
    usual = [median(table.values()) if table else 0.0 for table in (matching, waiting, sending)]

    def mean(broker: str, name: str) -> float:
        rows = samples.get(broker)
        return fmean(row[name] for row in rows) if rows else 0.0

    return {
        broker: BrokerLoad(
            matching_s=matching.get(broker, usual[0]),
            waiting_s=waiting.get(broker, usual[1]),
            sending_s=sending.get(broker, usual[2]),
            input_utilisation=mean(broker, "input_utilisation"),
            output_utilisation=mean(broker, "output_utilisation"),
            input_rate=mean(broker, "input_rate"),
            output_rate=mean(broker, "output_rate"),
            output_bytes_per_s=mean(broker, "output_bytes_per_s"),
            subscriptions=int(samples[broker][-1]["subscriptions"]) if broker in samples else 0,
            memory_bytes=mean(broker, "memory_bytes"),
            memory_total_bytes=mean(broker, "memory_total_bytes"),
            cpu_utilisation=mean(broker, "cpu_utilisation"),
        )
        for broker in brokers
    }
