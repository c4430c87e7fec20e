"""A client moves from one broker to another, and something happens at one of the steps of it.

The overlay is that of 000 figure 1, as its text has it, or the part of it that is of interest:

    B3 - B2 - B1 - B5 - B6 - B7         the source is B1, the target B6, the path B1 - B5 - B6
              |         |
              B4        B8

A `Journey` is one move in it. The *mover* is told to go; then whatever is on the way arrives, one after the
other, while all publishers publish. The *steps* are the messages that make the move. When one of them has
been sent, an *incident* strikes. When nothing moves any more it is over, time passes, and all has to be well:
the federation is in one of the two states that are consistent, and what was promised has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.config import ClientConfig
from roost.broker.core import Broker
from roost.broker.messages import (
    EndSession,
    HandOver,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Paused,
    PausePlease,
    Redirect,
    SessionEnded,
    Settle,
    Settled,
)
from roost.broker.migrating import Migrating
from roost.broker.names import Address
from tests.broker.kit import STEPS_MAX, Edge, Federation, Said

FIGURE_1: tuple[Edge, ...] = (
    ("B1", "B2"),
    ("B2", "B3"),
    ("B1", "B4"),
    ("B1", "B5"),
    ("B5", "B6"),
    ("B6", "B7"),
    ("B6", "B8"),
)
PART: tuple[Edge, ...] = (("B1", "B2"), ("B1", "B5"), ("B5", "B6"), ("B6", "B7"))
SOURCE, TARGET = "B1", "B6"
PATH = ("B1", "B5", "B6")
PATH_LINKS: tuple[Edge, ...] = (("B1", "B5"), ("B5", "B6"))
MOVES = (
    *(Redirect, Settle, Settled, Migrate, MigrationUpdate, PausePlease, Paused),
    *(MigrationComplete, Migrated, MigrationFailed, HandOver, EndSession, SessionEnded),
)
# Events are published at every so many steps.
EVERY = 3
# Longer than any timer that ends a move, a session or a wait.
LONG_S = 200.0
# A client gives up a move that takes longer.
MOVE_S = ClientConfig(client="", session="").move_timeout_s
TOO_LONG = f"it took more than {MOVE_S:g} s"


def migrating(broker: Broker) -> Migrating:
    """Where advertisements are routed by, they migrate."""
    assert broker.migrating is not None
    return broker.migrating


class Incident(NamedTuple):
    """What happens at a step, and how it ends. `loses`: what nobody has in a store may be gone."""

    strike: Callable[[Journey], object]
    end: Callable[[Journey], object] = lambda _: None
    loses: bool = False


NOTHING = Incident(lambda _: None)


class Journey:
    """One client on its way. Publishers are those who advertise; all that is published is an `a` or a `b`."""

    def __init__(self, federation: Federation, mover: str, target: str = TARGET) -> None:
        self.federation = federation
        self.mover = mover
        self.source = federation.clients[mover].address
        self.target = target
        self.elsewhere: set[str] = set()  # where else it may be in the end
        self.published: dict[str, list[str]] = {}  # attribute -> ids
        self.silent: set[str] = set()  # who publishes no more
        self.steps: list[str] = []
        federation.settle()
        self._heard = 0

    @property
    def client(self) -> Client:
        return self.federation.clients[self.mover]

    def publish(self, attribute: str = "a") -> list[str]:
        """An event from everybody who may; their ids."""
        ids = []
        for name, client in self.federation.clients.items():
            offers = any(attribute in str(a) for a in client.advertisements().values())
            if offers and name not in self.silent:
                id_ = self.federation.publish(name, **{attribute: 1})
                ids.append(id_)
        self.published.setdefault(attribute, []).extend(ids)
        return ids

    def go(self, step: str | int, incident: Incident, choices: Iterator[int] | None = None) -> bool:
        """Whether it came to that step: a message that is sent, or how many things have arrived."""
        federation = self.federation
        self.publish()
        federation.settle()
        self._heard = len(federation.said)
        federation.redirect(self.mover, self.target)
        struck = False
        for number in range(STEPS_MAX):
            self._look()
            if not struck and (number == step or step in self.steps):
                incident.strike(self)
                struck = True
            if not federation.step(next(choices) if choices is not None else None):
                break
        else:
            raise AssertionError("they talk without end")
        if struck:
            incident.end(self)
        federation.advance(LONG_S)
        self.check(complete=not (struck and incident.loses))
        return struck

    def _look(self) -> None:
        """What was sent since the last look; events are published meanwhile."""
        said, self._heard = self.federation.said[self._heard :], len(self.federation.said)
        for message in filter(self._is_step, said):
            self.steps.append(f"{type(message.message).__name__} {message.who}-{message.to}")
            if len(self.steps) % EVERY == 1:
                self.publish()

    def _is_step(self, said: Said) -> bool:
        brokers = self.federation.brokers
        mine = self.mover in (said.who, said.to) or (said.who in brokers and said.to in brokers)
        return mine and isinstance(said.message, MOVES)

    # --- all is well --------------------------------------------------------------------------------

    def check(self, *, complete: bool) -> None:
        """All is well, and goes on being so."""
        federation, client = self.federation, self.client
        if client.state == "attached":
            assert client.address in {self.source, self.target, *self.elsewhere}
        for name in federation.clients:
            assert not federation.clients[name].moving, name
            assert not federation.clients[name].kept_back, name
            assert not federation.heard(name, "refused"), federation.heard(name, "refused")
        self.check_brokers()
        for attribute in ("a", "b"):
            last = self.publish(attribute)
            federation.settle()
            for name, subscriber in federation.clients.items():
                wants = any(attribute in str(s) for s in subscriber.subscriptions().values())
                if wants and subscriber.state == "attached":
                    wanted = self.published[attribute] if complete else last
                    self.check_deliveries(name, attribute, wanted)

    def check_brokers(self) -> None:
        """Tables are what they should be by definition, and nobody has a session too many."""
        federation = self.federation
        federation.check_tables()
        federation.check_quiet()
        for name, broker in federation.brokers.items():
            assert broker.router.expected_entries == 0, name
            assert broker.router.spare_entries == 0, name
            for session in broker.sessions.values():
                client = federation.clients[session.client]
                assert (client.session, client.address) == (session.name, name), "left behind"

    def check_deliveries(self, name: str, attribute: str, wanted: list[str]) -> None:
        """All that is wanted, each once, and what is of one publisher in order."""
        got = [id_ for id_ in self.federation.got(name) if id_ in self.published[attribute]]
        assert set(wanted) <= set(got), (name, [id_ for id_ in wanted if id_ not in got])
        of_one: dict[str, list[int]] = {}
        for id_ in got:
            publisher, _, number = id_.rpartition(":")
            of_one.setdefault(publisher, []).append(int(number))
        for publisher, numbers in of_one.items():
            assert numbers == sorted(set(numbers)), (name, publisher, numbers)


def at_every_step(build: Callable[[], Journey], incident: Incident, every: int = 1) -> None:
    """The incident strikes at each step in turn, or each so many, of a journey of its own."""
    rehearsal = build()
    rehearsal.go("never", NOTHING)
    for step in rehearsal.steps[::every]:
        try:
            assert build().go(step, incident)
        except Exception as error:
            error.add_note(f"at step {step}")
            raise


# --- incidents --------------------------------------------------------------------------------------


def crash(broker: str, *, keep_store: bool) -> Incident:
    """A broker dies, and comes back when all others are at their wits' end."""

    def strike(journey: Journey) -> None:
        journey.federation.crash(broker, keep_store=keep_store)

    def end(journey: Journey) -> None:
        journey.federation.start(broker)

    return Incident(strike, end, loses=not keep_store)


def restart(broker: str, *, keep_store: bool) -> Incident:
    """A broker dies and is back at once."""

    def strike(journey: Journey) -> None:
        journey.federation.crash(broker, keep_store=keep_store)
        journey.federation.start(broker)

    return Incident(strike, loses=not keep_store)


def cut(a: str, b: str, *, away_s: float) -> Incident:
    """A connection is cut, and can't be made again for so long."""

    def strike(journey: Journey) -> None:
        if away_s:
            journey.federation.severed.add(frozenset((a, b)))
        journey.federation.cut(a, b)

    def end(journey: Journey) -> None:
        journey.federation.advance(away_s)
        journey.federation.severed.clear()

    return Incident(strike, end)


def part(a: str, b: str) -> Incident:
    """The overlay loses a link, and gets it back; what was on the way is nowhere."""
    return Incident(
        lambda journey: journey.federation.part(a, b),
        lambda journey: journey.federation.join(a, b),
        loses=True,
    )


def disappear(journey: Journey) -> None:
    """Nobody reaches the mover, and it reaches nobody."""
    for broker in journey.federation.brokers:
        journey.federation.severed.add(frozenset((journey.mover, broker)))
        journey.federation.cut(journey.mover, broker)


def vanish(*, away_s: float, loses: bool = False) -> Incident:
    """The mover is away for so long."""

    def end(journey: Journey) -> None:
        journey.federation.advance(away_s)
        journey.federation.severed.clear()

    return Incident(disappear, end, loses)


def leave(journey: Journey) -> None:
    """The mover says that it goes for good."""
    journey.federation.handle(journey.mover, ev.LeaveRequested())
    journey.silent.add(journey.mover)


def stall(broker: str, *, away_s: float) -> Incident:
    """The store of a broker is stuck for so long: it hears, and says nothing."""

    def strike(journey: Journey) -> None:
        journey.federation.hold_commits.add(broker)

    def end(journey: Journey) -> None:
        journey.federation.advance(away_s)
        journey.federation.hold_commits.clear()
        journey.federation.commit(broker)

    return Incident(strike, end)


def hold(*ways: Edge) -> Incident:
    """The data of links stays on the way until nothing else moves."""

    def strike(journey: Journey) -> None:
        journey.federation.hold_data.update(ways)

    def end(journey: Journey) -> None:
        journey.federation.hold_data.clear()

    return Incident(strike, end)


def redirect(to: str) -> Incident:
    """A second move is asked for, by the old broker and by the new one."""

    def strike(journey: Journey) -> None:
        journey.elsewhere.add(to)
        for broker in (journey.source, journey.target):
            event = ev.ClientRedirected(journey.mover, Address(to), "a second thought")
            journey.federation.handle(broker, event)

    return Incident(strike)


def request(ask: Callable[[Federation], Any]) -> Incident:
    """Somebody asks for something."""
    return Incident(lambda journey: ask(journey.federation))
