"""Neighbours that are away, and advertisements that nobody has answered yet: what was accepted arrives."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.messages import Answer, Inquiry, Publication, Wants
from tests.broker.kit import Federation


def sever(federation: Federation, a: str, b: str) -> None:
    federation.severed.add(frozenset((a, b)))
    federation.cut(a, b)
    federation.settle()


def heal(federation: Federation, a: str, b: str) -> None:
    federation.severed.discard(frozenset((a, b)))
    federation.advance(60.0)
    federation.settle()


def ready(federation: Federation, client: str) -> list[do.Tell]:
    federation.handle(client, ev.SettleRequested("q"))
    federation.settle()
    return federation.heard(client, "settled")


def with_subscriber(*edges: tuple[str, str], at: str, **config: Any) -> Federation:
    federation = Federation(*edges, linger_s=1e6, **config)
    federation.client("sub", at)
    federation.subscribe("sub", "a > 0")
    federation.settle()
    return federation


CHAIN = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"))


# --- publishers that begin while a neighbour is away ---------------------------------------------------


@pytest.mark.parametrize("crashes", [True, False])
def test_publishers_that_begin_while_a_broker_is_away_are_heard(crashes: bool) -> None:
    """A subscription at B1 was ready and had received; all publishers left; then B1 was away."""
    federation = with_subscriber(("B0", "B1"), at="B1", durable=True)
    federation.client("first", "B0")
    federation.advertise("first", "a > 0")
    federation.settle()
    before = federation.publish("first", a=1)
    federation.handle("first", ev.LeaveRequested())
    federation.settle()
    assert federation.got("sub") == [before]
    if crashes:
        federation.crash("B1", keep_store=True)
        federation.settle()
    else:
        sever(federation, "B0", "B1")
    federation.client("late", "B0")
    federation.advertise("late", "a > 0")
    ids = [federation.publish("late", a=i) for i in range(1, 31)]
    federation.settle()
    assert federation.clients["late"].accepted == 30
    if crashes:
        federation.start("B1")
    heal(federation, "B0", "B1")
    assert federation.got("sub") == [before, *ids]


def test_it_is_heard_through_brokers_in_between() -> None:
    """Where the publisher is nobody is away: it has to be told that everything is wanted."""
    federation = with_subscriber(*CHAIN, at="B4")
    sever(federation, "B3", "B4")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.settle()
    heal(federation, "B3", "B4")
    assert federation.got("sub") == ids


def test_events_do_not_wait_for_their_advertisement_to_be_answered() -> None:
    """They travel with it, and ahead of the subscriptions that follow it back."""
    federation = with_subscriber(*CHAIN, at="B4")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.settle()
    assert federation.got("sub") == ids


def test_once_answered_events_go_only_where_they_are_wanted() -> None:
    federation = Federation(*CHAIN)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    assert not any(link.presumed for b in federation.brokers.values() for link in b.links.values())
    federation.publish("pub", a=1)
    federation.settle()
    assert not federation.between("B1", "B2", Publication)


def test_a_broker_answers_when_those_behind_it_have() -> None:
    federation = Federation(*CHAIN)
    federation.client("pub", "B1")
    since = len(federation.said)
    federation.advertise("pub", "a > 0")
    federation.settle()
    said = [(s.who, type(s.message)) for s in federation.said[since:]]
    asked = [who for who, kind in said if kind is Inquiry]
    answered = [who for who, kind in said if kind is Answer]
    assert asked == ["B1", "B2", "B3"]
    assert answered == ["B4", "B3", "B2"]


# --- subscriptions that begin while a neighbour is away ------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_what_is_ready_while_a_link_is_down_misses_nothing(durable: bool) -> None:
    federation = Federation(*CHAIN, durable=durable, linger_s=1e6)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    sever(federation, "B2", "B3")
    federation.client("sub", "B4")
    federation.subscribe("sub", "a > 0")
    assert not ready(federation, "sub")  # it may be that B2 has not noticed yet
    federation.advance(federation.brokers["B3"].config.absence_grace_s)
    federation.settle()
    (settled,) = federation.heard("sub", "settled")
    assert settled.reason == "B2"
    ids = [federation.publish("pub", a=i) for i in range(1, 21)]
    federation.settle()
    assert federation.clients["pub"].accepted == 20
    heal(federation, "B2", "B3")
    assert federation.got("sub") == ids


def test_a_link_that_comes_back_in_time_is_waited_for() -> None:
    federation = Federation(*CHAIN)
    sever(federation, "B1", "B2")
    federation.client("sub", "B4")
    federation.subscribe("sub", "a > 0")
    assert not ready(federation, "sub")
    federation.severed.clear()
    federation.advance(1.0)
    federation.settle()
    (settled,) = federation.heard("sub", "settled")
    assert settled.reason == ""


def test_a_neighbour_that_takes_connections_and_says_nothing_is_waited_for_no_longer() -> None:
    """A process that is stopped is like that: the kernel answers for it."""
    federation = Federation(("B1", "B2"))
    federation.cut("B1", "B2")
    federation.brokers["B2"].handle = lambda *_: []  # type: ignore[method-assign]
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    assert not ready(federation, "sub")
    federation.advance(federation.brokers["B1"].config.absence_grace_s)
    assert federation.brokers["B1"].links["B2"].connection is not None
    (settled,) = federation.heard("sub", "settled")
    assert settled.reason == "B2"


# --- who wants everything ------------------------------------------------------------------------------


def test_everything_is_wanted_only_while_somebody_is_away() -> None:
    federation = Federation(*CHAIN)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    sever(federation, "B3", "B4")
    assert federation.between("B2", "B1", Wants)[-1].path == ("B2", "B3")  # type: ignore[attr-defined]
    assert not [w for w in federation.between("B1", "B2", Wants) if w.path]  # type: ignore[attr-defined]
    heal(federation, "B3", "B4")
    assert federation.between("B2", "B1", Wants)[-1].path == ()  # type: ignore[attr-defined]
    assert not any(broker.router.greedy for broker in federation.brokers.values())


@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_is_kept_for_who_joins_before_it_has_greeted(restarts: bool) -> None:
    federation = Federation(*CHAIN, durable=True)
    federation.handle("B4", ev.LinkAdded("B5", dial=True, joins=True))  # nobody answers
    federation.settle()
    if restarts:
        federation.restart("B4", keep_store=True)
    assert not any(broker.router.greedy for broker in federation.brokers.values())
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    assert ready(federation, "sub")  # and nobody waits for it


def test_in_a_circle_nobody_takes_its_own_word_for_anothers() -> None:
    """Links may be moved so that one closes for a moment. Words must not go round for ever."""
    federation = Federation(*CHAIN)
    federation.join("B4", "B1")
    federation.settle()
    federation.part("B2", "B3")
    federation.settle()
    federation.advance(60.0)
    federation.settle()
    assert not any(broker.router.greedy for broker in federation.brokers.values())


def test_what_nobody_asked_for_is_kept_up_to_a_bound() -> None:
    """A neighbour that never comes back costs no more than that, and stops nobody."""
    federation = Federation(("B1", "B2"), spare_max=5, link_outbox_max=10)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    sever(federation, "B1", "B2")
    for i in range(50):
        federation.publish("pub", a=i + 1)
    federation.settle()
    assert federation.clients["pub"].accepted == 50
    assert len(federation.brokers["B1"].links["B2"].channel.data.outbox) == 5
    (report,) = [r for _, r in federation.reports if r.what == "neighbour given up"]
    assert report.about == "B2"


def test_what_has_arrived_before_does_not_count_for_that() -> None:
    federation = Federation(("B1", "B2"), spare_max=5)
    for name, broker in (("pub", "B1"), ("sub", "B2")):
        federation.client(name, broker)
    federation.advertise("pub", "a > 0")
    federation.subscribe("sub", "a < 10")
    federation.settle()
    for _ in range(20):
        federation.publish("pub", a=1)
    federation.settle()
    sever(federation, "B1", "B2")
    for _ in range(5):
        federation.publish("pub", a=20)  # for nobody, as far as B1 knows
    federation.settle()
    assert len(federation.brokers["B1"].links["B2"].channel.data.outbox) == 5
    assert not [r for _, r in federation.reports if r.what == "neighbour given up"]


def test_what_it_had_asked_for_stops_only_those_who_publish_it() -> None:
    federation = with_subscriber(("B1", "B2"), at="B2", link_outbox_max=10)
    for publisher, what in (("pub", "a > 0"), ("other", "b > 0")):
        federation.client(publisher, "B1")
        federation.advertise(publisher, what)
    federation.settle()
    sever(federation, "B1", "B2")
    ids = [federation.publish("pub", a=i) for i in range(1, 21)]
    federation.settle()
    assert federation.clients["pub"].accepted == 10
    federation.client("near", "B1")
    federation.subscribe("near", "b > 0")
    federation.settle()
    for i in (1, 2, 3):
        federation.publish("other", b=i)
    federation.settle()
    assert len(federation.got("near")) == 3
    # Of a new publisher nobody knows what is wanted there: it is kept within the bound, and not beyond.
    federation.client("late", "B1")
    federation.advertise("late", "c > 0")
    federation.settle()
    for i in (1, 2, 3):
        federation.publish("late", c=i)
    federation.settle()
    assert federation.clients["late"].accepted == 1
    heal(federation, "B1", "B2")
    assert federation.got("sub") == ids
    assert federation.clients["late"].accepted == 3


def test_with_a_store_what_waits_for_it_spills() -> None:
    federation = with_subscriber(("B1", "B2"), at="B2", durable=True, link_outbox_max=10)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    sever(federation, "B1", "B2")
    ids = [federation.publish("pub", a=i) for i in range(1, 101)]
    federation.settle()
    assert federation.clients["pub"].accepted == 100
    lane = federation.brokers["B1"].links["B2"].channel.data
    assert len(lane.outbox) == 10
    assert lane.spilled == 90
    federation.crash("B1", keep_store=True)
    federation.start("B1")
    heal(federation, "B1", "B2")
    assert federation.got("sub") == ids


def test_what_came_before_a_crash_does_not_come_again_when_too_much_waits_for_a_neighbour() -> None:
    """Both begin anew, as more has changed than is kept. The event was not acknowledged yet, and its numbers
    were forgotten with the crash: the channel is all that knows of it."""
    federation = with_subscriber(
        ("B1", "B2"), at="B2", durable=True, link_outbox_max=10, ack_delay_s=5.0
    )
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    first = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [first]
    federation.severed.add(frozenset(("B1", "B2")))
    federation.crash("B2", keep_store=True)
    federation.start("B2")
    federation.client("busy", "B2")
    for number in range(30):
        federation.subscribe("busy", f"b > {number}")
        federation.unsubscribe("busy", f"b > {number}")
    federation.settle()
    assert federation.brokers["B2"].links["B1"].peer_incarnation == ""
    federation.client("other", "B2")
    federation.subscribe("other", "a > 0")
    heal(federation, "B1", "B2")
    second = federation.publish("pub", a=2)
    federation.advance(10.0)
    assert federation.got("sub") == [first, second]
    assert federation.got("other") == [second]


# --- neighbours that have lost their memory, or a part of it ---------------------------------------------


def test_what_has_spilled_is_sent_to_a_neighbour_that_begins_anew() -> None:
    federation = with_subscriber(
        ("B1", "B2"), ("B2", "B3"), at="B3", durable=True, link_outbox_max=10
    )
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    federation.crash("B2", keep_store=False)
    federation.settle()
    ids = [federation.publish("pub", a=i) for i in range(1, 41)]
    federation.settle()
    federation.start("B2")
    heal(federation, "B1", "B2")
    assert federation.got("sub") == ids


@pytest.mark.parametrize("dials", ["B1", "B2"])
def test_a_broker_with_an_older_store_rejoins(dials: str) -> None:
    """A backup was put back: both see it, say what it may have cost, begin anew, and go on."""
    federation = with_subscriber((dials, "B1" if dials == "B2" else "B2"), at="B2", durable=True)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    first = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.settle()
    backup = dict(federation.stores["B1"])
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    federation.client("between", "B1")
    federation.advertise("between", "a > 0")
    between = [federation.publish("between", a=i) for i in (4, 5, 6)]
    federation.settle()
    federation.crash("B1", keep_store=True)
    federation.stores["B1"] = backup
    federation.start("B1")
    federation.client("late", "B1")
    federation.advertise("late", "a > 0")
    late = [federation.publish("late", a=i) for i in range(7, 20)]
    federation.settle()
    heal(federation, "B1", "B2")
    assert federation.got("sub") == [*first, *between, *late]
    reports = [r for _, r in federation.reports if r.what == "older store"]
    assert {r.about for r in reports} == {"B1"}
    assert all("may be lost" in r.detail for r in reports)


def test_a_crash_with_its_own_store_is_no_older_one() -> None:
    federation = with_subscriber(*CHAIN, at="B4", durable=True)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    for name in ("B2", "B3", "B2"):
        federation.settle()
        federation.crash(name, keep_store=True)
        ids.append(federation.publish("pub", a=9))
        federation.settle()
        federation.start(name)
        heal(federation, "B2", "B3")
    assert federation.got("sub") == ids
    assert not [r for _, r in federation.reports if r.what == "older store"]
    assert not [r for _, r in federation.reports if r.detail == "begun anew"][6:]


# --- neighbours of the version before --------------------------------------------------------------------


@pytest.mark.parametrize("old", ["B1", "B2"])
def test_neighbours_of_two_versions_understand_each_other(old: str) -> None:
    """Whoever dials finds out; a rolling upgrade has such neighbours."""
    federation = Federation(("B1", "B2"), start=False, durable=True, linger_s=1e6)
    federation.version_of[old] = 3
    for name in ("B1", "B2"):
        federation.crash(name)
        federation.start(name)
    federation.settle()
    federation.advance(5.0)
    federation.settle()
    assert federation.brokers["B1"].links["B2"].greeted
    assert federation.brokers["B1"].links["B2"].version == 3
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    assert ready(federation, "pub")
    assert ready(federation, "sub")
    # Also what is published along with its advertisement finds its way there.
    federation.client("quick", "B1")
    federation.advertise("quick", "a > 0")
    ids = [federation.publish(name, a=i) for name in ("quick", "pub") for i in (1, 2)]
    federation.settle()
    # The old one is upgraded in place: from now on they speak as this version does.
    federation.version_of.clear()
    federation.crash(old, keep_store=True)
    federation.settle()
    federation.start(old)
    federation.advance(60.0)
    federation.settle()
    assert federation.brokers["B1"].links["B2"].version == 4
    ids += [federation.publish("pub", a=i) for i in (3, 4)]
    federation.settle()
    for name in ("quick", "pub"):
        mine = [id_ for id_ in ids if id_.startswith(name)]
        assert [id_ for id_ in federation.got("sub") if id_.startswith(name)] == mine
