"""Markers: they come back when everything that was ahead of them, and of their echoes, has passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roost.broker import events as ev
from roost.broker.draining import HAND_OVER, read_marker_id
from roost.broker.messages import (
    DrainEcho,
    EndSession,
    HandOver,
    Marker,
    Message,
    Publication,
    SessionEnded,
    Settled,
    Unadvertise,
)
from tests.broker.kit import Edge, Federation

CHAIN: tuple[Edge, ...] = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"))
STAR: tuple[Edge, ...] = (("B1", "B2"), ("B3", "B1"), ("B1", "B4"))


def moving(*edges: Edge, to: str = "B2", **config: Any) -> Federation:
    """A publisher at B1 that moves: it has published, and is about to say that it goes.

    Where subscriptions flood there is nothing to migrate: all that it has published has to pass first.
    """
    federation = Federation(*edges, routing="flooding", **config)
    federation.client("sub", edges[-1][1])
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    federation.redirect("pub", to)
    step_until(federation, lambda: bool(federation.between(to, "pub", Settled)))
    federation.publish("pub", a=1)
    return federation


def step_until(federation: Federation, done: Callable[[], bool]) -> None:
    while not done():
        assert federation.step()


def ended(federation: Federation, broker: str = "B1") -> bool:
    return bool(federation.between(broker, "pub", SessionEnded))


def markers(federation: Federation, who: str, to: str) -> list[Message]:
    """The events from one to the other, and the markers of sessions that are handed over."""
    return [
        message
        for message in federation.between(who, to, Publication, Marker)
        if not isinstance(message, Marker) or read_marker_id(message.id)[0] == HAND_OVER
    ]


@pytest.mark.parametrize("edges", [CHAIN, STAR, (("B1", "B2"),)])
def test_a_marker_goes_to_every_broker_and_comes_back(edges: tuple[Edge, ...]) -> None:
    federation = moving(*edges)
    federation.settle()
    for a, b in edges:
        there, back = (a, b) if markers(federation, a, b) else (b, a)
        assert len([m for m in markers(federation, there, back) if type(m) is Marker]) == 1
        assert len(federation.between(back, there, DrainEcho)) == 1
        assert not markers(federation, back, there)
    assert federation.clients["pub"].address == "B2"
    federation.check_quiet()


def test_without_neighbours_it_is_back_at_once() -> None:
    federation = Federation(("B1", "B2"))
    federation.part("B1", "B2")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.publish("pub", a=1)
    federation.settle()
    federation.redirect("pub", "B2")
    federation.settle()
    assert ended(federation)
    assert federation.clients["pub"].address == "B2"


@pytest.mark.parametrize("held", CHAIN)
def test_it_comes_back_only_after_what_is_ahead_has_passed(held: Edge) -> None:
    federation = moving(*CHAIN)
    federation.hold_data.add(held)
    federation.settle()
    assert not ended(federation)
    assert not federation.got("sub")
    federation.hold_data.clear()
    step_until(federation, lambda: ended(federation))
    # Whoever has it still on the way to a client has routed it, and nothing can overtake it there.
    assert federation.between("B4", "sub")


def test_a_marker_travels_behind_the_events() -> None:
    federation = moving(*CHAIN)
    federation.settle()
    for way in CHAIN:
        assert [type(m) for m in markers(federation, *way)] == [Publication, Marker]


def test_an_echo_travels_behind_the_events() -> None:
    """What is on the way to a subscriber that moves has come when its old session ends."""
    federation = Federation(*CHAIN)
    federation.client("pub", "B4")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.redirect("sub", "B3")
    step_until(federation, lambda: bool(federation.between("B3", "sub", Settled)))
    federation.hold_data.add(("B2", "B1"))
    ids = [federation.publish("pub", a=1)]
    federation.settle()
    ids.append(federation.publish("pub", a=2))
    federation.settle()
    assert federation.between("B2", "B1", DrainEcho)
    assert not federation.between("B1", "sub", SessionEnded)
    federation.hold_data.clear()
    federation.settle()
    kinds = [type(m) for m in federation.between("B2", "B1", Publication, DrainEcho)]
    assert kinds == [Publication, DrainEcho, Publication]
    assert federation.got("sub") == ids


def test_of_a_star_the_slowest_arm_counts() -> None:
    federation = moving(*STAR)
    federation.hold_data.add(("B1", "B3"))
    federation.settle()
    assert not ended(federation)
    assert len(federation.brokers["B1"].draining) == 1
    federation.hold_data.clear()
    federation.settle()
    assert ended(federation)


def test_a_neighbour_that_leaves_is_not_waited_for() -> None:
    federation = moving(*STAR)
    federation.hold_data.add(("B1", "B3"))
    federation.settle()
    federation.part("B1", "B3")
    federation.settle()
    assert ended(federation)
    assert not len(federation.brokers["B1"].draining)


def test_nobody_waits_for_a_marker_whose_origin_has_left() -> None:
    federation = moving(*CHAIN)
    federation.hold_data.add(("B3", "B4"))
    federation.settle()
    assert len(federation.brokers["B2"].draining) == len(federation.brokers["B3"].draining) == 1
    federation.part("B1", "B2")
    federation.settle()
    assert ended(federation)
    assert not len(federation.brokers["B2"].draining)
    federation.hold_data.clear()
    federation.settle()  # a late echo is no matter
    assert not len(federation.brokers["B3"].draining)


def test_a_neighbour_that_lost_its_memory_is_asked_again() -> None:
    """Behind the events that had not arrived: what is published elsewhere from then on must not overtake."""
    federation = moving(*CHAIN)
    federation.hold_data.add(("B2", "B3"))
    federation.settle()
    federation.crash("B3")
    federation.start("B3")
    federation.advance(1.0)
    assert not ended(federation)
    federation.hold_data.clear()
    federation.settle()
    assert ended(federation)
    assert not any(len(broker.draining) for broker in federation.brokers.values())


def test_a_broker_that_crashed_and_kept_its_store_is_waited_for() -> None:
    federation = moving(*CHAIN, durable=True)
    federation.hold_data.add(("B3", "B4"))
    federation.settle()
    federation.restart("B2", keep_store=True)
    assert not ended(federation)
    assert len(federation.brokers["B2"].draining) == 1
    federation.hold_data.clear()
    federation.settle()
    assert ended(federation)
    assert federation.clients["pub"].address == "B2"
    federation.check_quiet()


def test_who_shares_a_marker_is_not_forgotten_in_a_crash() -> None:
    """Two clients come while the marker of a third one is under way: theirs is the next."""
    federation = Federation(("B1", "B2"), ("B2", "B3"), durable=True)
    clients = ("one", "two", "three")
    for name in clients:
        federation.client(name, "B1")
        federation.subscribe(name, "a > 0")
    federation.settle()
    federation.severed.add(frozenset(("B2", "B3")))
    federation.cut("B2", "B3")
    for name in clients:
        federation.redirect(name, "B2")
        federation.settle()
    federation.restart("B2", keep_store=True)
    federation.severed.clear()
    federation.advance(2.0)
    assert [federation.clients[name].address for name in clients] == ["B2"] * 3
    federation.check_quiet()


def test_a_link_that_is_down_is_waited_for() -> None:
    federation = moving(*CHAIN)
    federation.cut("B3", "B4")
    federation.severed.add(frozenset(("B3", "B4")))
    federation.advance(60.0)
    assert not ended(federation)
    federation.severed.clear()
    federation.advance(60.0)
    assert ended(federation)
    assert federation.got("sub") == ["pub:1"]


@pytest.mark.parametrize("advertises", [True, False])
def test_who_has_published_nothing_and_waits_for_nothing_need_not_wait(advertises: bool) -> None:
    federation = Federation(*CHAIN)
    federation.client("idle", "B1")
    if advertises:
        federation.advertise("idle", "a > 0")
    federation.settle()
    federation.redirect("idle", "B4")
    federation.settle()
    assert len(federation.between("idle", "B1", EndSession)) == 1
    assert not federation.between("idle", "B1", HandOver)
    assert not federation.between("B1", "B2", Marker)
    assert federation.clients["idle"].address == "B4"
    federation.check_tables()


def test_a_marker_that_comes_back_by_a_new_link_ends_nothing_and_holds_nothing_up() -> None:
    """Links are moved while it travels: what began here is not taken for what came from there."""
    federation = moving(*CHAIN)
    federation.hold_data.add(("B3", "B4"))
    federation.settle()
    assert not ended(federation)
    federation.join("B4", "B1")
    federation.settle()
    federation.hold_data.clear()
    federation.settle()
    assert len([m for m in federation.between("B4", "B1", Marker) if "pub" in m.id]) >= 1  # type: ignore[attr-defined]
    assert ended(federation)
    assert not any(len(broker.draining) for broker in federation.brokers.values())


def test_nobody_waits_for_the_marker_of_a_session_that_is_over() -> None:
    """A neighbour that never answers must not make the markers of those who have left pile up."""
    federation = moving(*CHAIN)
    federation.hold_data.add(("B3", "B4"))
    federation.settle()
    assert len(federation.brokers["B1"].draining) == 1
    broker = federation.brokers["B1"]
    (session,) = [s for s in broker.node.sessions.values() if s.client == "pub"]
    broker.node.hosted.forget(session, "a test")
    assert not len(broker.draining)
    federation.hold_data.clear()
    federation.settle()  # a late echo is no matter
    assert not any(len(other.draining) for other in federation.brokers.values())


def test_who_leaves_takes_nobody_along_who_shares_its_marker() -> None:
    federation = Federation(("B1", "B2"), ("B2", "B3"), durable=True)
    clients = ("one", "two", "three")
    for name in clients:
        federation.client(name, "B2")
        federation.subscribe(name, "a > 0")
    federation.settle()
    federation.hold_data.add(("B3", "B2"))  # echoes of what is handed over
    for name in clients:
        federation.redirect(name, "B1")
        federation.settle()
    broker = federation.brokers["B2"]
    for session in [s for s in broker.node.sessions.values() if s.client in clients[:2]]:
        broker.node.hosted.forget(session, "a test")
    federation.restart("B2", keep_store=True)
    federation.hold_data.clear()
    federation.advance(2.0)
    assert federation.between("B2", "three", SessionEnded)
    assert federation.clients["three"].address == "B1"
    federation.check_quiet()


@pytest.mark.parametrize("leave", [False, True])
def test_what_those_wait_for_who_have_left_costs_no_marker(leave: bool) -> None:
    """They wait for the one after the marker that is under way."""
    federation = Federation(("B1", "B2"), ("B2", "B3"))
    clients = ("one", "two", "three")
    for name in clients:
        federation.client(name, "B2")
        federation.subscribe(name, "a > 0")
    federation.settle()
    federation.hold_data.add(("B3", "B2"))  # echoes of what is handed over
    for name in clients:
        federation.redirect(name, "B1")
        federation.settle()
    broker = federation.brokers["B2"]
    if leave:
        for session in [s for s in broker.node.sessions.values() if s.client in clients[1:]]:
            broker.node.hosted.forget(session, "a test")
    federation.hold_data.clear()
    federation.advance(2.0)
    said = federation.between("B2", "B3", Marker)
    begun = [m for m in said if isinstance(m, Marker) and read_marker_id(m.id)[0] == HAND_OVER]
    assert len(begun) == (1 if leave else 2)
    assert not any(len(other.draining) for other in federation.brokers.values())


def test_a_client_that_asks_a_hundred_times_costs_two_markers() -> None:
    """Which are not ahead of data, as it publishes."""
    federation = Federation(("B1", "B2"), ("B2", "B3"))
    federation.client("sub", "B3")
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    federation.hold_data.add(("B2", "B3"))
    federation.publish("pub", a=1)
    before = len(federation.between("B1", "B2", Marker))
    asked = [f"q{number}" for number in range(100)]
    for id_ in asked:
        federation.handle("pub", ev.SettleRequested(id_))
    federation.settle()
    assert not federation.between("B1", "pub", Settled)
    federation.hold_data.clear()
    federation.settle()
    assert [m.id for m in federation.between("B1", "pub", Settled)] == asked  # type: ignore[attr-defined]
    assert len(federation.between("B1", "B2", Marker)) - before == 2


def test_a_link_that_begins_anew_again_and_again_heaps_nothing_up() -> None:
    """A neighbour that forgets everything, and never says that anything has arrived."""
    federation = moving(*CHAIN)
    federation.hold_data.add(("B2", "B3"))
    federation.settle()
    for _ in range(5):
        federation.restart("B3")
    lane = federation.brokers["B2"].node.links["B3"].channel.data
    # All events are announced ahead of those that wait, and not any more behind them.
    kinds = [type(frame.message) for frame in lane.outbox]
    assert kinds == [Publication, Unadvertise, Marker]
