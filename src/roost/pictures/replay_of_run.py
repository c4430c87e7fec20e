"""From the tables of a trace to a replay: traffic by link and slice, loads, and who is where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from roost.pictures.replay import Journey, Move, Replay, Slice

SLICES_MAX = 160
JOURNEYS_MAX = 240
Tables = Mapping[str, pa.Table]
Pair = tuple[str, str]
# From when on, and which links there were.
Overlay = tuple[float, tuple[Pair, ...]]


def replay_of(
    tables: Tables,
    title: str,
    until_s: float,
    overlays: Sequence[Overlay],
    moves: Sequence[Move] = (),
) -> Replay:
    """The replay of a run that ended then; of its tables deliveries and loads are used."""
    loads, visits = tables["loads"], tables["deliveries"]
    slice_s = max(_period(loads), until_s / SLICES_MAX)
    count = max(1, int(np.ceil(until_s / slice_s - 1e-9)))

    def slot(table: pa.Table, ahead_s: float = 0.0) -> np.ndarray:
        times = _numbers(table, "time") - ahead_s
        slots: np.ndarray = np.clip((times / slice_s).astype(int), 0, count - 1)
        return slots

    # A sample is of the time before it.
    sampled = 1e-6 * slice_s
    brokers = _brokers(loads, visits)
    traffic = _traffic(visits, slot(visits), slice_s)
    there = _links(overlays, count, slice_s)
    load, subscriptions = _loads(loads, slot(loads, sampled), count)
    publishers = _publishers(visits, slot(visits), count)
    delivered = np.bincount(
        slot(visits), weights=_numbers(visits, "local_subscribers"), minlength=count
    )
    slices = tuple(
        Slice(
            start_s=number * slice_s,
            links={pair: traffic.get((number, *pair), 0.0) for pair in there[number]},
            load=load[number],
            subscriptions=subscriptions[number],
            publishers=publishers[number],
            delivered_per_s=float(delivered[number]) / slice_s,
        )
        for number in range(count)
    )
    return Replay(
        title=title,
        brokers=brokers,
        slice_s=slice_s,
        slices=slices,
        moves=tuple(moves),
        journeys=_journeys(visits, until_s),
    )


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    found: np.ndarray = table[name].to_numpy()
    return found


def _period(loads: pa.Table) -> float:
    """Between two samples of a broker's load."""
    times = np.unique(_numbers(loads, "time"))
    return float(np.median(np.diff(times))) if len(times) > 1 else 1.0


def _brokers(loads: pa.Table, visits: pa.Table) -> tuple[str, ...]:
    """All that ever were, in the order in which they came."""
    names = loads["broker"].to_pylist() + visits["broker"].unique().to_pylist()
    return tuple(dict.fromkeys(names))


def _in_order(a: str, b: str) -> Pair:
    return (a, b) if a < b else (b, a)


def _traffic(
    visits: pa.Table, slots: np.ndarray, slice_s: float
) -> dict[tuple[int, str, str], float]:
    """Publications a second over each link, by slice: a visit says from which neighbour it came."""
    came = ~visits["from_client"].to_numpy() & visits["source"].is_valid().to_numpy()
    rows = visits.filter(pa.array(came))
    source, broker = (
        rows[name].combine_chunks().dictionary_encode() for name in ("source", "broker")
    )
    if not rows.num_rows:
        return {}
    keys = np.stack([slots[came], source.indices.to_numpy(), broker.indices.to_numpy()])
    found, counts = np.unique(keys, axis=1, return_counts=True)
    names = source.dictionary.to_pylist(), broker.dictionary.to_pylist()
    total: dict[tuple[int, str, str], float] = {}
    for (slot, a, b), n in zip(found.T.tolist(), counts.tolist(), strict=True):
        key = (slot, *_in_order(names[0][a], names[1][b]))
        total[key] = total.get(key, 0.0) + n / slice_s
    return total


def _links(overlays: Sequence[Overlay], count: int, slice_s: float) -> list[tuple[Pair, ...]]:
    """Which there are at the end of each slice."""
    found = []
    number = 0
    for slot in range(count):
        end = (slot + 1) * slice_s * (1 + 1e-9)
        while number + 1 < len(overlays) and overlays[number + 1][0] <= end:
            number += 1
        links = overlays[number][1] if overlays else ()
        found.append(tuple(_in_order(a, b) for a, b in links))
    return found


def _loads(
    loads: pa.Table, slots: np.ndarray, count: int
) -> tuple[list[dict[str, float]], list[dict[str, int]]]:
    """Of each slice the last sample of each broker; of one that is down there is none."""
    load: list[dict[str, float]] = [{} for _ in range(count)]
    subscriptions: list[dict[str, int]] = [{} for _ in range(count)]
    columns = ("broker", "input_utilisation", "output_utilisation", "subscriptions")
    rows = zip(slots.tolist(), *(loads[name].to_pylist() for name in columns), strict=True)
    for slot, broker, into, out, held in rows:
        load[slot][broker] = max(into, out)
        subscriptions[slot][broker] = held
    for before, after in (*pairwise(range(count)), *pairwise(reversed(range(count)))):
        if not load[after]:  # between two samples, or before the first
            load[after], subscriptions[after] = load[before], subscriptions[before]
    return load, subscriptions


def _publishers(
    visits: pa.Table, slots: np.ndarray, count: int
) -> list[dict[str, tuple[str, ...]]]:
    """At which broker each publishes; one that is silent is where it was."""
    first = visits["from_client"].to_numpy()
    rows = visits.filter(pa.array(first))
    publishers, brokers = rows["publisher"].to_pylist(), rows["broker"].to_pylist()
    moves: list[dict[str, str]] = [{} for _ in range(count)]
    for slot, publisher, broker in zip(slots[first].tolist(), publishers, brokers, strict=True):
        moves[slot][publisher] = broker
    at: dict[str, str] = {}
    found = []
    for here in moves:
        at.update(here)
        together: dict[str, list[str]] = {}
        for publisher in sorted(at):
            together.setdefault(at[publisher], []).append(publisher)
        found.append({broker: tuple(names) for broker, names in together.items()})
    return found


def _journeys(visits: pa.Table, until_s: float) -> tuple[Journey, ...]:
    """Publications that cross links, evenly over the time, each with all its hops."""
    came = ~visits["from_client"].to_numpy() & visits["source"].is_valid().to_numpy()
    rows = visits.filter(pa.array(came))
    if not rows.num_rows:
        return ()
    times = _numbers(rows, "time") - _numbers(rows, "age_s")
    wanted = _evenly(rows, times, until_s)
    columns = ("publisher", "sequence", "hop", "source", "broker")
    hops: dict[tuple[str, int], list[tuple[int, str, str]]] = {}
    begun: dict[tuple[str, int], float] = {}
    for at, publisher, sequence, hop, source, broker in zip(
        times.tolist(), *(rows[name].to_pylist() for name in columns), strict=True
    ):
        if (publisher, sequence) in wanted:
            hops.setdefault((publisher, sequence), []).append((hop, source, broker))
            begun[publisher, sequence] = at
    return tuple(
        sorted(
            (Journey(begun[id_], tuple(sorted(each))) for id_, each in hops.items()),
            key=lambda journey: journey.at_s,
        )
    )


def _evenly(rows: pa.Table, times: np.ndarray, until_s: float) -> set[tuple[str, int]]:
    """One publication for each of so many moments: the first that crosses a link after it."""
    order = np.argsort(times, kind="stable")
    moments = np.arange(JOURNEYS_MAX) * until_s / JOURNEYS_MAX
    picked = np.unique(np.searchsorted(times[order], moments).clip(max=len(order) - 1))
    chosen: Sequence[int] = order[picked].tolist()
    publishers, sequences = rows["publisher"], rows["sequence"]
    return {(publishers[row].as_py(), sequences[row].as_py()) for row in chosen}
