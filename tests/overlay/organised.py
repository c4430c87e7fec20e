"""Simulated federations whose brokers organise themselves, and what they decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from roost.broker.arbiter import link_between
from roost.broker.commands import Decision, Record
from roost.broker.module import Module
from roost.overlay.organising import OverlaySettings, SelfOrganising
from roost.simulation.host import Host
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World

Settings = Mapping[str, OverlaySettings]


class Organised(World):
    """A world that keeps its modules and their decisions, and looks at the tree whenever a link has moved."""

    def __init__(
        self,
        text: str,
        settings: OverlaySettings,
        special: Settings | None = None,
        others: Sequence[type[Module]] = (),
    ) -> None:
        self.found: list[tuple[float, str, Decision]] = []
        self.organisers: dict[str, SelfOrganising] = {}
        self.degree_max = 0  # that any broker had, at any time after the first rewiring
        special = special or {}

        def make(broker: str) -> list[Module]:
            self.organisers[broker] = SelfOrganising(special.get(broker, settings))
            return [self.organisers[broker], *(other() for other in others)]

        parsed = parse_workload(text, "organised", Path())
        super().__init__(parsed.settings, parsed.statements, modules=make)

    def decided(self, host: Host, record: Record) -> None:
        self.found.append((self.clock.now, host.name, record.decision))
        super().decided(host, record)

    def rewired(self, middle: str, mover: str, anchor: str) -> None:
        super().rewired(middle, mover, anchor)
        check_tree(self)
        degrees = (len(self.overlay.neighbours(name)) for name in self.overlay.brokers())
        self.degree_max = max(self.degree_max, *degrees)

    def until(self, time: float) -> Organised:
        run(self, time)
        return self

    def checked(self) -> Checks:
        return check(self, rested=rest(self), must_rest=True)

    def of(self, *kinds: str) -> list[Decision]:
        return [decision for _, _, decision in self.found if decision.kind in kinds]

    def kinds(self) -> Counter[str]:
        return Counter(decision.kind for _, _, decision in self.found)

    def links(self) -> set[str]:
        return links_of(self)


def links_of(world: World) -> set[str]:
    """By the names that decisions give them."""
    overlay = world.overlay
    return {link_between(a, b) for a in overlay.brokers() for b in overlay.neighbours(a)}


def check_tree(world: World) -> None:
    """All are linked, by one link less than there are brokers."""
    brokers, overlay = list(world.overlay.brokers()), world.overlay
    reached = brokers[:1]
    for broker in reached:  # which grows meanwhile
        reached += [name for name in overlay.neighbours(broker) if name not in reached]
    assert len(reached) == len(brokers)
    assert len(links_of(world)) == len(brokers) - 1


def federation(links: str, *, latency_ms: float = 1.0, rest_s: float = 0.0) -> list[str]:
    """The lines of a workload for links such as `B0 B1,B1 B2`."""
    pairs = [pair.split() for pair in links.split(",")]
    names = dict.fromkeys(name for pair in pairs for name in pair)
    said = [f"0.0 federation set rest_s {rest_s}"]
    said += [f"0.0 federation set link_latency_ms {latency_ms}"]
    said += [f"0.0 broker add {name} 1000 16 100" for name in names]
    return said + [f"0.0 link add {a} {b} {latency_ms}" for a, b in pairs]


def publisher(name: str, broker: str, topic: str) -> str:
    return f"0.5 publisher add {name} - 0 {broker} class = '{topic}'"


def subscriber(name: str, broker: str, *topics: str) -> str:
    wanted = " or ".join(f"class = '{topic}'" for topic in topics)
    return f"0.6 subscriber add {name} {broker} {wanted}"


def publishing(
    events: Iterable[tuple[str, str]], since: float, until: float, gap_s: float
) -> list[str]:
    """These (publisher, topic) in turn, all the time."""
    said, at = [], since
    cycle = list(events)
    number = 0
    while at < until:
        name, topic = cycle[number % len(cycle)]
        said.append(f"{at:.3f} publisher publish {name} [class,'{topic}']")
        at, number = at + gap_s, number + 1
    return said
