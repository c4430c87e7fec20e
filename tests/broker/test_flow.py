"""Peers that do not read, or are away: nothing is written to them, nothing is lost, order stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker import flow
from roost.broker.messages import DATA, Frame, Publication
from roost.language import Event
from tests.broker.kit import Federation


def crowd(**config: Any) -> Federation:
    """B1 - B2, a publisher at the one and a subscriber at the other."""
    federation = Federation(("B1", "B2"), **config)
    federation.client("pub", "B1")
    federation.client("sub", "B2")
    federation.advertise("pub", "a present")
    federation.subscribe("sub", "a present")
    federation.settle()
    return federation


def connection_of(federation: Federation, broker: str, other: str) -> int:
    (found,) = [c.id for c in federation.connections.values() if set(c.ends) == {broker, other}]
    return found


@pytest.mark.parametrize(("broker", "other"), [("B1", "B2"), ("B2", "sub")])
def test_nothing_is_written_to_who_does_not_read(broker: str, other: str) -> None:
    federation = crowd()
    connection = connection_of(federation, broker, other)
    federation.handle(broker, ev.Congested(connection))
    ids = [federation.publish("pub", a=n) for n in range(3)]
    since = len(federation.said)
    federation.settle()
    assert federation.between(broker, other, since=since) == []
    federation.handle(broker, ev.Relieved(connection))
    federation.settle()
    assert federation.got("sub") == ids
    ids.append(federation.publish("pub", a=9))
    federation.settle()
    assert federation.got("sub") == ids


def test_control_goes_on_to_a_neighbour_that_does_not_read() -> None:
    federation = crowd()
    federation.handle("B1", ev.Congested(connection_of(federation, "B1", "B2")))
    federation.publish("pub", a=1)
    federation.advertise("pub", "b present")
    federation.settle()
    assert len(federation.brokers["B2"].router.advertisements) == 2
    assert federation.got("sub") == []


def test_what_has_waited_goes_out_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get their turn in between, and what comes meanwhile stays behind."""
    monkeypatch.setattr(flow, "AT_A_TIME", 2)
    federation = crowd()
    connection = connection_of(federation, "B2", "sub")
    federation.handle("B2", ev.Congested(connection))
    ids = [federation.publish("pub", a=n) for n in range(5)]
    federation.settle()
    federation.handle("B2", ev.Relieved(connection))
    federation.settle()
    assert federation.got("sub") == ids[:2]
    ids.append(federation.publish("pub", a=5))
    federation.settle()
    assert federation.got("sub") == ids[:2]
    federation.advance(0.0)
    assert federation.got("sub") == ids


def test_what_changes_is_kept_for_a_neighbour_that_is_away_up_to_a_bound() -> None:
    """Beyond that it is told all anew when it is back."""
    federation = Federation(("B1", "B2"), link_outbox_max=5)
    federation.client("pub", "B1")
    federation.settle()
    federation.severed.add(frozenset(("B1", "B2")))
    federation.cut("B1", "B2")
    for number in range(10):
        federation.advertise("pub", f"a > {number}", f"{number}")
        federation.settle()
    assert len(federation.brokers["B1"].links["B2"].channel.control.outbox) == 5
    federation.severed.clear()
    federation.advance(60.0)
    federation.check_tables()


def test_a_client_that_is_away_may_hold_so_many_bytes() -> None:
    federation = crowd(session_outbox_bytes_max=100, session_outbox_policy="drop")
    broker = federation.brokers["B2"]
    (session,) = broker.sessions.values()
    federation.severed.add(frozenset(("sub", "B2")))
    federation.cut("sub", "B2")
    for n in range(5):
        federation.publish("pub", a=n)
        federation.settle()
        session.held_bytes += 30  # nobody writes bytes here: what each would have had
    assert session.dropped == 1
    assert len(session.channel.data.outbox) == 4


STEPS = st.lists(
    st.one_of(
        st.just("publish"),
        st.sampled_from(["congest B1", "congest B2", "relieve B1", "relieve B2"]),
        st.sampled_from(["cut B1 B2", "cut sub B2", "advance", "settle", "crash B2"]),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps=STEPS, at_a_time=st.integers(1, 3), durable=st.booleans())
def test_whatever_happens_all_arrives_once_and_in_order(
    steps: list[str], at_a_time: int, durable: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "AT_A_TIME", at_a_time)
        federation = crowd(durable=durable)
        ids: list[str] = []
        for step in steps:
            verb, *names = step.split()
            if verb == "publish":
                ids.append(federation.publish("pub", a=len(ids)))
            elif verb in ("congest", "relieve"):
                event = ev.Congested if verb == "congest" else ev.Relieved
                for connection in list(federation.connections.values()):
                    if names[0] in connection.ends:
                        federation.handle(names[0], event(connection.id))
            elif verb == "cut":
                federation.cut(*names)
            elif verb == "crash" and durable:
                federation.restart("B2", keep_store=True)
            elif verb == "advance":
                federation.advance(0.6)
            else:
                federation.settle()
        for broker in ("B1", "B2"):
            for connection in list(federation.connections.values()):
                federation.handle(broker, ev.Relieved(connection.id))
        federation.advance(40.0)
        assert federation.got("sub") == ids


def test_who_was_stopped_by_the_machine_goes_on_when_it_has_room() -> None:
    federation = crowd()
    broker = federation.brokers["B1"]
    connection = connection_of(federation, "B1", "pub")
    broker.node.work.begin(federation.now)
    broker.node.pausing.stop(connection)
    assert broker.node.work.commands == [do.PauseReading(connection)]
    broker.node.work.begin(federation.now)
    broker.node.pausing.go_on()
    assert broker.node.work.commands == [do.ResumeReading(connection)]


def test_the_short_way_takes_what_a_neighbour_sends_next() -> None:
    """And nothing else."""
    federation = crowd(ack_delay_s=0.5)
    connection = connection_of(federation, "B1", "B2")
    broker = federation.brokers["B2"]
    received = broker.links["B1"].channel.data.received
    parcels = [
        Frame(DATA, received + n, Publication("pub", n, Event({"a": n}))) for n in range(1, 5)
    ]
    federation.handle("B2", ev.Received(connection, (parcels[0],)))
    assert broker.take(connection, parcels[2], federation.now) is None  # one is missing
    assert broker.take(connection, parcels[0], federation.now) is None  # it has been here before
    for parcel in parcels[1:3]:
        commands = broker.take(connection, parcel, federation.now)
        assert commands is not None
        (delivery,) = commands
        assert isinstance(delivery, do.Deliver)
        assert delivery.publication is parcel.message
    federation.handle("B2", ev.Received(connection, (parcels[3],)))
    assert broker.links["B1"].channel.data.received == received + 4
