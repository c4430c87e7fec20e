"""What a service says to itself, in the three parts of 004 section IV.C: gossip, tables, reports.

20 matchers are simulated, under load, and count the bytes of what they say by kind. A thousand that are all
linked can't be: there the gossip is played alone, in rounds, with the machines' own `Gossip`, and notes of
tables are made and measured.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from roost.broker.hops import Link
from roost.experiments.partition.lab import machines, workload_of
from roost.experiments.partition.setup import (
    BEGIN_S,
    Phase,
    dimensions_of,
    fluid,
    service_workload,
)
from roost.partition import notes
from roost.partition.dispatcher import Dispatcher
from roost.partition.gossip import Digest, Gossip, around
from roost.partition.handover import first_table, join_each
from roost.partition.matcher import Matcher
from roost.partition.naming import DISPATCHER, MATCHER
from roost.partition.patches import Patch, patch_of
from roost.pipeline.sweeps.tasks import Parameters, Row
from roost.simulation.world import World

HERE = "roost.experiments.partition.traffic"
DISPATCHERS = 2
PULL_S = 10.0
# Of the gossip alone; and when a life began, in milliseconds since 1970.
ROUNDS = 12
LIFE = 1_700_000_000_000
SHARE = 0.7
# Which part a note belongs to; what else is said, questions and answers, is no overhead.
PARTS = {
    Digest: "gossip",
    notes.Suspect: "gossip",
    notes.Pull: "tables",
    notes.Tables: "tables",
    Patch: "tables",
    notes.Known: "tables",
    notes.Paces: "reports",
}


class CountingMatcher(Matcher):
    """It counts the bytes of what it says, by part."""

    def __init__(self, *arguments: object) -> None:
        self.bytes: Counter[str] = Counter()
        super().__init__(*arguments)  # type: ignore[arg-type]

    def _say(self, link: Link, said: notes.Said) -> None:
        self.bytes[PARTS.get(type(said), "")] += len(notes.encode(said))
        super()._say(link, said)


class CountingDispatcher(Dispatcher):
    """The same."""

    def __init__(self, *arguments: object) -> None:
        self.bytes: Counter[str] = Counter()
        super().__init__(*arguments)  # type: ignore[arg-type]

    def _say(self, link: Link, said: notes.Said) -> None:
        self.bytes[PARTS.get(type(said), "")] += len(notes.encode(said))
        super()._say(link, said)


def simulated_traffic_row(parameters: Parameters, seed: int) -> Row:
    """Bytes a second and matcher, by part, under load."""
    like = workload_of(parameters)
    best_per_s, lasts_s = float(parameters["best_per_s"]), int(parameters["lasts_s"])
    workload = service_workload(
        seed,
        phases=[Phase(SHARE * best_per_s, lasts_s)],
        entry_s=fluid(seed, **like).best / best_per_s,
        machines={
            DISPATCHER: f"{HERE}:CountingDispatcher",
            MATCHER: f"{HERE}:CountingMatcher",
        },
        **like,
    )
    world = World(workload.settings, workload.statements)
    world.run(BEGIN_S)
    before = counted(world)
    world.run(BEGIN_S + lasts_s)
    said = counted(world) - before
    each = {part: said[part] / lasts_s / like["matchers"] for part in dict.fromkeys(PARTS.values())}
    return {
        **{f"{part}_bytes_per_s": value for part, value in each.items()},
        "total": sum(each.values()),
    }


def counted(world: World) -> Counter[str]:
    total: Counter[str] = Counter()
    for dispatcher in machines(world, CountingDispatcher).values():
        total += dispatcher.bytes
    for matcher in machines(world, CountingMatcher).values():
        total += matcher.bytes
    return total


def traffic_row(parameters: Parameters, seed: int) -> Row:
    """The same of any number of matchers at rest: gossip in rounds, and the notes of tables."""
    count = int(parameters["matchers"])
    names = [f"M{number}" for number in range(count)]
    table = first_table(dimensions_of(4), names)
    joined = join_each(table, "M", {}, writer="D0")
    pulls = DISPATCHERS * len(notes.encode(notes.Pull(table.stamp))) / PULL_S / count
    gossip, suspected = gossip_of(names, seed)
    return {
        "gossip_bytes_per_s": gossip,
        "tables_bytes_per_s": pulls,
        "table_bytes": len(notes.encode(notes.Tables(table))),
        "step_bytes": len(notes.encode(patch_of(table, joined))),
        "suspected": suspected,
    }


def gossip_of(names: list[str], seed: int) -> tuple[float, float]:
    """Bytes a second and matcher; and the share of those that are watched who were suspected in the end."""
    draw = Random(seed).random
    all_ = {name: Gossip(name, LIFE, 0.0) for name in names}
    watched = {name: around(name, names) for name in names}
    stamps = {"": (1, "D0")}
    total, now = 0, 0.0
    for _ in range(ROUNDS):
        now += 1.0
        for name, gossip in all_.items():
            gossip.tick()
            digest = gossip.digest(stamps, watched[name])
            size = len(notes.encode(digest))
            for partner in gossip.partners(names, watched[name], draw):
                all_[partner].hear(digest, now)
                total += size
    suspects = [gossip.suspects(watched[name], now) for name, gossip in all_.items()]
    share = sum(map(len, suspects)) / sum(map(len, watched.values()))
    return total / ROUNDS / len(names), share
