"""Markers: they come back when everything that was ahead of them has passed."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker.messages import EndSession, Marker, MarkerEcho, Publication, SessionEnded
from tests.broker.kit import Edge, Federation

CHAIN: tuple[Edge, ...] = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"))
STAR: tuple[Edge, ...] = (("B1", "B2"), ("B3", "B1"), ("B1", "B4"))


def moving(*edges: Edge, to: str = "B2", **config: Any) -> Federation:
    """A publisher at B1 that has published and was asked to move; nothing has arrived yet."""
    federation = Federation(*edges, **config)
    federation.client("sub", edges[-1][1])
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.settle()
    federation.publish("pub", a=1)
    federation.redirect("pub", to)
    return federation


def ended(federation: Federation, broker: str = "B1") -> bool:
    return bool(federation.between(broker, "pub", SessionEnded))


@pytest.mark.parametrize("edges", [CHAIN, STAR, (("B1", "B2"),)])
def test_a_marker_goes_to_every_broker_and_comes_back(edges: tuple[Edge, ...]) -> None:
    federation = moving(*edges)
    federation.settle()
    for a, b in edges:
        there, back = (a, b) if federation.between(a, b, Marker) else (b, a)
        assert len(federation.between(there, back, Marker)) == 1
        assert len(federation.between(back, there, MarkerEcho)) == 1
        assert not federation.between(back, there, Marker)
    assert federation.clients["pub"].broker == "B2"
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
    assert federation.clients["pub"].broker == "B2"


@pytest.mark.parametrize("held", CHAIN)
def test_it_comes_back_only_after_what_is_ahead_has_passed(held: Edge) -> None:
    federation = moving(*CHAIN)
    federation.hold_data.add(held)
    federation.settle()
    assert not ended(federation)
    assert not federation.got("sub")
    federation.hold_data.clear()
    while not ended(federation):
        assert federation.step()
    # Whoever has it still on the way to a client has routed it, and nothing can overtake it there.
    assert federation.between("B4", "sub")


def test_a_marker_travels_behind_the_events() -> None:
    federation = moving(*CHAIN)
    federation.settle()
    for way in CHAIN:
        kinds = [type(m) for m in federation.between(*way, Publication, Marker)]
        assert kinds == [Publication, Marker]


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


def test_a_neighbour_that_lost_its_memory_is_not_waited_for() -> None:
    federation = moving(*CHAIN)
    federation.hold_data.add(("B2", "B3"))
    federation.settle()
    federation.crash("B3")
    federation.start("B3")
    federation.advance(1.0)
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
    assert federation.clients["pub"].broker == "B2"
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


def test_who_has_published_nothing_need_not_wait() -> None:
    federation = Federation(*CHAIN)
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.redirect("sub", "B4")
    federation.settle()
    (goodbye,) = federation.between("sub", "B1", EndSession)
    assert isinstance(goodbye, EndSession)
    assert not goodbye.drain
    assert not federation.between("B1", "B2", Marker)
    assert federation.clients["sub"].broker == "B4"
