"""Small runs, as plans are made from them, and a federation that exists only here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from roost.pipeline.plans.applying import RefusedError
from roost.pipeline.plans.effect import Effect, Weights
from roost.pipeline.plans.placement import Placement, in_order, placement_of
from roost.pipeline.plans.plan import Decision, Limits, Plan, Step
from roost.pipeline.plans.recorded import BrokerLoad, Kind, PublisherTraffic, Recorded

SECONDS = 100.0
BUSY = BrokerLoad(
    waiting_s=0.0,
    matching_s=0.001,
    sending_s=0.0005,
    input_utilisation=0.01,
    output_utilisation=0.01,
    input_rate=10.0,
    output_rate=20.0,
    output_bytes_per_s=4_000.0,
    subscriptions=10,
)


def recorded(
    links: Iterable[tuple[str, str]],
    clients: Mapping[str, str],
    traffic: Mapping[str, Sequence[tuple[int, tuple[str, ...]]]],
    loads: Mapping[str, BrokerLoad] | None = None,
    *,
    matching_grows: bool = False,
) -> Recorded:
    """A run of these publishers, each with kinds of (publications, who gets them)."""
    pairs = [in_order(a, b) for a, b in links]
    brokers = sorted({broker for link in pairs for broker in link} | set(clients.values()))
    return Recorded(
        run="small",
        seconds=SECONDS,
        placement=placement_of(brokers, pairs, clients),
        brokers={broker: (loads or {}).get(broker, BUSY) for broker in brokers},
        transit_s={way: 0.01 for a, b in pairs for way in ((a, b), (b, a))},
        wants={c: (f"for = '{c}'",) for c in clients if not c.startswith("P")},
        publishers=tuple(
            PublisherTraffic(name, name, tuple(Kind(*kind) for kind in kinds))
            for name, kinds in traffic.items()
        ),
        load_per_s=1.0,
        delay_s=0.0,
        matching_grows=matching_grows,
    )


def chain(count: int) -> list[tuple[str, str]]:
    return [(f"B{i}", f"B{i + 1}") for i in range(count - 1)]


NOTHING = Effect(1.0, 1.0, 0.1)


def plan_of_steps(placement: Placement, steps: Sequence[Step]) -> Plan:
    """A plan of just these steps."""
    moving = [step.client for step in steps if step.client]
    kept = {client: placement.clients[client] for client in moving}
    numbers = sorted({step.decision for step in steps})
    return Plan(
        run="small",
        seconds=SECONDS,
        goals=Weights(),
        limits=Limits(),
        placement=placement_of(placement.brokers, placement.links, kept),
        digest=placement.digest(moving),
        before=NOTHING,
        measured=None,
        after=NOTHING,
        steps=tuple(steps),
        decisions=tuple(
            Decision(n, "links", f"wish {n}", "because", 0.1, {}, NOTHING, NOTHING) for n in numbers
        ),
    ).sealed()


class PretendFederation:
    """Brokers that do at once what they are asked for; each request is noted."""

    def __init__(self, placement: Placement) -> None:
        self.clients = dict(placement.clients)
        self.links = set(placement.links)
        self.brokers = list(placement.brokers)
        self.asked: list[str] = []

    def placement(self) -> Placement:
        return placement_of(self.brokers, self.links, self.clients)

    def look(self, clients: Iterable[str]) -> Placement:
        wanted = set(clients)
        where = {client: at for client, at in self.clients.items() if client in wanted}
        return placement_of(self.brokers, self.links, where)

    def redirect(self, client: str, source: str, target: str) -> None:
        self.asked.append(f"{client} {source}-{target}")
        if self.clients.get(client) != source:
            raise RefusedError(f"there is no client {client!r} at this broker")
        self.clients[client] = target

    def rewire(self, middle: str, mover: str, anchor: str) -> None:
        self.asked.append(f"{middle} {mover}-{anchor}")
        if not {in_order(middle, mover), in_order(middle, anchor)} <= self.links:
            raise RefusedError(f"{mover} and {anchor} are not both neighbours of {middle}")
        self.links.remove(in_order(middle, mover))
        self.links.add(in_order(mover, anchor))
