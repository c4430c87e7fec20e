"""Simulated runs that are recorded, and what the protocols in them had on-line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roost.relocation.collecting import Collection
from roost.relocation.grape_module import Grape
from roost.relocation.pop import Profile
from roost.relocation.pop_module import KnownPublisher, Pop
from roost.simulation.faults import with_faults
from roost.simulation.run import run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from roost.traces import TraceWriter

SESSION = 8
UNTIL = 60.0
# Five brokers; three publishers, whose quotes not all subscribers want.
TREE = f"""
0.0 federation set traces {SESSION}
0.0 federation set moves_must_pay false
0.0 federation set optimiser grape-load100
0.0 federation optimiser pop observing traces=20 traced_max=50
0.0 broker add B0 1000 16 10
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 broker add B3 1000 16 10
0.0 broker add B4 1000 16 10
0.0 link add B0 B1 5
0.0 link add B0 B2 5
0.0 link add B2 B3 5
0.0 link add B2 B4 5
1.0 subscriber add S0 B0 class = 'STOCK'
1.0 subscriber add S1 B1 symbol = 'YHOO'
1.0 subscriber add S2 B3 symbol = 'YHOO' and low < 20
1.0 subscriber add S3 B3 volume > 100000
1.0 subscriber add S4 B4 symbol in ('IBM', 'YHOO')
2.0 publisher add P0 YHOO 90 B1
2.1 publisher add P1 IBM 120 B4
2.2 publisher add P2 MSFT 60 B0
{UNTIL - 5} publisher chrate P0 0
{UNTIL - 5} publisher chrate P1 0
{UNTIL - 5} publisher chrate P2 0
"""


class Session(NamedTuple):
    """A session that GRAPE has collected: what each broker told."""

    at: float
    publisher: str
    first: int
    answers: dict[str, tuple[bytes, int]]  # broker -> bits, deliveries
    lives: dict[str, int]  # of all brokers, then


class OnLine(NamedTuple):
    """What the protocols had."""

    world: World
    sessions: list[Session]
    averages: dict[tuple[str, str], Profile]  # (publisher, broker) -> the last


def recorded(
    folder: Path, name: str, seed: int, faults: str, monkeypatch: pytest.MonkeyPatch
) -> OnLine:
    """A run of that name, in the lake."""
    sessions: list[Session] = []
    averages: dict[tuple[str, str], Profile] = {}
    collected: Callable[..., None] = Grape._collected
    traced: Callable[..., None] = Pop._traced

    def note_session(grape: Grape, publisher: str, collection: Collection) -> None:
        if not collection.objection:
            told = {a.broker: (a.bits, a.deliveries) for a in collection.answers}
            first = collection.session.first
            lives = {host.name: host.lives for host in world.hosts.values()}
            sessions.append(Session(grape._now, publisher, first, told, lives))
        collected(grape, publisher, collection)

    def note_average(pop: Pop, publisher: str, known: KnownPublisher, sequence: int) -> None:
        traced(pop, publisher, known, sequence)
        averages[publisher, pop._around.broker] = known.profile

    workload = parse_workload(TREE, "tree", None)
    if faults != "none":
        workload = with_faults(workload, faults, seed, UNTIL)
    with monkeypatch.context() as patch, TraceWriter(folder, name) as trace:
        patch.setattr(Grape, "_collected", note_session)
        patch.setattr(Pop, "_traced", note_average)
        world = World(workload.settings, workload.statements, seed=seed, trace=trace)
        run(world, UNTIL)
        for host in world.hosts.values():
            if host.life is not None:
                host.life.sample()
    return OnLine(world, sessions, averages)


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
