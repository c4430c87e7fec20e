"""Applications that publish from a log, and whose processes die: durable publishers in the laboratory.

The log outlives the processes. Each asks its broker how far the ones before it have come, publishes the rest,
and follows as the log grows, until it is killed: with all that it knew, and with what it wanted to say.

Those of a random scenario draw from a source of their own, so that the scenario itself stays what it is. The
oracle hears of an event when it is first published; who publishes it again is the outbox's business.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.commands import Command, Tell
from roost.broker.config import ClientConfig
from roost.broker.machine import Happening
from roost.broker.names import Address
from roost.language import Advertisement, Event, Filter, Operator, Predicate, Subscription
from roost.simulation import statements as st
from roost.simulation.clients import SimulatedClient
from roost.simulation.fuzz import Scenario
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.world import World

LOGGED = "log"  # the attribute that all events of a log have, and no others
MAIN = "main"
# Per outbox: how often an event is written, a process killed, and how long until there is another.
EVENTS_PER_S = 4.0
KILLS_PER_S = 0.5
DEAD_S = (0.0, 0.01, 0.5, 2.0)
# The first event comes when all has settled.
START_AT_S, FIRST_AT_S = 1.0, 5.0
CPU_MHZ_MIN = 20.0
EVERYTHING = Filter([Predicate(LOGGED, Operator.PRESENT)])


class Process(SimulatedClient):
    """One process of an application."""

    __slots__ = ("_outbox", "dead", "is_open")

    def __init__(self, outbox: Outbox, number: int) -> None:
        super().__init__(outbox.world, outbox.name, outbox.party)
        self.machine = Client(
            ClientConfig(
                client=outbox.name,
                session=f"outbox/{outbox.name}",
                durable=True,
                process=str(number),
                publisher=f"{outbox.name}~{number}",
                ack_delay_s=outbox.world.client_ack_delay_s,
            )
        )
        self._outbox = outbox
        self.dead = False
        self.is_open = False

    def handle(self, event: Happening, time: float | None = None) -> None:
        if not self.dead:
            super().handle(event, time)

    def _execute(self, command: Command) -> None:
        if isinstance(command, Tell) and command.what == "attached" and not self.is_open:
            self.is_open = True
            self._outbox.opened(self)
        else:
            super()._execute(command)

    def publish_logged(self, event: Event) -> None:
        self.handle(ev.PublishRequested(event, payload=self.world.payload))


class Outbox:
    """An application: its log, and the process that it has now."""

    def __init__(self, world: World, name: str, broker: str) -> None:
        self.world = world
        self.name = name
        self.party = world.new_party(name)
        self.log: list[Event] = []
        self.lives: list[str] = []  # the publishers that it was: another one whenever nobody knew
        self.processes = 0
        self._broker = broker
        self._heard = 0  # what the oracle has heard of, of this life
        self._process: Process | None = None

    @property
    def accepted(self) -> int:
        """How much of the log is accepted, as far as the process that it has now knows."""
        return self._process.machine.accepted if self._process is not None else 0

    def start(self) -> None:
        """Another process; the one before, if there is one, is dead."""
        self.kill()
        self.processes += 1
        self._process = self.world.clients[self.name] = Process(self, self.processes)
        self._process.handle(ev.AttachRequested(Address(self._broker)))

    def kill(self) -> None:
        if self._process is not None:
            self._process.dead = True
            for connection in self.world.network.of(self.name):
                self.world.network.cut(connection, "the process is gone")

    def write(self, event: Event) -> None:
        self.log.append(event)
        self._publish()

    def opened(self, process: Process) -> None:
        """Its process knows how far the ones before it have come."""
        publisher = process.machine.publisher
        advertisement = Advertisement([EVERYTHING])
        process.handle(ev.AdvertiseRequested(MAIN, advertisement))
        if MAIN not in self.party.offers:
            self.world.oracle.advertised(self.party, MAIN, advertisement)
        if not self.lives or self.lives[-1] != publisher:
            if self.lives:
                self.world.settling.void(process)
                self.world.oracle.not_accepted_after(self.lives[-1], 0)
            self.lives.append(publisher)
            self.party.publisher = publisher
            self._heard = 0
        self._publish()

    def _publish(self) -> None:
        process = self._process
        if process is None or process.dead or not process.is_open:
            return
        while process.machine.published < len(self.log):
            event = self.log[process.machine.published]
            process.publish_logged(event)
            number = process.machine.published
            if number > self._heard:
                self._heard = number
                self.world.oracle.published(self.party, number, event, self.world.clock.now)


def quick_enough(statements: Sequence[st.Statement]) -> list[st.Statement]:
    """With brokers that get through what comes: each process says again what the last could not."""
    return [
        msgspec.structs.replace(s, cpu_mhz=max(s.cpu_mhz, CPU_MHZ_MIN))
        if isinstance(s, st.AddBroker)
        else s
        for s in statements
    ]


def lasting_brokers(statements: Sequence[st.Statement]) -> list[str]:
    """Those that are there from the beginning to the end."""
    removed = {s.broker for s in statements if isinstance(s, st.RemoveBroker)}
    added = (s.broker for s in statements if isinstance(s, st.AddBroker) and s.at == 0)
    return [broker for broker in added if broker not in removed]


def plan(outbox: Outbox, until: float, draws: random.Random) -> None:
    """What is written, and when a process is killed, until then."""
    clock = outbox.world.clock
    clock.at(START_AT_S, outbox.start)
    span_s = until - FIRST_AT_S
    for _ in range(round(span_s * EVENTS_PER_S)):
        event = Event({LOGGED: outbox.name, "a": draws.randrange(8)})
        clock.at(FIRST_AT_S + draws.random() * span_s, outbox.write, event)
    for _ in range(round(span_s * KILLS_PER_S)):
        at = FIRST_AT_S + draws.random() * span_s
        clock.at(at, outbox.kill)
        clock.at(at + draws.choice(DEAD_S), outbox.start)


def fuzz_outboxes(
    seed: int, profile: str = "all", count: int = 2
) -> tuple[list[Outbox], World, Checks]:
    """The scenario of a seed with so many applications that publish from a log: run, and judge.

    A subscriber to all that they publish is there from the beginning, so that all of it is promised to one.
    """
    scenario = Scenario(seed, profile)
    draws = random.Random(f"{seed}/{profile}/outboxes")
    brokers = lasting_brokers(scenario.statements)
    witness = st.AddSubscriber(
        at=START_AT_S,
        subscriber="W",
        broker=draws.choice(brokers),
        subscription=Subscription([EVERYTHING]),
    )
    statements = quick_enough([*scenario.statements, witness])
    world = World(scenario.settings, statements, seed=seed)
    outboxes = [Outbox(world, f"O{n}", draws.choice(brokers)) for n in range(1, count + 1)]
    for outbox in outboxes:
        plan(outbox, scenario.until, draws)
    run(world, scenario.until + max(DEAD_S))
    rested = rest(world)
    return outboxes, world, check(world, rested=rested, must_rest=True)
