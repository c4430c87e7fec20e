"""The two profiles that plans are made from, row by row: what Spark's sums are held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roost.pipeline.lake import Lake
from roost.pipeline.plans.reading import Tables, overlays_of, recorded_of
from roost.pipeline.plans.recorded import Recorded
from roost.traces import read_table

Rows = Sequence[Mapping[str, Any]]


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def audiences(deliveries: Rows) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, str, bool, int], list[Any]] = {}
    for row in deliveries:
        if row["source"] is None:
            continue
        who = [(each["client"], False) for each in row["clients"]]
        if row["from_client"]:
            who.append((row["source"], True))
        for client, published in who:
            key = (row["publisher"], row["broker"], client, published, row["sequence"] // 64)
            sums = found.setdefault(key, [0, row["time"], row["time"]])
            sums[0] |= 1 << row["sequence"] % 64
            sums[1], sums[2] = min(sums[1], row["time"]), max(sums[2], row["time"])
    names = ("publisher", "broker", "client", "published", "word", "bits", "began", "last")
    return [
        dict(zip(names, (*key, signed(bits), began, last), strict=True))
        for key, (bits, began, last) in found.items()
    ]


def hops(deliveries: Rows) -> list[dict[str, Any]]:
    found: dict[tuple[str, str | None], dict[str, Any]] = {}

    def sums(broker: str, other: str | None) -> dict[str, Any]:
        return found.setdefault(
            (broker, other),
            {
                "broker": broker,
                "other": other,
                **dict.fromkeys(("arrived", "left", "delivered"), 0),
                **dict.fromkeys(
                    ("arrival_s", "departure_s", "waiting_s", "matching_s", "ages_s"), 0.0
                ),
            },
        )

    for row in deliveries:
        if row["source"] is None:
            continue
        came = sums(row["broker"], None if row["from_client"] else row["source"])
        came["arrived"] += 1
        came["arrival_s"] += row["age_s"] - row["queueing_s"] - row["matching_s"]
        came["waiting_s"] += row["queueing_s"]
        came["matching_s"] += row["matching_s"]
        came["delivered"] += row["local_subscribers"]
        came["ages_s"] += row["age_s"] * row["local_subscribers"]
        for other in row["neighbours"]:
            went = sums(row["broker"], other)
            went["left"] += 1
            went["departure_s"] += row["age_s"]
    return list(found.values())


def rows_of(lake: Lake, table: str, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in lake.files(table, run):
        found += read_table(path).to_pylist()
    return sorted(found, key=lambda row: float(row["time"]))


def recorded_plainly(folder: Path, run: str, *, since: float = 0.0) -> Recorded:
    """`reading.read_run` without Spark."""
    lake = Lake(folder)
    deliveries = [row for row in rows_of(lake, "deliveries", run) if row["time"] >= since]
    end = max(row["time"] for row in deliveries)
    info = lake.run(run)
    loads: Iterable[Mapping[str, Any]] = rows_of(lake, "loads", run)
    return recorded_of(
        Tables(
            run,
            info.kind,
            audiences(deliveries),
            hops(deliveries),
            [row for row in loads if since <= row["time"] <= end],
            rows_of(lake, "links", run),
            rows_of(lake, "interests", run),
            overlays_of(part.config for part in info.parts),
        )
    )
