"""A simulated client: the client machine, and an application that publishes quotes and takes what it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roost.broker.client import Client
from roost.broker.commands import CancelTimer, Close, Command, Hand, OpenLink, Send, SetTimer, Tell
from roost.broker.config import ClientConfig
from roost.broker.events import (
    PublishRequested,
    Received,
    SettleRequested,
    TimerFired,
    UnadvertiseRequested,
    UnsubscribeRequested,
)
from roost.broker.machine import Happening
from roost.broker.messages import Frame, Parcel
from roost.broker.names import Address
from roost.language import Event
from roost.simulation.addresses import name_at
from roost.simulation.dealing import Dealing
from roost.simulation.network import Connection

if TYPE_CHECKING:
    from roost.broker.permissions import Permission
    from roost.simulation.oracle import Party, Wish
    from roost.simulation.world import World

# What waits for a durable subscriber that is killed comes again: let it be some, and not all.
DURABLE_ACK_DELAY_S = 0.2


class SimulatedClient:
    """A client and its application. What it can reach is the world's to say."""

    __slots__ = (
        "_asked",
        "_generation",
        "_questions",
        "_quotes",
        "_rate_per_s",
        "_timer_count",
        "_timers",
        "away",
        "dead",
        "dealing",
        "gone",
        "machine",
        "name",
        "party",
        "permission",
        "symbol",
        "world",
    )

    def __init__(self, world: World, name: str, party: Party, process: str = "") -> None:
        self.world = world
        self.name = name
        self.party = party  # what the oracle knows of it
        # Of a durable subscriber.
        self.dealing = Dealing(self.handle, world.clock.after) if process else None
        self.machine = Client(
            ClientConfig(
                client=name,
                session=name,
                ack_delay_s=DURABLE_ACK_DELAY_S if process else world.client_ack_delay_s,
                durable=bool(process),
                process=process,
                waits_for_application=bool(process),
            )
        )
        self.permission: Permission | None = None  # None: nobody asks
        self.away = False  # its network is gone; the application goes on
        self.gone = False  # it has left for good
        self.dead = False  # the process was killed: nothing happens to it any more
        self.symbol: str | None = None
        self._questions = 0
        self._asked: dict[str, list[Wish]] = {}  # what it has asked to know the settling of
        self._quotes = 0
        self._rate_per_s = 0.0
        self._generation = 0  # of the planned publications: older ones find it changed
        self._timers: dict[str, int] = {}
        self._timer_count = 0

    # --- publishing ---------------------------------------------------------------------------------

    def set_rate(self, rate_per_min: float, phase: float) -> None:
        """Publish so often from now on, the first time after a share `phase` of the interval."""
        self._generation += 1
        self._rate_per_s = rate_per_min / 60
        if self._rate_per_s > 0:
            delay = phase / self._rate_per_s
            self.world.clock.after(delay, self._publish_quote, self._generation)

    def _publish_quote(self, generation: int) -> None:
        if generation != self._generation:
            return
        assert self.symbol is not None
        self.publish(self.world.market.quote(self.symbol, self._quotes))
        self._quotes += 1
        self.world.clock.after(1 / self._rate_per_s, self._publish_quote, generation)

    def publish(self, event: Event) -> None:
        world = self.world
        self.handle(PublishRequested(event, payload=world.payload))
        world.oracle.published(self.party, self.machine.published, event, world.clock.now)

    def stop(self) -> None:
        """Publish no more."""
        self._generation += 1

    # --- subscribing --------------------------------------------------------------------------------

    def ask(self) -> None:
        """When is what it wants in place? A later question is of no less than an earlier one."""
        if self.party.wishes and not self.gone:
            self._questions += 1
            id_ = f"ready-{self._questions}"
            self._asked = {id_: list(self.party.wishes.values())}
            self.handle(SettleRequested(id_))

    def asked_for(self, id_: str) -> list[Wish]:
        """What a question was about; nothing, if it has been asked anew since."""
        return self._asked.get(id_, [])

    # --- Actor --------------------------------------------------------------------------------------

    def receive(self, connection: Connection, parcel: Parcel) -> None:
        self.handle(Received(connection.id, (parcel,)))

    def notice(self, event: Happening) -> None:
        self.handle(event)

    def deliver(self, connection: int, frame: Frame, time: float) -> None:
        """A delivery that arrives at `time`, of which this moment is not the first."""
        names = self.machine.take(connection, frame)
        if names is None:
            self.handle(Received(connection, (frame,)), time)
            return
        delivery: Any = frame.message
        publication = delivery.publication
        # What all clients have in common is in the processor's cache, so methods of it are not kept here.
        world = self.world
        world.oracle.arrived(self.party, publication, names, time)
        world.delays.fresh.append(time - publication.published_at)

    def handle(self, event: Happening, time: float | None = None) -> None:
        """Something happens. `time`: when, of deliveries, if not just now."""
        world = self.world
        now = world.clock.now
        if time is None:
            time = now
        if self.dead:
            return
        for command in self.machine.handle(event, now):
            if type(command) is Hand:
                publication = command.publication
                world.oracle.arrived(self.party, publication, command.subscriptions, time)
                world.delays.fresh.append(time - publication.published_at)
                if self.dealing is not None:
                    self.dealing.handed(command.number, publication)
            else:
                self._execute(command)

    def _execute(self, command: Command) -> None:
        world = self.world
        if isinstance(command, Send):
            if world.storybook is not None:
                world.said(self.name, command.connection, command.parcel)
            world.network.send(self, command.connection, command.parcel, world.clock.now)
        elif isinstance(command, SetTimer):
            self._timer_count = token = self._timer_count + 1
            self._timers[command.name] = token
            world.clock.after(command.delay_s, self._fire, command.name, token)
        elif isinstance(command, CancelTimer):
            self._timers.pop(command.name, None)
        elif isinstance(command, OpenLink):
            world.dial_session(self, Address(command.broker))
        elif isinstance(command, Close):
            world.network.close(self, command.connection, command.reason, world.clock.now)
        elif isinstance(command, Tell):
            if self.dealing is not None and command.what == "attached" and not command.reason:
                self.dealing.begin_anew()
            world.hearing.told(self, command)

    @property
    def broker(self) -> str:
        """The name of the broker that it is at."""
        return name_at(self.machine.address)

    def kill(self) -> None:
        """The process is gone, with all that it knew."""
        self.away = self.dead = True

    def name_of(self, id_: str) -> str:
        """What the application calls the subscription or the advertisement that a broker calls so, or ""."""
        for attachment in self.machine.attachments():
            for name in attachment.names.get(id_, ()):
                return name
            for name, advertised in attachment.advertisement_ids.items():
                if advertised == id_:
                    return name
        return ""

    def give_up(self, id_: str) -> str:
        """It may not have this any more; the name that it had."""
        name = self.name_of(id_)
        if name in self.machine.subscriptions():
            self.handle(UnsubscribeRequested(name))
        elif name in self.machine.advertisements():
            self.handle(UnadvertiseRequested(name))
        return name

    def _fire(self, name: str, token: int) -> None:
        if self._timers.get(name) == token:
            del self._timers[name]
            self.handle(TimerFired(name))
