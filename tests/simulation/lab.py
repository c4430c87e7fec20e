"""Small worlds for tests: a workload as text, run and judged."""

from __future__ import annotations

from roost.broker.messages import Publication
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from roost.traces import TraceWriter

# P at B1, S at B2, and nothing in between.
PAIR = """
0.0 broker add B1 1000 16 10
0.0 broker add B2 1000 16 10
0.0 link add B1 B2 10
1.0 publisher add P - 0 B1 a > 1
1.0 subscriber add S B2 a > 5
"""


def world_of(text: str, trace: TraceWriter | None = None) -> World:
    workload = parse_workload(text, "workload", None)
    return World(workload.settings, workload.statements, trace=trace)


def judged(world: World, until: float = 20.0) -> Checks:
    """Run it, let it come to rest, and hear all checkers."""
    run(world, until)
    return check(world, rested=rest(world), must_rest=True)


def arrivals(world: World) -> list[tuple[str, str, float]]:
    """(client, event, time) of all that arrives from now on."""
    heard: list[tuple[str, str, float]] = []
    arrived = world.oracle.arrived

    def listen(party: object, publication: Publication, names: object, now: float) -> None:
        heard.append((party.name, publication.id, now))  # type: ignore[attr-defined]
        arrived(party, publication, names, now)  # type: ignore[arg-type]

    setattr(world.oracle, "arrived", listen)  # noqa: B010 (it is a method, for the type checker)
    return heard
