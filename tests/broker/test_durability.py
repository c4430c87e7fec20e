"""Durability: nothing is said before it is safe, and what was said is never taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.core import Broker
from roost.broker.messages import HandOver, Redirect, SessionEnded
from roost.broker.names import Address
from roost.language import Event
from tests.broker.kit import Edge, Federation

CHAIN: tuple[Edge, ...] = (("B1", "B2"), ("B2", "B3"))


def chain(**config: Any) -> Federation:
    """B1 - B2 - B3 with stores; a publisher of a > 0 at B1, a subscriber to it at B3."""
    federation = Federation(*CHAIN, durable=True, **config)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B3")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    return federation


def memory(broker: Broker) -> dict[str, object]:
    """All that a crash must not change."""
    routing = broker.router
    subscriptions = {e.handle: e.id for e in routing.subscriptions.values()}
    advertisements = {e.handle: e.id for e in routing.advertisements.values()}
    peers: list[Any] = [*broker.links.values(), *broker.sessions.values()]
    return {
        "incarnation": broker.identity.incarnation,
        "subscriptions": {e.id: (*e.hop.key, e.interest) for e in routing.subscriptions.values()},
        "advertisements": {
            e.id: (*e.hop.key, e.interest, e.announcement) for e in routing.advertisements.values()
        },
        "expected": {
            hop.key: {id_: e.next_announcement for id_, e in hop.expected.items()}
            for hop in peers
            if hop.expected
        },
        "told": {
            name: (
                {subscriptions[h] for h in link.subscriptions_told},
                {subscriptions[h] for h in link.subscriptions_told.candidates()},
                {advertisements[h] for h in link.advertisements_told},
                link.announcements,
                link.peer_incarnation,
                link.dials,
            )
            for name, link in broker.links.items()
        },
        "sessions": {s.name: s.client for s in broker.sessions.values()},
        "ending": [s.name for s in broker.sessions.values() if s.ending],
        "channels": {
            peer.key: [
                (lane.sent, lane.acked, lane.received, list(lane.outbox))
                for lane in peer.channel.lanes
            ]
            for peer in peers
        },
        "drains": (broker.draining._begun, len(broker.draining)),
    }


# --- before and after the commit --------------------------------------------------------------------


def test_nothing_outward_leaves_before_it_is_safe() -> None:
    federation = chain()
    federation.hold_commits.add("B1")
    since = len(federation.said)
    federation.publish("pub", a=1)
    federation.settle()
    assert federation.brokers["B1"].node.work.waits
    assert not [said for said in federation.said[since:] if said.who == "B1"]
    assert federation.clients["pub"].pending == 1  # not even an acknowledgement
    federation.hold_commits.clear()
    federation.commit("B1")
    federation.settle()
    assert federation.got("sub") == ["pub:1"]
    assert not federation.brokers["B1"].node.work.waits


def test_what_needs_no_store_still_waits_behind_what_does() -> None:
    """A greeting changes nothing, but its answer speaks of what is not safe yet."""
    federation = chain()
    federation.hold_commits.add("B3")
    federation.publish("pub", a=1)
    federation.settle()
    federation.cut("sub", "B3")
    federation.advance(1.0)
    assert federation.state("sub") == "greeting"
    federation.commit("B3")
    federation.settle()
    assert federation.state("sub") == "attached"
    assert federation.got("sub") == ["pub:1"]


def test_timers_and_dialling_do_not_wait() -> None:
    federation = chain()
    federation.hold_commits.add("B1")
    federation.publish("pub", a=1)
    federation.settle()
    federation.cut("B1", "B2")
    assert ("B1", "dial:B2") in federation.timers


def test_transactions_are_released_in_order() -> None:
    federation = chain()
    federation.hold_commits.add("B3")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.settle()
    for count in (1, 2, 3):
        federation.commit("B3", 1)
        federation.settle()
        assert federation.got("sub") == ids[:count]


@pytest.mark.parametrize("crashing", ["B1", "B2", "B3"])
def test_a_crash_before_the_commit_takes_back_the_transaction_and_its_messages(
    crashing: str,
) -> None:
    """Whoever sent it has had no acknowledgement, and sends it again."""
    federation = chain()
    before = memory(federation.brokers[crashing])
    federation.hold_commits.add(crashing)
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert memory(federation.brokers[crashing]) != before
    assert not federation.got("sub")
    federation.crash(crashing, keep_store=True)
    federation.hold_commits.clear()
    federation.start(crashing)
    assert memory(federation.brokers[crashing]) == before
    federation.advance(2.0)
    assert federation.got("sub") == [id_]
    federation.check_tables()
    federation.check_quiet()


@pytest.mark.parametrize("crashing", ["B1", "B2", "B3"])
def test_a_crash_after_the_commit_loses_nothing(crashing: str) -> None:
    """The transaction is safe; nothing that it says has left."""
    federation = chain()
    federation.hold_commits.add(crashing)
    id_ = federation.publish("pub", a=1)
    federation.settle()
    for persist in federation.commits[crashing]:
        federation.stores[crashing].update(persist.writes)
    for key in [k for k, v in federation.stores[crashing].items() if v is None]:
        del federation.stores[crashing][key]
    before = memory(federation.brokers[crashing])
    federation.crash(crashing, keep_store=True)
    federation.hold_commits.clear()
    federation.start(crashing)
    assert memory(federation.brokers[crashing]) == before
    federation.advance(2.0)
    assert federation.got("sub") == [id_]
    assert federation.clients["sub"].duplicates == 0
    federation.check_quiet()


def test_a_subscription_that_was_not_safe_is_made_again() -> None:
    federation = chain()
    federation.hold_commits.add("B3")
    federation.subscribe("sub", "a > -9", "wide")
    federation.settle()
    assert federation.table("B2") == {"sub/1": "B3"}
    federation.crash("B3", keep_store=True)
    federation.hold_commits.clear()
    federation.start("B3")
    federation.advance(2.0)
    federation.check_tables()
    assert federation.table("B2") == {"sub/2": "B3"}


@pytest.mark.parametrize("covering", [True, False])
def test_a_restored_broker_is_what_it_was(covering: bool) -> None:
    federation = chain(covering=covering, advertisement_covering=covering)
    federation.client("more", "B2")
    for text in ("a > 5", "a > 5 and b = 1", "a = 7", "a > 3 and a > 5"):
        federation.subscribe("more", text)
        federation.advertise("more", text)
    federation.client("also", "B3")
    federation.advertise("also", "a > 2")
    federation.settle()
    federation.unsubscribe("more", "a > 5")
    federation.unadvertise("more", "a > 5")
    federation.settle()
    for name in ("B1", "B2", "B3"):
        before = memory(federation.brokers[name])
        federation.crash(name, keep_store=True)
        federation.start(name)
        assert memory(federation.brokers[name]) == before
        federation.advance(2.0)
        federation.check_tables()
    federation.unsubscribe("more", "a > 3 and a > 5")
    federation.unsubscribe("sub", "a > 0")
    federation.settle()
    federation.check_tables()


def test_a_client_that_was_there_is_away_after_the_restart_and_lingers() -> None:
    federation = chain(linger_s=30.0)
    federation.severed.add(frozenset(("sub", "B3")))
    federation.restart("B3", keep_store=True)
    assert federation.brokers["B3"].sessions["sub-session.0"].connection is None
    federation.publish("pub", a=1)
    federation.advance(31.0)
    assert not federation.brokers["B3"].sessions
    assert not federation.table("B1")


def ending() -> Federation:
    """The session of a publisher that has left, and has not heard that it is over."""
    federation = chain()
    federation.hold_data.add(("B1", "pub"))
    federation.severed.add(frozenset(("pub", "B1")))
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    assert federation.between("B1", "pub", SessionEnded)
    return federation


def test_a_session_that_is_ending_still_is_after_a_crash() -> None:
    federation = ending()
    federation.crash("B1", keep_store=True)
    federation.start("B1")
    assert federation.brokers["B1"].sessions["pub-session.0"].ending


def test_a_session_is_forgotten_once_its_client_has_heard_the_last_word_after_a_crash() -> None:
    """And does not linger."""
    federation = ending()
    federation.hold_data.clear()
    federation.severed.clear()
    federation.restart("B1", keep_store=True)
    assert federation.heard("pub", "ended")
    assert not federation.brokers["B1"].sessions


def test_a_session_that_is_ending_still_is_after_two_crashes() -> None:
    federation = ending()
    for _ in range(2):
        federation.crash("B1", keep_store=True)
        federation.start("B1")
        federation.settle()
    session = federation.brokers["B1"].sessions["pub-session.0"]
    assert session.ending
    federation.handle("B1", ev.ClientRedirected("pub", Address("B2"), "a second thought"))
    assert not any(isinstance(f.message, Redirect) for f in session.channel.control.outbox)


@pytest.mark.parametrize("crashes", [1, 2])
def test_the_marker_of_a_session_that_is_handed_over_outlives_a_crash(crashes: int) -> None:
    federation = chain(routing="flooding")
    federation.publish("pub", a=1)
    federation.redirect("pub", "B3")
    while not federation.between("pub", "B1", HandOver):
        assert federation.step()
    federation.hold_data.add(("B1", "B2"))
    federation.severed.add(frozenset(("pub", "B1")))
    federation.settle()
    for _ in range(crashes):
        federation.restart("B1", keep_store=True)
        assert len(federation.brokers["B1"].draining) == 1
    federation.hold_data.clear()
    federation.severed.clear()
    federation.advance(2.0)
    assert federation.clients["pub"].address == "B3"
    assert federation.between("B1", "pub", SessionEnded)
    assert len(federation.between("pub", "B1", HandOver)) == 1
    assert not federation.brokers["B1"].sessions
    federation.check_quiet()


def test_where_a_neighbour_is_outlives_a_crash() -> None:
    """One that was added while the broker ran: its settings do not know."""
    federation = chain(routing="flooding")
    federation.handle("B1", ev.LinkAdded("B9", dial=True, address=Address("b9.example:1")))
    federation.restart("B1", keep_store=True)
    link = federation.brokers["B1"].links["B9"]
    assert (link.dials, link.address) == (True, "b9.example:1")


def test_without_a_store_nothing_waits() -> None:
    federation = Federation(*CHAIN)
    assert not any(federation.commits.values())
    federation.client("pub", "B1")
    commands = federation.brokers["B1"].handle(ev.TimerFired("acks"), 0.0)
    assert not [c for c in commands if isinstance(c, do.Persist)]


# --- anything, at any time --------------------------------------------------------------------------

NAMES = st.sampled_from(("B1", "B2", "B3"))
PUBLISHERS = st.sampled_from(("P1", "P2"))
SUBSCRIBERS = st.sampled_from(("S1", "S2", "S3"))
TEXTS = ("a > 0", "a > 5", "a > 3 and a < 8", "a = 7")
# Longer than all else takes.
LINGER_S = 1e6


class Chain(RuleBasedStateMachine):
    """Three brokers with stores that crash and come back, commits that take their time, cut connections.

    Publishers advertise everything; subscribers have standing subscriptions, and others that come and go.
    """

    config: Mapping[str, Any] = {}

    def __init__(self) -> None:
        super().__init__()
        self.federation = Federation(
            *CHAIN, durable=True, redial_max_s=1.0, linger_s=LINGER_S, **self.config
        )
        self.expected: dict[str, list[str]] = {"S1": [], "S2": [], "S3": []}
        self.count = 0
        self.passing: list[tuple[str, str]] = []
        self.moved = False

    @initialize(texts=st.tuples(*[st.sampled_from(TEXTS)] * 3), where=st.tuples(*[NAMES] * 5))
    def everybody_comes(self, texts: tuple[str, ...], where: tuple[str, ...]) -> None:
        federation = self.federation
        for name, broker in zip(("P1", "P2", "S1", "S2", "S3"), where, strict=True):
            federation.client(name, broker)
        for name in ("P1", "P2"):
            federation.advertise(name, "a > -100")
        for name, text in zip(("S1", "S2", "S3"), texts, strict=True):
            federation.subscribe(name, text, "standing")
        federation.settle()
        federation.hold_commits |= {"B1", "B2", "B3"}

    @rule(publisher=PUBLISHERS, a=st.integers(-1, 10))
    def publish(self, publisher: str, a: int) -> None:
        id_ = self.federation.publish(publisher, a=a)
        for name, wanted in self.expected.items():
            standing = self.federation.clients[name].subscriptions()["standing"]
            if standing.matches(Event({"a": a})):
                wanted.append(id_)

    @rule(subscriber=SUBSCRIBERS, text=st.sampled_from(TEXTS))
    def subscribe(self, subscriber: str, text: str) -> None:
        self.count += 1
        self.federation.subscribe(subscriber, text, f"passing {self.count}")
        self.passing.append((subscriber, f"passing {self.count}"))

    @precondition(lambda self: self.passing)
    @rule(index=st.integers(0, 100))
    def unsubscribe(self, index: int) -> None:
        self.federation.unsubscribe(*self.passing.pop(index % len(self.passing)))

    @rule(choices=st.lists(st.integers(0, 30), min_size=1, max_size=8))
    def arrive(self, choices: list[int]) -> None:
        for choice in choices:
            self.federation.step(choice)

    @rule(broker=NAMES, count=st.integers(1, 6))
    def commit(self, broker: str, count: int) -> None:
        self.federation.commit(broker, count)

    @rule(broker=NAMES)
    def crash(self, broker: str) -> None:
        self.federation.crash(broker, keep_store=True)
        self.federation.start(broker)

    @rule(broker=NAMES)
    def crash_when_all_is_safe(self, broker: str) -> None:
        self.federation.commit(broker)
        before = self.memory(broker)
        self.federation.crash(broker, keep_store=True)
        self.federation.start(broker)
        assert self.memory(broker) == before

    def memory(self, broker: str) -> dict[str, object]:
        return memory(self.federation.brokers[broker])

    @rule(edge=st.sampled_from(CHAIN))
    def cut_link(self, edge: Edge) -> None:
        self.federation.cut(*edge)

    @rule(client=st.one_of(PUBLISHERS, SUBSCRIBERS))
    def cut_client(self, client: str) -> None:
        self.federation.cut(client, self.federation.clients[client].address)

    @rule(seconds=st.sampled_from((0.5, 1.0, 2.0)))
    def wait(self, seconds: float) -> None:
        self.federation.advance(seconds)

    @invariant()
    def nothing_comes_twice_or_out_of_order(self) -> None:
        for name, wanted in self.expected.items():
            standing = [h.id for h in self.federation.handed[name] if "standing" in h.names]
            for publisher in ("P1:", "P2:"):
                got = [id_ for id_ in standing if id_.startswith(publisher)]
                want = [id_ for id_ in wanted if id_.startswith(publisher)]
                assert got == want[: len(got)]

    def teardown(self) -> None:
        """Left in peace, everything arrives, and all tables are right."""
        federation = self.federation
        if not federation.clients:
            return
        federation.hold_commits.clear()
        for broker in federation.brokers:
            federation.commit(broker)
        federation.advance(30.0)
        # A move that was given up while its target could not be told left a session behind there.
        federation.advance(2 * LINGER_S)
        for name, wanted in self.expected.items():
            standing = [h.id for h in federation.handed[name] if "standing" in h.names]
            assert sorted(standing) == sorted(wanted)
            # While it moves, most of what it gets comes both ways.
            assert federation.clients[name].duplicates == 0 or self.moved
        federation.check_tables()
        federation.check_quiet()


class MovingChain(Chain):
    """The same with publishers and subscribers that move about."""

    @rule(client=st.one_of(PUBLISHERS, SUBSCRIBERS), broker=NAMES)
    def redirect(self, client: str, broker: str) -> None:
        self.moved = True
        self.federation.redirect(client, broker)


class FloodedMovingChain(MovingChain):
    """Where subscriptions flood there is nothing to migrate."""

    config: Mapping[str, Any] = {"routing": "flooding"}


TestChain = Chain.TestCase
TestMovingChain = MovingChain.TestCase
TestFloodedMovingChain = FloodedMovingChain.TestCase


def test_what_was_dropped_is_told_after_a_crash() -> None:
    """Also how many deliveries nobody heard of is counted over restarts."""
    federation = Federation(
        ("B1", "B2"), durable=True, linger_s=1e6, session_outbox_max=2, session_outbox_policy="drop"
    )
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.severed.add(frozenset(("sub", "B1")))
    federation.cut("sub", "B1")
    for i in range(1, 6):
        federation.publish("pub", a=i)
    federation.settle()
    assert federation.brokers["B1"].node.hosted.unheard == 3
    federation.crash("B1", keep_store=True)
    federation.settle()
    federation.start("B1")
    assert federation.brokers["B1"].node.hosted.unheard == 3
    federation.severed.clear()
    federation.advance(60.0)
    federation.settle()
    last = federation.publish("pub", a=9)
    federation.settle()
    assert [tell.about for tell in federation.heard("sub", "dropped")] == ["3"]
    assert federation.got("sub") == ["pub:1", "pub:2", last]
