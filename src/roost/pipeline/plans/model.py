"""What a placement comes to: messages between brokers, the delay of deliveries, and how busy brokers are.

The recorded traffic is sent over the tree once more, in the mind: of each kind of publication it is known who
wants it, so the brokers that receive it are those on the ways from its publisher to them. That is exact in
messages, as long as clients want what they wanted. Times follow:

- a link takes what it took, with the queue before it; one that is new, or carried nothing, what the others
  take at the median;
- a broker takes what it took for a publication; where matching grows with the table (001 section 5.1), in
  proportion to the subscriptions that it would have (`tables`);
- a publication waits for others as it does in a queue of that utilisation r with service s: k s r / 2(1 - r),
  where k is by how much the wait that was measured differs from that. A broker that would be overloaded
  falls behind for as long as the run lasted.

What the model has for the placement as it was, and what was measured there, differ a little. Delays are taken
in proportion (`scale`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import TypeVar

import numpy as np
from msgspec import Struct

from roost.errors import UserError
from roost.language import Subscription, covers, parse_subscription
from roost.overlay.preorder import NotATreeError, preorder
from roost.overlay.rewiring.demand import Demand
from roost.overlay.rewiring.flows import Flows
from roost.pipeline.plans.effect import Effect
from roost.pipeline.plans.placement import Placement
from roost.pipeline.plans.recorded import BrokerLoad, PublisherTraffic, Recorded
from roost.relocation.statistics import Answer, Neighbour

Thing = TypeVar("Thing", str, tuple[str, str])

# Beyond, a queue of this kind has no end.
NEARLY_BUSY = 0.99
# A wait that was measured tells of a queue only where there was one.
TRUSTED_UTILISATION = 0.9


class Rates(Struct, frozen=True):
    """What flows, a second."""

    links: Mapping[tuple[str, str], float]  # by direction
    inputs: Mapping[str, float]
    outputs: Mapping[str, float]
    deliveries: Mapping[tuple[str, str], float]  # (the publisher's broker, the subscriber's)

    @property
    def messages(self) -> float:
        return sum(self.links.values())

    @property
    def delivered(self) -> float:
        return sum(self.deliveries.values())


class Model:
    """A run with its clients and links somewhere, or somewhere else."""

    def __init__(
        self,
        recorded: Recorded,
        placement: Placement,
        scale: float = 1.0,
        then: Model | None = None,  # of the placement as it was; None: this is it
    ) -> None:
        self.recorded = recorded
        self.placement = placement
        self.scale = scale
        self.then = self if then is None else then
        self.near: dict[str, list[str]] = {broker: [] for broker in placement.brokers}
        for a, b in placement.links:
            self.near[a].append(b)
            self.near[b].append(a)
        self._towards: dict[str, dict[str, str]] = {}
        self._growths: dict[str, float] = {}
        self._transit_s = median(recorded.transit_s.values()) if recorded.transit_s else 0.0
        self.rates = self._flow()
        if recorded.matching_grows:
            self._tables = tables(self)
            first = self._tables if then is None else then.tables
            self._growths = {
                broker: max(1, count) / first[broker]
                for broker, count in self._tables.items()
                if first.get(broker)
            }
        self.utilisations = {b: self._utilisation(b) for b in placement.brokers}

    # --- the tree -----------------------------------------------------------------------------------

    def towards(self, end: str) -> Mapping[str, str]:
        """Of each broker that there is a way from, the neighbour on the way to this one (of it: itself)."""
        found = self._towards.get(end)
        if found is None:
            found = self._towards[end] = {end: end}
            reached = [end]
            for broker in reached:  # which grows meanwhile
                for other in self.near[broker]:
                    if other not in found:
                        found[other] = broker
                        reached.append(other)
        return found

    def way(self, start: str, end: str) -> list[str]:
        """The brokers from one to another, both included."""
        towards = self.towards(end)
        way = [start]
        while way[-1] != end:
            way.append(towards[way[-1]])
        return way

    def transit_s(self, here: str, there: str) -> float:
        """From matched here until it has arrived there."""
        known = self.recorded.transit_s
        return known.get((here, there), known.get((there, here), self._transit_s))

    # --- traffic ------------------------------------------------------------------------------------

    def audience(self, clients: Iterable[str]) -> Counter[str]:
        """How many of these clients are at each broker."""
        where = self.placement.clients
        return Counter(where[client] for client in clients if client in where)

    def origin(self, publisher: PublisherTraffic) -> str | None:
        """Where it publishes; None if it has left."""
        return self.placement.clients.get(publisher.client)

    def _flow(self) -> Rates:
        links: Counter[tuple[str, str]] = Counter()
        inputs: Counter[str] = Counter()
        outputs: Counter[str] = Counter()
        deliveries: Counter[tuple[str, str]] = Counter()
        for publisher in self.recorded.publishers:
            origin = self.origin(publisher)
            if origin is None:
                continue
            towards = self.towards(origin)
            inputs[origin] += publisher.publications
            for kind in publisher.kinds:
                count, reached = kind.times, {origin}
                for broker, clients in self.audience(kind.clients).items():
                    if broker not in towards:
                        continue  # no way leads there
                    deliveries[origin, broker] += count * clients
                    outputs[broker] += count * clients
                    at = broker
                    while at not in reached:
                        reached.add(at)
                        links[towards[at], at] += count
                        outputs[towards[at]] += count
                        inputs[at] += count
                        at = towards[at]
        return Rates(
            self._a_second(links),
            self._a_second(inputs),
            self._a_second(outputs),
            self._a_second(deliveries),
        )

    def _a_second(self, counts: Counter[Thing]) -> dict[Thing, float]:
        return {thing: count / self.recorded.seconds for thing, count in counts.items()}

    def demand(self) -> Demand:
        """What is published and wanted where, as the flows of a tree have it."""
        place = {broker: i for i, broker in enumerate(self.placement.brokers)}
        columns: dict[tuple[tuple[str, int], ...], int] = {}
        published: list[tuple[int, int, int]] = []
        for publisher in self.recorded.publishers:
            origin = self.origin(publisher)
            if origin is None:
                continue
            for kind in publisher.kinds:
                wanted = tuple(sorted(self.audience(kind.clients).items()))
                column = columns.setdefault(wanted, len(columns))
                published.append((place[origin], column, kind.times))
        amounts = np.zeros((len(place), max(1, len(columns))))
        wants = np.zeros_like(amounts)
        for row, column, count in published:
            amounts[row, column] += count
        for wanted, column in columns.items():
            for broker, clients in wanted:
                wants[place[broker], column] = clients
        return Demand(self.placement.brokers, amounts, wants)

    def flows(self) -> Flows:
        """Those of this tree, by the positions of its brokers. UserError if it is none."""
        try:
            preorder(self.near, self.placement.brokers[0])
        except NotATreeError as bad:
            raise UserError(
                f"{self.recorded.run}: the overlay is no tree ({bad}); expected one, to move links"
            ) from None
        place = {broker: i for i, broker in enumerate(self.placement.brokers)}
        return Flows([(place[a], place[b]) for a, b in self.placement.links], self.demand())

    # --- loads and times ----------------------------------------------------------------------------

    def _growth(self, broker: str) -> float:
        """How many times as large its table is as it was."""
        return self._growths.get(broker, 1.0)

    @property
    def tables(self) -> Mapping[str, int]:
        """How many subscriptions each broker has, as far as that follows from what was delivered."""
        return self._tables

    def matching_s(self, broker: str) -> float:
        """For a publication."""
        return self.recorded.brokers[broker].matching_s * self._growth(broker)

    def _utilisation(self, broker: str) -> tuple[float, float]:
        """Of input and output."""
        load = self.recorded.brokers[broker]
        come, gone = self.rates.inputs.get(broker, 0.0), self.rates.outputs.get(broker, 0.0)
        return come * _service_s(load) * self._growth(broker), gone * load.sending_s

    def waiting_s(self, broker: str) -> float:
        """In its input queue."""
        load = self.recorded.brokers[broker]
        service_s, busy = self.matching_s(broker), self.utilisations[broker][0]
        then = load.input_utilisation
        factor = 1.0
        if 0 < then < TRUSTED_UTILISATION and load.matching_s > 0:
            factor = load.waiting_s / _queue_s(load.matching_s, then)
        behind_s = max(0.0, busy - 1.0) * self.recorded.seconds / 2
        return factor * _queue_s(service_s, min(busy, NEARLY_BUSY)) + behind_s

    def through_s(self, broker: str) -> float:
        return self.waiting_s(broker) + self.matching_s(broker)

    def effect(self) -> Effect:
        """What it comes to."""
        through = {broker: self.through_s(broker) for broker in self.placement.brokers}
        total = 0.0
        for (origin, broker), rate in self.rates.deliveries.items():
            way = self.way(broker, origin)[::-1]
            pairs = pairwise(way)
            taken = sum(through[each] for each in way) + sum(
                self.transit_s(*pair) for pair in pairs
            )
            total += rate * taken
        delivered = self.rates.delivered
        busy = {broker: max(both) for broker, both in self.utilisations.items()}
        busiest = max(busy, key=lambda broker: busy[broker], default="")
        delay_s = self.scale * total / delivered if delivered else 0.0
        return Effect(self.rates.messages, delay_s, busy.get(busiest, 0.0), busiest)

    # --- for decisions ------------------------------------------------------------------------------

    def answers(self) -> list[Answer]:
        """What each broker would tell GRAPE of itself (000 section 4.1), without a session."""
        return [
            Answer(
                broker,
                tuple(Neighbour(n, 0.0, self.transit_s(broker, n)) for n in self.near[broker]),
                input_queueing_s=self.waiting_s(broker),
                matching_s=self.matching_s(broker),
                input_utilisation=self.utilisations[broker][0],
                output_utilisation=self.utilisations[broker][1],
                sending_s=self.recorded.brokers[broker].sending_s,
            )
            for broker in self.placement.brokers
        ]


def model_of(recorded: Recorded) -> Model:
    """Of the placement as it was, with delays in proportion to what was measured there."""
    plain = Model(recorded, recorded.placement)
    found = plain.effect().delay_s
    if found > 0 and recorded.delay_s > 0:
        plain.scale = recorded.delay_s / found
    return plain


def _service_s(load: BrokerLoad) -> float:
    """What a publication keeps the input busy for."""
    if load.input_rate > 0 and load.input_utilisation > 0:
        return load.input_utilisation / load.input_rate
    return load.matching_s


def _queue_s(service_s: float, utilisation: float) -> float:
    return service_s * utilisation / (2 * (1 - utilisation))


# --- tables ---------------------------------------------------------------------------------------------


def tables(model: Model) -> dict[str, int]:
    """The subscriptions that each broker has: those of its clients, and those that neighbours have told it.

    A subscription is told along the way to each publisher that is heard by it, unless one that covers it is
    told along the same link. Those that nothing was delivered for stay where they are.
    """
    recorded, where = model.recorded, model.placement.clients
    found = dict.fromkeys(model.placement.brokers, 0)
    for client, broker in where.items():
        found[broker] += len(recorded.wants.get(client, ()))
    told: dict[tuple[str, str], set[str]] = {}
    for publisher in recorded.publishers:
        origin = model.origin(publisher)
        if origin is None:
            continue
        towards = model.towards(origin)
        heard = {
            (where[client], text)
            for kind in publisher.kinds
            for client in kind.clients
            if client in where
            for text in recorded.wants.get(client, ())
        }
        for start, text in heard:
            at = start
            while at != origin and at in towards:
                onto = towards[at]
                told.setdefault((at, onto), set()).add(text)
                at = onto
    for (_, broker), texts in told.items():
        found[broker] += len(_uncovered(frozenset(texts)))
    return found


@lru_cache(maxsize=100_000)
def _uncovered(texts: frozenset[str]) -> frozenset[str]:
    """Those that no other covers; of equal ones the first."""
    return frozenset(
        text
        for text in texts
        if not any(
            other != text and _covers(other, text) and (other < text or not _covers(text, other))
            for other in texts
        )
    )


@lru_cache(maxsize=1_000_000)
def _covers(one: str, other: str) -> bool:
    return covers(_parsed(one), _parsed(other))


@lru_cache(maxsize=100_000)
def _parsed(text: str) -> Subscription:
    return parse_subscription(text)
