"""What has been here before: frames of a channel, publications of a publisher, migrations."""

from __future__ import annotations

from typing import Any

from roost.broker import events as ev
from roost.broker.messages import (
    DATA,
    Delivery,
    Frame,
    Migrate,
    MigrationFailed,
    MigrationUpdate,
    Publication,
)
from roost.language import Event
from tests.broker.journey import FIGURE_1, SOURCE, TARGET, migrating
from tests.broker.kit import Federation


def two_brokers(**config: Any) -> Federation:
    federation = Federation(("B1", "B2"), **config)
    federation.client("sub", "B2")
    federation.subscribe("sub", "a present")
    federation.settle()
    return federation


def test_a_frame_that_comes_twice_is_passed_over() -> None:
    """And what comes behind it is not."""
    federation = two_brokers()
    (link,) = (c.id for c in federation.connections.values() if set(c.ends) == {"B1", "B2"})
    frames = [Frame(DATA, n, Publication("pub", n, Event({"a": n}))) for n in (1, 2)]
    federation.handle("B2", ev.Received(link, (frames[0], frames[0], frames[1])))
    federation.settle()
    assert federation.got("sub") == ["pub:1", "pub:2"]
    assert federation.brokers["B2"].exchange.duplicates == 0  # it was no publication any more


def test_so_many_publishers_are_remembered() -> None:
    federation = two_brokers(watermarks_max=2)
    ids = []
    for name in ("p1", "p2", "p3"):
        federation.client(name, "B1")
        federation.advertise(name, "a present")
        federation.settle()
        ids += [federation.publish(name, a=n) for n in range(2)]
        federation.settle()
    assert federation.got("sub") == ids
    for broker in federation.brokers.values():
        assert broker.exchange._seen == {"p2": 2, "p3": 2}  # the oldest is forgotten


def test_unless_told_otherwise_many_publishers_are_remembered() -> None:
    """An event that comes again is known, also when others have published since."""
    federation = two_brokers()
    (link,) = (c.id for c in federation.connections.values() if set(c.ends) == {"B1", "B2"})
    events = [Publication(f"p{n}", 1, Event({"a": n})) for n in range(1_000)]
    frames = [Frame(DATA, n, event) for n, event in enumerate((*events, *events), 1)]
    federation.handle("B2", ev.Received(link, tuple(frames)))
    federation.settle()
    assert federation.got("sub") == [event.id for event in events]
    assert len(federation.between("B2", "sub", Delivery)) == len(events)


def test_what_migrates_already_does_not_migrate_twice() -> None:
    federation = Federation(*FIGURE_1)
    federation.client("P", SOURCE)
    federation.advertise("P", "a > 0")
    federation.settle()
    federation.redirect("P", TARGET)
    while not federation.between(TARGET, "B5", MigrationUpdate):
        assert federation.step()
    broker = federation.brokers[TARGET]
    (session,) = broker.sessions.values()
    migrating(broker).begin(session, Migrate(("P/1",), "once more"))
    assert session.channel.control.outbox[-1].message == MigrationFailed(
        "one of these advertisements is migrating already"
    )
