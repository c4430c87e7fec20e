"""What it took to choose brokers and to move publishers there (000 figures 6a to 6c).

The time of a choice stands in the record of the decision: from the moment when enough had been traced until
the choice was made. How long a publisher kept its events back is what its client tells its application.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from roost.broker.commands import Tell
from roost.experiments.relocation.figures import MS
from roost.experiments.relocation.optimum import Links
from roost.simulation.clients import SimulatedClient
from roost.simulation.hearing import Hearing
from roost.simulation.world import World


class Moved(NamedTuple):
    """A publisher that is at another broker now."""

    time: float
    publisher: str
    broker: str
    pause_s: float


class MovesHeard(Hearing):
    """Notes what the clients of a world tell of their moves."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock, world.oracle, world.settling)
        self.moved: list[Moved] = []

    def told(self, client: SimulatedClient, tell: Tell) -> None:
        if tell.what == "moved":
            now = self._clock.now
            self.moved.append(Moved(now, client.name, client.broker, float(tell.reason)))
        super().told(client, tell)


def distances(links: Links, source: str) -> dict[str, int]:
    """Hops from a broker to all others."""
    found = {source: 0}
    waiting = deque([source])
    while waiting:
        broker = waiting.popleft()
        for other in links[broker]:
            if other not in found:
                found[other] = found[broker] + 1
                waiting.append(other)
    return found


def wait_times(
    moved: Iterable[Moved], homes: Mapping[str, str], links: Links
) -> dict[int, list[float]]:
    """How long publishers kept events back, in ms, by the hops of their migration path."""
    at = dict(homes)
    waits: dict[int, list[float]] = {}
    for move in moved:
        hops = distances(links, at[move.publisher])[move.broker]
        waits.setdefault(hops, []).append(move.pause_s / MS)
        at[move.publisher] = move.broker
    return waits


def selection_times(decisions: Iterable[Mapping[str, Any]], links: Links) -> dict[int, list[float]]:
    """How long choices of a broker took, in ms, by the hops of the migration path; 0 for staying."""
    times: dict[int, list[float]] = {}
    for decision in decisions:
        if decision["kind"] not in {"move", "stay"}:
            continue
        evidence = json.loads(decision["evidence"])
        hops = distances(links, decision["broker"])[decision["choice"]]
        times.setdefault(hops, []).append(evidence["took_s"] / MS)
    return times


def by_path(name: str, times: Mapping[int, list[float]]) -> dict[str, float]:
    """`selection_ms_path_3` is the mean over paths of three hops; `selection_ms` that over all."""
    everything = [time for some in times.values() for time in some]
    found = {f"{name}_path_{hops}": fmean(some) for hops, some in sorted(times.items())}
    if everything:
        found |= {name: fmean(everything), f"{name}_max": max(everything)}
    return found
