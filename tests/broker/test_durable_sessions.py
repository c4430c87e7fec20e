"""Sessions that outlive a process, deliveries that are handled, requests that have settled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker import flow
from roost.broker.messages import Ack, Done
from tests.broker.kit import Federation


def federation_of(*edges: tuple[str, str], **config: Any) -> Federation:
    federation = Federation(*edges or (("B1", "B2"),), **config)
    federation.client("pub", "B1")
    federation.advertise("pub", "a present")
    federation.settle()
    return federation


def process(federation: Federation, number: int, name: str = "sub") -> None:
    """A process of a durable subscriber starts: it knows nothing of the ones before."""
    federation.client(
        name,
        "B2",
        session="durable/orders",
        durable=True,
        process=f"process {number}",
        waits_for_application=True,
    )
    federation.subscribe(name, "a present", "orders")
    federation.settle()


def test_the_next_process_gets_what_was_not_handled() -> None:
    federation = federation_of()
    process(federation, 1)
    ids = [federation.publish("pub", a=n) for n in range(3)]
    federation.settle()
    assert federation.got("sub") == ids
    federation.handle("sub", ev.Handled(1))
    federation.settle()
    federation.cut("sub", "B2")
    ids.append(federation.publish("pub", a=3))  # nobody is there
    federation.settle()
    process(federation, 2)
    assert federation.got("sub") == ids[1:]
    assert federation.table("B2") == {"durable/orders/orders": "sub"}
    ids.append(federation.publish("pub", a=4))
    federation.settle()
    assert federation.got("sub") == ids[1:]
    federation.check_tables()


def test_the_log_tells_how_a_session_came_to_be_attached() -> None:
    federation = federation_of()
    process(federation, 1)
    federation.cut("sub", "B2")
    federation.advance(1.0)
    process(federation, 2)
    said = [report.what for _, report in federation.reports if report.about == "durable/orders"]
    assert said == ["session begun", "session resumed", "session taken over"]


def test_who_takes_over_from_one_that_did_not_live_to_hear_that_its_session_was_lost_is_told() -> (
    None
):
    federation = federation_of(durable=True)
    process(federation, 1)
    federation.cut("sub", "B2")
    federation.clients.pop("sub")
    federation.restart("B2")
    # The next one begins a session, and is killed before it has said what it wants.
    federation.client("sub", "B2", session="durable/orders", durable=True, process="process 2")
    federation.settle()
    federation.cut("sub", "B2")
    process(federation, 3)
    assert federation.clients["sub"].is_new
    # The one after that has what it left.
    process(federation, 4)
    assert not federation.clients["sub"].is_new


@pytest.mark.parametrize("keep", [True, False])
def test_a_durable_session_survives_its_broker_if_that_has_a_store(keep: bool) -> None:
    federation = federation_of(durable=True)
    process(federation, 1)
    federation.cut("sub", "B2")
    federation.severed.add(frozenset(("sub", "B2")))
    ids = [federation.publish("pub", a=n) for n in range(2)]
    federation.settle()
    federation.restart("B2", keep_store=keep)
    ids.append(federation.publish("pub", a=2))
    federation.settle()
    federation.severed.clear()
    process(federation, 2)
    assert federation.got("sub") == (ids if keep else [])


def test_a_durable_session_waits_longer() -> None:
    federation = federation_of(linger_s=10.0, durable_linger_s=100.0)
    process(federation, 1)
    federation.client("other", "B2")
    federation.settle()
    for name in ("sub", "other"):
        federation.severed.add(frozenset((name, "B2")))
        federation.cut(name, "B2")
    federation.advance(50.0)
    assert list(federation.brokers["B2"].sessions) == ["durable/orders"]
    federation.advance(60.0)
    assert not federation.brokers["B2"].sessions
    assert not federation.brokers["B2"].router.subscriptions


def test_a_process_that_was_taken_over_is_told_so() -> None:
    federation = federation_of()
    process(federation, 1)
    old = federation.clients.pop("sub")
    process(federation, 2)
    assert federation.state("sub") == "attached"
    federation.clients["old"] = old
    federation.news["old"] = []
    federation.handed["old"] = []
    old.handle(ev.ConnectionClosed(old.home.connection or 0), 0.0)
    federation.handle("old", ev.TimerFired("dial:0"))
    federation.settle()
    (refusal,) = federation.heard("old", "refused")
    assert refusal.reason == "another process of this client has taken over the session"
    assert federation.state("sub") == "attached"


def test_another_filter_under_the_same_name_replaces_the_old_one() -> None:
    federation = federation_of()
    process(federation, 1)
    federation.cut("sub", "B2")
    federation.client("sub", "B2", session="durable/orders", durable=True, process="2")
    federation.subscribe("sub", "a > 5", "orders")
    federation.settle()
    federation.publish("pub", a=1)
    wanted = federation.publish("pub", a=6)
    federation.settle()
    assert federation.got("sub") == [wanted]
    federation.check_tables()


def test_deliveries_are_acknowledged_when_they_are_handled() -> None:
    federation = federation_of()
    process(federation, 1)
    for n in range(4):
        federation.publish("pub", a=n)
    federation.settle()
    (session,) = federation.brokers["B2"].sessions.values()
    assert len(session.channel.data.outbox) == 4
    federation.handle("sub", ev.Handled(3))
    federation.settle()
    assert len(session.channel.data.outbox) == 1
    federation.cut("sub", "B2")
    federation.advance(1.0)  # it resumes: what it has is not handed out twice
    assert len(federation.got("sub")) == 4
    assert len(session.channel.data.outbox) == 1
    federation.handle("sub", ev.Handled(4))
    federation.settle()
    assert not session.channel.data.outbox


# --- spilling ---------------------------------------------------------------------------------------


def test_what_does_not_fit_in_memory_is_in_the_store_only() -> None:
    federation = federation_of(durable=True, session_memory_max=4, session_outbox_max=5)
    process(federation, 1)
    (session,) = federation.brokers["B2"].sessions.values()
    lane = session.channel.data
    ids = [federation.publish("pub", a=n) for n in range(30)]
    federation.advance(2.0)  # it is waited for, but not for long
    assert federation.got("sub") == ids[:4]  # nothing is handled, so no more is sent
    assert (len(lane.outbox), lane.spilled) == (4, 26)
    for number in range(2, 31, 2):
        federation.handle("sub", ev.Handled(number))
        federation.settle()
        assert len(lane.outbox) <= 4
    assert federation.got("sub") == ids
    ids.append(federation.publish("pub", a=30))
    federation.settle()
    assert federation.got("sub") == ids
    federation.handle("sub", ev.Handled(31))
    federation.settle()
    assert not any(key[0] == "out" for key in federation.stores["B2"])


def test_to_acknowledge_what_is_in_the_store_only_is_a_breach_of_protocol() -> None:
    federation = federation_of(durable=True, session_memory_max=2)
    process(federation, 1)
    for n in range(5):
        federation.publish("pub", a=n)
    federation.settle()
    (session,) = federation.brokers["B2"].sessions.values()
    assert session.connection is not None
    federation.handle("B2", ev.Received(session.connection, (Ack(0, 4),)))
    assert federation.closed[-1] == ("B2", "4 is acknowledged, but 2 was the last")


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.sampled_from(
            [*["publish"] * 4, "handle", "cut", "crash", "process", "advance", "congest", "relieve"]
        ),
        max_size=60,
    ),
    memory=st.integers(1, 8),
    at_a_time=st.integers(1, 3),
)
@example(steps=["congest", *["publish"] * 3, "relieve"], memory=1, at_a_time=1)
def test_whatever_happens_each_is_handled_once_and_in_order(
    steps: list[str], memory: int, at_a_time: int
) -> None:
    """A new process gets again what the last one had not handled, from there on, and nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "AT_A_TIME", at_a_time)
        play(steps, memory)


def play(steps: list[str], memory: int) -> None:
    federation = federation_of(durable=True, session_memory_max=memory)
    process(federation, 0)
    ids: list[str] = []
    handled: list[str] = []
    for number, step in enumerate(steps, 1):
        if step == "publish":
            ids.append(federation.publish("pub", a=len(ids)))
        elif step == "handle":
            federation.settle()
            handle_one(federation, handled)
        elif step == "cut":
            federation.cut("sub", "B2")
        elif step == "crash":
            federation.restart("B2", keep_store=True)
        elif step == "process":
            federation.cut("sub", "B2")
            process(federation, number)
            # What was handled and not acknowledged died with the process: it comes again.
            (session,) = federation.brokers["B2"].sessions.values()
            del handled[session.channel.data.acked :]
        elif step in ("congest", "relieve"):
            congest(federation, step == "congest")
        else:
            federation.advance(0.6)
        federation.settle()
    federation.advance(40.0)
    congest(federation, False)
    federation.advance(0.0)
    for _ in range(len(ids)):
        handle_one(federation, handled)
        federation.advance(0.0)
    assert handled == ids


def congest(federation: Federation, congested: bool) -> None:
    (session,) = federation.brokers["B2"].sessions.values()
    if session.connection is not None:
        event = ev.Congested if congested else ev.Relieved
        federation.handle("B2", event(session.connection))


def handle_one(federation: Federation, handled: list[str]) -> None:
    """The application deals with the first that it has and has not dealt with."""
    client = federation.clients["sub"]
    if client.home.outstanding:
        number = client.home.outstanding[0]
        waiting = federation.got("sub")[-len(client.home.outstanding) :]
        handled.append(waiting[0])
        federation.handle("sub", ev.Handled(number))


# --- settling ---------------------------------------------------------------------------------------


def test_an_advertisement_has_settled_when_the_subscriptions_for_it_have_come() -> None:
    """Control first, the marker behind it: see `Settle`."""
    federation = Federation(("B1", "B2"), ("B2", "B3"))
    federation.client("pub", "B1")
    federation.client("sub", "B3")
    federation.subscribe("sub", "a present")
    federation.settle()
    federation.advertise("pub", "a present")
    federation.handle("pub", ev.SettleRequested("q1"))
    while not federation.heard("pub", "settled"):
        assert federation.step()
    assert list(federation.table("B1")) == ["sub/1"]
    assert federation.heard("pub", "settled") == [do.Tell("settled", "q1")]


def test_a_subscription_has_settled_when_every_publisher_has_it() -> None:
    federation = Federation(("B1", "B2"), ("B2", "B3"))
    federation.client("pub", "B1")
    federation.client("sub", "B3")
    federation.advertise("pub", "a present")
    federation.settle()
    federation.subscribe("sub", "a present")
    federation.handle("sub", ev.SettleRequested("q1"))
    while not federation.heard("sub", "settled"):
        assert federation.step()
    published = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [published]


def test_settling_waits_only_for_the_grace_of_a_neighbour_that_is_away() -> None:
    """By then everything is kept for both sides, so that nobody misses anything; see `absence`."""
    federation = federation_of(durable=True)
    federation.severed.add(frozenset(("B1", "B2")))
    federation.cut("B1", "B2")
    federation.handle("pub", ev.SettleRequested("q1"))
    federation.settle()
    assert not federation.heard("pub", "settled")
    federation.advance(federation.brokers["B1"].config.absence_grace_s)
    federation.settle()
    (settled,) = federation.heard("pub", "settled")
    assert settled.reason == "B2"  # who is missing


def test_an_id_to_settle_is_one_word() -> None:
    federation = federation_of()
    federation.handle("pub", ev.SettleRequested("a/b"))
    federation.settle()
    assert federation.heard("pub", "refused") == [
        do.Tell("refused", "a/b", "an id to settle has at most 100 characters, and no '/'")
    ]


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize(
    ("reached", "spans", "again"),
    [
        (0, ((2, 3), (5, 5)), [1, 4, 6]),
        (2, ((1, 1), (4, 6)), [3]),
        (0, ((5, 5), (2, 3)), [1, 2, 3, 4, 6]),  # out of order: only what is beyond the last counts
        (0, ((0, 2**63 - 1),), []),
        (0, ((0, 2),), [3, 4, 5, 6]),
        (0, ((5, 5), (4, 4)), [1, 2, 3, 4, 6]),
        (6, ((7, 9),), []),
    ],
)
def test_what_is_done_with_behind_a_gap_does_not_come_again(
    reached: int, spans: tuple[tuple[int, int], ...], again: list[int], crashes: bool
) -> None:
    federation = federation_of(durable=True)
    process(federation, 1)
    ids = [federation.publish("pub", a=n) for n in range(6)]
    federation.settle()
    federation.handle("sub", ev.Handled(reached, spans))
    federation.settle()
    federation.advance(1.0)
    federation.cut("sub", "B2")
    if crashes:
        federation.restart("B2", keep_store=True)
    process(federation, 2)
    assert federation.got("sub") == [ids[number - 1] for number in again]
    assert not federation.heard("sub", "dropped")
    federation.handle("sub", ev.Handled(6))
    federation.advance(1.0)
    lane = federation.brokers["B2"].node.sessions["durable/orders"].channel.data
    assert lane.acked == lane.sent == 6


def test_a_broker_of_an_earlier_version_is_told_nothing_that_it_does_not_understand() -> None:
    federation = federation_of(durable=True)
    federation.version_of["B2"] = 3
    federation.restart("B2", keep_store=True)
    federation.advance(5.0)
    process(federation, 1)
    ids = [federation.publish("pub", a=n) for n in range(3)]
    federation.settle()
    assert federation.got("sub") == ids
    federation.handle("sub", ev.Handled(0, ((2, 2),)))
    federation.settle()
    assert federation.clients["sub"].home.speaks == 3
    assert not federation.between("sub", "B2", Done)
    federation.cut("sub", "B2")
    process(federation, 2)
    assert federation.got("sub") == ids
