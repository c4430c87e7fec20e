"""Who reads is waited for, who does not is not: `roost.broker.patience`."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker import events as ev
from roost.broker.messages import Ack
from roost.broker.patience import READS_S, WAIT_S
from tests.broker.kit import Federation
from tests.broker.test_flow import connection_of

BOUND = 40


def crowd(**config: Any) -> Federation:
    """A publisher at one broker or both, a subscriber and somebody else at B2."""
    federation = Federation(("B1", "B2"), session_outbox_max=BOUND, ack_every=1, **config)
    for name, broker in (("far", "B1"), ("near", "B2")):
        federation.client(name, broker)
        federation.advertise(name, "a >= 0")
    for name in ("sub", "other"):
        federation.client(name, "B2", ack_every=1)
        federation.subscribe(name, "a >= 0")
    federation.settle()
    return federation


def publish(federation: Federation, publisher: str, count: int) -> list[str]:
    return [federation.publish(publisher, a=n) for n in range(count)]


@pytest.mark.parametrize("publisher", ["far", "near"])
def test_one_that_reads_more_slowly_than_events_come_gets_them_all(publisher: str) -> None:
    """Ten times the bound come at once; it reads one event when two have come."""
    federation = crowd()
    ids = publish(federation, publisher, 10 * BOUND)
    away = federation.hold_data
    while len(federation.got("sub")) < len(ids):
        away.add(("B2", "sub"))
        for _ in range(2 * BOUND):
            federation.step()
        away.clear()
        federation.step()
        federation.now += WAIT_S / BOUND
        if not federation.step():
            federation.advance(0.0)
    assert federation.got("sub") == federation.got("other") == ids
    assert not federation.heard("sub", "over")
    assert federation.paused == set()


@pytest.mark.parametrize("congested", [False, True])
@pytest.mark.parametrize("publisher", ["far", "near"])
def test_one_that_does_not_read_is_waited_for_for_a_moment_and_once(
    publisher: str, congested: bool
) -> None:
    federation = crowd()
    federation.hold_data.add(("B2", "sub"))
    if congested:
        federation.handle("B2", ev.Congested(connection_of(federation, "B2", "sub")))
    ids = publish(federation, publisher, BOUND)
    federation.settle()
    assert len(federation.got("other")) == BOUND // 2 + 1
    assert federation.paused
    federation.advance(READS_S)
    assert federation.paused == set()
    assert federation.got("other") == ids
    ids += publish(federation, publisher, BOUND)
    federation.settle()
    assert federation.got("other") == ids  # nobody waits for it again
    ended = [report for _, report in federation.reports if report.what == "session ended"]
    assert [report.detail for report in ended] == [f"more than {BOUND} deliveries were waiting"]


def test_one_that_has_not_been_read_for_a_while_is_not_waited_for() -> None:
    federation = crowd()
    connection = connection_of(federation, "B2", "sub")
    federation.handle("B2", ev.Congested(connection))
    federation.advance(2 * READS_S)
    ids = publish(federation, "far", BOUND)
    federation.settle()
    assert federation.got("other") == ids


def test_one_that_reads_a_little_is_waited_for_no_longer_than_that() -> None:
    """An acknowledgement now and then does not hold others up for ever."""
    federation = crowd()
    federation.hold_data.add(("B2", "sub"))
    ids = publish(federation, "far", BOUND)
    federation.settle()
    connection = connection_of(federation, "B2", "sub")
    waited, acked = 0.0, 0
    while federation.paused:
        acked += 1
        federation.handle("B2", ev.Received(connection, (Ack(0, acked),)))
        federation.advance(READS_S / 2)
        waited += READS_S / 2
    assert waited == pytest.approx(WAIT_S)
    assert federation.got("other") == ids


def test_one_that_goes_away_holds_nobody_up() -> None:
    federation = crowd()
    federation.hold_data.add(("B2", "sub"))
    ids = publish(federation, "near", BOUND)
    federation.settle()
    assert federation.paused
    federation.cut("B2", "sub", unnoticed_by="sub")
    federation.settle()
    assert federation.paused == set()
    assert federation.got("other") == ids


def test_who_is_waited_for_is_still_heard_if_it_publishes_itself() -> None:
    """Two who publish for each other: acknowledgements of either are behind its own events."""
    federation = Federation(("B1", "B2"), session_outbox_max=BOUND, ack_every=1)
    for name in ("one", "two"):
        federation.client(name, "B1", ack_every=1)
        federation.advertise(name, f"from = '{name}'")
    federation.subscribe("one", "from = 'two'")
    federation.subscribe("two", "from = 'one'")
    federation.settle()
    sent: dict[str, list[str]] = {"one": [], "two": []}
    for _ in range(5 * BOUND):
        for name, ids in sent.items():
            ids.append(federation.publish(name, **{"from": name}))
    federation.advance(10 * WAIT_S)
    assert federation.got("one") == sent["two"]
    assert federation.got("two") == sent["one"]


def test_a_publisher_that_is_nothing_else_need_not_be_read_meanwhile() -> None:
    federation = crowd()
    federation.hold_data.add(("B2", "sub"))
    publish(federation, "near", BOUND)
    while not federation.paused:
        federation.step()
    assert federation.rests == {("B2", connection_of(federation, "B2", "near"))}
    federation.advance(READS_S)
    assert federation.rests == set()
