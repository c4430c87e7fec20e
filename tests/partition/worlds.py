"""Services in the laboratory: dispatchers and matchers that are all linked, and clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import cast

from roost.partition.dispatcher import Dispatcher
from roost.partition.matcher import Matcher
from roost.partition.naming import DISPATCHER, MATCHER
from roost.simulation.faults import with_faults
from roost.simulation.run import Checks, verdict
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World

DURABLE = ("durability on", "commit_ms 2", "asking on", "ack_delay_s 0")


def service(
    matchers: int,
    dispatchers: int = 2,
    *,
    dimensions: str = "x:0:100,y:0:100",
    settings: Iterable[str] = DURABLE,
    dispatcher: str = DISPATCHER,
    matcher: str = MATCHER,
    dispatcher_words: str = "",
    matcher_words: str = "",
    latency_ms: float = 2.0,
) -> list[str]:
    """The statements that begin one."""
    fronts = [f"D{n}" for n in range(dispatchers)]
    backs = [f"M{n}" for n in range(matchers)]
    all_fronts = ",".join(fronts)
    lines = [f"0.0 federation set {line}" for line in settings]
    for name in fronts:
        words = f"dispatchers={all_fronts} dimensions={dimensions} matchers={','.join(backs)}"
        lines.append(f"0.0 broker add {name} 1000 64 1000 {dispatcher} {words} {dispatcher_words}")
    lines += [matcher_line(0.0, name, fronts, matcher, matcher_words) for name in backs]
    pairs = combinations([*fronts, *backs], 2)
    lines += [f"0.0 link add {a} {b} {latency_ms:g}" for a, b in pairs]
    return lines


def matcher_line(
    at: float, name: str, fronts: Sequence[str], matcher: str = MATCHER, words: str = ""
) -> str:
    return f"{at} broker add {name} 1000 64 1000 {matcher} dispatchers={','.join(fronts)} {words}"


def joining(at: float, name: str, others: Sequence[str], fronts: Sequence[str]) -> list[str]:
    """A matcher that joins."""
    lines = [matcher_line(at, name, fronts)]
    return [*lines, *(f"{at} link add {other} {name} 2" for other in others)]


def simulated(
    lines: Iterable[str], until: float, *, faults: str = "none", seed: int = 0
) -> tuple[World, Checks, list[str]]:
    text = "\n".join([*sorted(lines, key=lambda line: float(line.split()[0])), f"{until} end"])
    workload = with_faults(parse_workload(text, "service", None), faults, seed, until)
    world = World(workload.settings, workload.statements, seed=seed)
    world.run(until)
    return world, *verdict(world, workload)


def dispatcher_of(world: World, name: str) -> Dispatcher:
    life = world.hosts[name].life
    assert life is not None
    return cast(Dispatcher, life.machine)


def matcher_of(world: World, name: str) -> Matcher:
    life = world.hosts[name].life
    assert life is not None
    return cast(Matcher, life.machine)
