"""A broker that counts what it does, and a listener that takes the times: what 003's graphs are made of.

The broker is Roost's, with the costs that were measured (`costs`). What it has done with publications and
subscriptions it counts by kinds of steps; what those take together is the processor's time that it needs,
whatever else waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from roost.broker.commands import Command, Deliver, Send
from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import Received
from roost.broker.hops import Link
from roost.broker.machine import Happening
from roost.broker.messages import Ack, Delivery, Frame, Parcel, Publication, Subscribe
from roost.broker.module import Module
from roost.broker.story import Storybook
from roost.experiments.topologies.costs import COSTS, Steps


@dataclass
class Tally:
    """What a broker has done since it was last asked."""

    steps: Steps = field(default_factory=Steps)
    # Subscriptions, by their ids: when this broker was done with them.
    done_at: dict[str, float] = field(default_factory=dict)


class MeteredBroker(Broker):
    """Counts steps."""

    costs = COSTS

    def __init__(self, config: BrokerConfig, modules: Sequence[Module] = ()) -> None:
        super().__init__(config, modules)
        self.tally = Tally()
        quick = self.take

        def take(connection: int, frame: Frame, now: float) -> list[Command] | None:
            commands = quick(connection, frame, now)
            if commands is not None:
                self._came(connection, frame, now)
                self._went(commands)
            return commands

        self.take = take

    def handle(self, event: Happening, now: float) -> list[Command]:
        commands = super().handle(event, now)
        if type(event) is Received:
            for parcel in event.parcels:
                if type(parcel) is Frame:
                    self._came(event.connection, parcel, now)
        self._went(commands)
        return commands

    def _came(self, connection: int, frame: Frame, now: float) -> None:
        kind, steps = type(frame.message), self.tally.steps
        if kind is Publication:
            if frame.hops:
                steps.from_brokers += 1
            else:
                steps.from_clients += 1
        elif kind is Subscribe:
            source = next((k for k in self.links.values() if k.connection == connection), None)
            if source is None:
                steps.subscriptions += 1
            else:
                steps.broker_subscriptions += 1
            steps.compared += sum(self._is_told(source, link) for link in self.links.values())
            assert isinstance(frame.message, Subscribe)
            self.tally.done_at[frame.message.id] = now

    def _is_told(self, source: Link | None, link: Link) -> bool:
        """Whether what comes from a neighbour, or a client, may have to go on to another one."""
        strategy = self.router.strategy
        if source is None:
            return strategy.hears(link.rank)
        return link is not source and strategy.tells(source.rank, link.rank)

    def _went(self, commands: Iterable[Command]) -> None:
        steps = self.tally.steps
        for command in commands:
            if type(command) is Deliver:
                steps.delivered += len(command.frames)
            elif type(command) is Send and type(command.parcel) is Frame:
                kind = type(command.parcel.message)
                steps.forwarded += kind is Publication
                steps.delivered += kind is Delivery


class Stopwatch(Storybook):
    """When clients have subscribed, and when they had their answer: the broker's word that it has it."""

    def __init__(self, clients: Iterable[str]) -> None:
        super().__init__()
        self._waiting: dict[str, list[tuple[int, float]]] = {client: [] for client in clients}
        self.asked_at: dict[str, float] = {}
        self.answers_s: list[float] = []

    def forget(self) -> None:
        """What was before does not count."""
        self.asked_at.clear()
        self.answers_s.clear()

    def said(self, now: float, who: str, to: str, parcel: Parcel) -> None:
        if type(parcel) is Frame:
            if type(parcel.message) is Subscribe and who in self._waiting:
                assert isinstance(parcel.message, Subscribe)
                self._waiting[who].append((parcel.sequence, now))
                self.asked_at[parcel.message.id] = now
        elif type(parcel) is Ack and to in self._waiting:
            waiting = self._waiting[to]
            while waiting and waiting[0][0] <= parcel.control:
                self.answers_s.append(now - waiting.pop(0)[1])
