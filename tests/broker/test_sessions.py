"""Sessions: how clients come, go, come back and move, and what happens when a queue is full."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    SESSION_VERSION,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    Dropped,
    EndSession,
    Frame,
    HandOver,
    Message,
    Publication,
    Refused,
    SessionEnded,
    Subscribe,
)
from roost.broker.module import Module
from roost.broker.names import Address
from roost.language import Event, parse_advertisement, parse_subscription
from tests.broker.kit import Edge, Federation

CHAIN: tuple[Edge, ...] = (("B1", "B2"), ("B2", "B3"))


def crowd(**config: Any) -> Federation:
    """B1 - B2 - B3; a publisher of a > 0 at B1, a subscriber to it at B3."""
    federation = Federation(*CHAIN, **config)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B3")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    return federation


class Desk:
    """A broker, and connections to it by hand: for what a well-behaved client would never say."""

    def __init__(self, **config: Any) -> None:
        self.broker = Broker(BrokerConfig(broker="B1", incarnation="B1~1", **config))
        self.broker.handle(ev.Started(), 0.0)
        self.sent: dict[tuple[int, int], int] = {}

    def attach(
        self,
        connection: int,
        client: str = "C",
        session: str = "s",
        *,
        version: int = PROTOCOL_VERSION,
    ) -> list[do.Command]:
        self.broker.handle(ev.ConnectionAccepted(connection), 0.0)
        greeting = Attach(version, client, session, False, 0, 0)
        return self.broker.handle(ev.Received(connection, (greeting,)), 0.0)

    def say(self, connection: int, message: Message, class_: Any = CONTROL) -> list[Message]:
        """The answers on that connection."""
        number = self.sent[connection, class_] = self.sent.get((connection, class_), 0) + 1
        frame = Frame(class_, number, message)
        commands = self.broker.handle(ev.Received(connection, (frame,)), 0.0)
        return [
            c.parcel.message
            for c in commands
            if isinstance(c, do.Send) and isinstance(c.parcel, Frame)
        ]


# --- attaching --------------------------------------------------------------------------------------


def test_a_new_session_and_its_end() -> None:
    federation = crowd()
    assert list(federation.brokers["B3"].sessions) == ["sub-session.0"]
    federation.handle("sub", ev.LeaveRequested())
    federation.settle()
    assert not federation.brokers["B3"].sessions
    assert not federation.table("B1")
    federation.check_quiet()


def test_another_version_is_refused() -> None:
    reason = f"protocol version 99; B1 speaks {SESSION_VERSION}"
    commands = Desk().attach(1, version=99)
    assert commands == [do.Send(1, AttachRefused(reason)), do.Close(1, reason)]


def test_somebody_elses_session_is_refused_and_its_owner_left_in_peace() -> None:
    desk = Desk()
    desk.attach(1, "C")
    reason = "the session is somebody else's"
    commands = desk.attach(2, "D")
    assert commands == [do.Send(2, AttachRefused(reason)), do.Close(2, reason)]
    assert desk.broker.sessions["s"].connection == 1


def test_who_knows_of_a_later_node_is_to_try_again_there() -> None:
    """The other node of a broker with a standby has gone on in its place, and the client has met it."""
    desk = Desk()
    greeting = Attach(PROTOCOL_VERSION, "C", "s", False, 0, 0, broker="B1", epoch=3)
    desk.broker.handle(ev.ConnectionAccepted(1), 0.0)
    commands = desk.broker.handle(ev.Received(1, (greeting,)), 0.0)
    reason = "epoch 0 of B1 is superseded by epoch 3"
    assert do.Superseded(3) in commands
    assert commands[-2:] == [do.Send(1, AttachRefused(reason, transient=True)), do.Close(1, reason)]


def test_a_session_has_one_connection() -> None:
    """The newer takes over; the older is closed, and what comes on it is not heard."""
    desk = Desk()
    desk.attach(1)
    desk.broker.handle(ev.ConnectionAccepted(2), 0.0)
    greeting = Attach(PROTOCOL_VERSION, "C", "s", True, 0, 0)
    commands = desk.broker.handle(ev.Received(2, (greeting,)), 0.0)
    assert do.Close(1, "there is a newer connection") in commands
    assert do.Send(2, Attached("s", True, 0, 0)) in commands
    subscribe = Subscribe("C/1", parse_subscription("a > 0"), "a test")
    assert desk.say(1, subscribe) == []
    assert not desk.broker.router.subscriptions
    assert desk.broker.handle(ev.ConnectionClosed(1), 0.0) == []
    assert desk.broker.sessions["s"].connection == 2


def test_a_client_that_begins_anew_leaves_its_old_session_behind() -> None:
    desk = Desk()
    desk.attach(1)
    desk.say(1, Subscribe("C/1", parse_subscription("a > 0"), "a test"))
    commands = desk.attach(2)
    assert do.Close(1, "it was left behind") in commands
    assert do.Send(2, Attached("s", False, 0, 0, is_new=True)) in commands
    assert not desk.broker.router.subscriptions


def test_resuming_brings_what_was_missed_in_order() -> None:
    federation = crowd()
    ids = [federation.publish("pub", a=1)]
    federation.settle()
    federation.cut("sub", "B3")
    ids += [federation.publish("pub", a=i) for i in (2, 3)]
    federation.settle()
    assert len(federation.got("sub")) == 1
    federation.advance(1.0)
    assert federation.got("sub") == ids
    assert ("B3", "linger:sub-session.0") not in federation.timers


def test_a_client_that_stays_away_too_long_is_forgotten() -> None:
    federation = crowd(linger_s=30.0)
    federation.severed.add(frozenset(("sub", "B3")))
    federation.cut("sub", "B3")
    federation.publish("pub", a=1)
    federation.advance(29.0)
    assert federation.brokers["B3"].sessions
    federation.advance(2.0)
    assert not federation.brokers["B3"].sessions
    assert not any(federation.table(broker) for broker in federation.brokers)
    assert federation.brokers["B3"].node.hosted.unheard == 1
    federation.severed.clear()
    federation.advance(1.0)
    federation.check_tables()  # it says again what it wants
    id_ = federation.publish("pub", a=2)
    federation.settle()
    assert federation.got("sub") == [id_]


def test_coming_back_in_time_stops_the_clock() -> None:
    federation = crowd(linger_s=30.0)
    federation.cut("sub", "B3")
    federation.advance(100.0)
    assert federation.brokers["B3"].sessions
    assert federation.heard("sub", "attached")[-1].reason == "resumed"


def test_a_clock_that_is_stopped_too_late_does_no_harm() -> None:
    """It may have run out in the moment in which the client came back, or its session was over."""
    desk = Desk()
    desk.attach(1)
    for session in ("s", "one that is over"):
        assert desk.broker.handle(ev.TimerFired(f"linger:{session}"), 0.0) == []
    assert desk.broker.sessions["s"].connection == 1


def test_nobody_waits_for_the_client_of_a_session_that_is_over() -> None:
    federation = crowd()
    federation.severed.add(frozenset(("sub", "B3")))
    federation.cut("sub", "B3")
    assert ("B3", "linger:sub-session.0") in federation.timers
    federation.handle("B3", ev.SessionDismissed("sub-session.0", "enough"))
    assert not federation.brokers["B3"].sessions
    assert ("B3", "linger:sub-session.0") not in federation.timers


@pytest.mark.parametrize("durable", [False, True])
def test_a_forgotten_session_leaves_nothing(durable: bool) -> None:
    federation = crowd(durable=durable)
    federation.handle("sub", ev.LeaveRequested())
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    for name in federation.brokers:
        assert not federation.table(name)
        assert not federation.table(name, "advertisements")
        assert not [key for key in federation.stores[name] if "session" in key]


# --- refusals ---------------------------------------------------------------------------------------


def test_an_event_that_was_not_advertised_is_refused() -> None:
    federation = crowd()
    id_ = federation.publish("pub", a=-1)
    good = federation.publish("pub", a=1)
    federation.settle()
    reason = "no advertisement of this client covers it"
    assert federation.heard("pub", "refused") == [do.Tell("refused", id_, reason)]
    assert federation.got("sub") == [good]


def test_an_event_in_anothers_name_is_refused() -> None:
    desk = Desk()
    desk.attach(1)
    desk.say(1, Advertise("C/1", parse_advertisement("a > 0"), "a test"))
    (answer,) = desk.say(1, Publication("D", 1, Event({"a": 1})), DATA)
    assert answer == Refused("D:1", "it is in the name of 'D', not of 'C'")


class Owner(Module):
    """Reserves a class."""

    name = "owner"
    reserved = ("SECRET",)


def test_a_reserved_class_is_refused() -> None:
    federation = Federation(*CHAIN, modules=lambda _: [Owner()])
    federation.client("pub", "B1")
    federation.advertise("pub", "class = 'SECRET'")
    id_ = federation.publish("pub", **{"class": "SECRET"})
    federation.settle()
    reason = "its class is reserved for the brokers themselves"
    assert federation.heard("pub", "refused") == [do.Tell("refused", id_, reason)]


def test_an_event_ahead_of_data_is_refused() -> None:
    desk = Desk()
    desk.attach(1)
    desk.say(1, Advertise("C/1", parse_advertisement("a > 0"), "a test"))
    (answer,) = desk.say(1, Publication("C", 1, Event({"a": 1}), priority=CONTROL))
    assert answer == Refused("C:1", "its class is reserved for the brokers themselves")


def test_an_id_in_use_is_refused() -> None:
    desk = Desk()
    desk.attach(1)
    desk.attach(2, "D", "t")
    for message in (
        Subscribe("x", parse_subscription("a > 0"), "a test"),
        Advertise("x", parse_advertisement("a > 0"), "a test"),
    ):
        assert desk.say(1, message) == []
        assert desk.say(2, message) == [Refused("x", "the id 'x' is in use")]
    assert desk.broker.router.subscriptions["x"].hop is desk.broker.sessions["s"]


def test_what_only_brokers_say_is_a_breach_of_protocol() -> None:
    desk = Desk()
    desk.attach(1)
    frame = Frame(DATA, 1, SessionEnded("no"))
    commands = desk.broker.handle(ev.Received(1, (frame,)), 0.0)
    assert do.Close(1, "SessionEnded is not for a broker to hear") in commands


# --- moving -----------------------------------------------------------------------------------------


class Placer(Module):
    """Sends new clients elsewhere."""

    name = "placer"

    def __init__(self, better: str | None) -> None:
        self.better = better

    def place(self, client: str, now: float) -> Address | None:  # noqa: ARG002
        return None if self.better is None else Address(self.better)


def test_a_module_finds_a_better_place_at_attach() -> None:
    federation = Federation(*CHAIN, modules=lambda name: [Placer("B3" if name == "B1" else None)])
    federation.client("sub", "B1")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    assert federation.clients["sub"].address == "B3"
    assert federation.clients["sub"].state == "attached"
    assert not federation.brokers["B1"].sessions
    assert federation.table("B3") == {"sub/1": "sub"}


def test_who_comes_back_is_not_placed_anew() -> None:
    placer = Placer(None)
    federation = Federation(*CHAIN, modules=lambda name: [placer] if name == "B1" else [])
    federation.client("sub", "B1")
    federation.settle()
    placer.better = "B3"
    federation.cut("sub", "B1")
    federation.advance(1.0)
    assert federation.clients["sub"].address == "B1"


def test_a_subscriber_moves_with_all_that_it_wants() -> None:
    federation = crowd()
    federation.redirect("sub", "B1")
    federation.settle()
    assert federation.clients["sub"].address == "B1"
    assert federation.clients["sub"].session == "sub-session.1"
    assert not federation.brokers["B3"].sessions
    federation.check_tables()
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [id_]


@pytest.mark.parametrize("held", [("B1", "B2"), ("B2", "B3")])
def test_nothing_that_a_moving_publisher_publishes_is_lost_or_overtakes(held: Edge) -> None:
    """To the broker next to the subscriber, while its last events are stuck half-way."""
    federation = crowd()
    federation.hold_data.add(held)
    ids = [federation.publish("pub", a=1)]
    federation.redirect("pub", "B3")
    federation.settle()
    ids += [federation.publish("pub", a=i) for i in (2, 3)]
    federation.settle()
    assert federation.clients["pub"].address == "B1"
    assert not federation.got("sub")
    federation.hold_data.clear()
    federation.settle()
    assert federation.clients["pub"].address == "B3"
    ids.append(federation.publish("pub", a=4))
    federation.settle()
    assert federation.got("sub") == ids
    federation.check_tables()
    federation.check_quiet()


def test_while_it_moves_a_client_is_subscribed_at_both_brokers() -> None:
    federation = crowd()
    federation.redirect("sub", "B1")
    while not federation.between("sub", "B3", HandOver):
        assert federation.step()
    federation.hold_data.add(("B2", "B3"))
    federation.settle()
    assert federation.clients["sub"].moving
    assert federation.table("B3") == {"sub/1": "sub"}
    assert federation.table("B1") == {"sub/1": "B2", "sub/2": "sub"}
    event = federation.publish("pub", a=1)
    federation.settle()
    assert not federation.got("sub")  # what comes the old way comes first
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("sub") == [event]
    assert federation.clients["sub"].duplicates == 0  # the old session had ended before it
    federation.check_tables()
    federation.check_quiet()


def test_what_is_asked_for_while_moving_counts_in_the_new_session() -> None:
    federation = crowd()
    federation.publish("pub", a=1)
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.redirect("pub", "B3")
    federation.settle()
    federation.advertise("pub", "b > 0")
    federation.subscribe("pub", "a > 7", "high")
    federation.subscribe("sub", "b > 0")
    federation.publish("pub", b=1)
    federation.unadvertise("pub", "a > 0")
    federation.hold_data.clear()
    federation.settle()
    federation.check_tables()
    assert not federation.heard("pub", "refused")
    assert federation.got("sub")[0] == "pub:1"


def test_a_move_goes_on_after_a_cut() -> None:
    federation = crowd()
    federation.publish("pub", a=1)
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.redirect("pub", "B3")
    federation.settle()
    federation.cut("pub", "B1")
    federation.hold_data.clear()
    kept = federation.publish("pub", a=2)
    federation.advance(2.0)
    assert federation.clients["pub"].address == "B3"
    assert federation.got("sub") == ["pub:1", kept]
    federation.check_tables()


def test_a_session_waits_for_its_marker_while_its_client_is_away() -> None:
    """Else the client has to begin anew, and what was not acknowledged is published twice."""
    federation = crowd()
    federation.publish("pub", a=1)
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.redirect("pub", "B3")
    federation.settle()
    federation.cut("pub", "B1")
    federation.advance(1.0)
    assert [tell.reason for tell in federation.heard("pub", "attached")] == ["", "resumed"]
    federation.hold_data.clear()
    federation.settle()
    assert federation.clients["pub"].address == "B3"
    assert len(federation.between("pub", "B1", EndSession)) == 1


@pytest.mark.parametrize("keep", [True, False])
def test_a_move_goes_on_when_the_old_broker_crashes(keep: bool) -> None:
    federation = crowd(durable=keep)
    federation.publish("pub", a=1)
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.redirect("pub", "B3")
    federation.settle()
    federation.crash("B1", keep_store=keep)
    federation.hold_data.clear()
    kept = federation.publish("pub", a=2)
    federation.start("B1")
    federation.advance(2.0)
    assert federation.clients["pub"].address == "B3"
    assert federation.got("sub") == ["pub:1", kept]
    federation.check_tables()
    federation.check_quiet()


def test_a_redirect_to_where_one_is_already_changes_nothing() -> None:
    federation = crowd()
    federation.redirect("sub", "B3")
    federation.settle()
    assert federation.clients["sub"].session == "sub-session.0"
    assert not federation.between("sub", "B3", EndSession)


def test_the_end_of_a_session_stays_behind_its_publications() -> None:
    federation = crowd()
    federation.hold_data.add(("pub", "B1"))
    ids = [federation.publish("pub", a=i) for i in (1, 2)]
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    assert federation.table("B1", "advertisements") == {"pub/1": "pub"}
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("sub") == ids


def test_the_last_word_stays_behind_the_last_delivery() -> None:
    federation = crowd()
    federation.hold_data.add(("B3", "sub"))
    federation.publish("pub", a=1)
    federation.settle()
    federation.redirect("sub", "B1")
    federation.settle()
    federation.hold_data.clear()
    federation.settle()
    kinds = [type(m) for m in federation.between("B3", "sub", Delivery, SessionEnded)]
    assert kinds == [Delivery, SessionEnded]
    assert federation.got("sub") == ["pub:1"]


# --- full queues ------------------------------------------------------------------------------------


def test_a_full_session_drops_and_tells_how_many() -> None:
    federation = crowd(session_outbox_max=2, session_outbox_policy="drop")
    federation.cut("sub", "B3")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3, 4, 5)]
    federation.settle()
    assert federation.brokers["B3"].node.hosted.unheard == 3
    federation.advance(1.0)
    assert federation.got("sub") == ids[:2]
    ids.append(federation.publish("pub", a=6))
    federation.settle()
    assert federation.got("sub") == [*ids[:2], ids[-1]]
    assert federation.heard("sub", "dropped") == [do.Tell("dropped", "3")]
    kinds = [type(m) for m in federation.between("B3", "sub", Delivery, Dropped)]
    assert kinds == [Delivery, Delivery, Dropped, Delivery]


def test_a_full_session_ends_and_is_told_why() -> None:
    federation = crowd(session_outbox_max=2, session_outbox_policy="end")
    federation.cut("sub", "B3")
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3, 4)]
    federation.settle()
    assert not any(federation.table(broker) for broker in federation.brokers)
    federation.advance(1.0)
    assert federation.got("sub") == ids[:2]
    reason = "more than 2 deliveries were waiting"
    assert federation.heard("sub", "ended") == [do.Tell("ended", "B3", reason)]
    assert not federation.brokers["B3"].sessions
    federation.attach("sub", "B3")  # it may come again
    federation.settle()
    federation.check_tables()
    later = federation.publish("pub", a=5)
    federation.settle()
    assert federation.got("sub")[-1] == later


def test_one_slow_client_does_not_concern_the_others() -> None:
    federation = crowd(session_outbox_max=2)
    federation.client("quick", "B3")
    federation.subscribe("quick", "a > 0")
    federation.settle()
    federation.cut("sub", "B3")
    ids = []
    for i in (1, 2, 3, 4):
        ids.append(federation.publish("pub", a=i))
        federation.settle()
    assert not federation.brokers["B3"].sessions["sub-session.0"].subscriptions
    assert federation.got("quick") == ids


def test_a_full_link_pauses_who_could_add_to_it_and_resumes_them() -> None:
    """B2's queue to B3 fills up: B1 is read no further, then the publisher at B1; control goes on."""
    federation = crowd(link_outbox_max=2)
    federation.client("near", "B2")
    federation.subscribe("near", "a > 0")
    federation.settle()
    federation.hold_data.add(("B2", "B3"))
    ids = [federation.publish("pub", a=i) for i in range(1, 11)]
    federation.settle()
    # Two wait for B3, two for B2, and the rest with the publisher.
    assert federation.got("near") == ids[:2]
    assert len(federation.brokers["B2"].links["B3"].channel.data.outbox) == 2
    assert len(federation.brokers["B1"].links["B2"].channel.data.outbox) == 2
    assert federation.clients["pub"].accepted == 4
    assert {who for who, _ in federation.paused} == {"B1", "B2"}
    b3_at_b2 = federation.brokers["B2"].links["B3"].connection
    assert ("B2", b3_at_b2) not in federation.paused
    federation.subscribe("sub", "a > 9", "more")
    federation.advertise("pub", "b > 0")
    federation.settle()
    assert "pub/2" in federation.table("B3", "advertisements")
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("sub") == federation.got("near") == ids
    assert not federation.paused


def test_a_full_link_stops_only_those_who_publish_for_it() -> None:
    federation = crowd(link_outbox_max=2)
    federation.hold_data.add(("B1", "B2"))
    for i in (1, 2):
        federation.publish("pub", a=i)
    federation.settle()
    federation.client("other", "B1")
    federation.advertise("other", "a > 0 or b > 0")
    federation.client("near", "B1")
    federation.subscribe("near", "b > 0")
    federation.settle()
    connection = federation.brokers["B1"].sessions["other-session.0"].connection
    for i in (1, 2, 3):
        federation.publish("other", b=i)
    federation.settle()
    assert federation.clients["other"].accepted == 3
    assert len(federation.got("near")) == 3
    assert ("B1", connection) not in federation.paused
    federation.publish("other", a=1)
    federation.settle()
    assert ("B1", connection) in federation.paused
    federation.part("B1", "B2")
    federation.settle()
    assert ("B1", connection) not in federation.paused


def test_two_neighbours_whose_queues_are_full_towards_each_other_go_on() -> None:
    federation = crowd(link_outbox_max=2)
    for name, broker in (("pub3", "B3"), ("sub1", "B1")):
        federation.client(name, broker)
    federation.advertise("pub3", "a > 0")
    federation.subscribe("sub1", "a > 0")
    federation.settle()
    federation.hold_data |= {("B2", "B3"), ("B3", "B2"), ("B1", "B2"), ("B2", "B1")}
    there = [federation.publish("pub", a=i) for i in range(1, 9)]
    back = [federation.publish("pub3", a=i) for i in range(1, 9)]
    federation.settle()
    assert federation.paused
    federation.hold_data.clear()
    federation.settle()
    assert [id_ for id_ in federation.got("sub") if id_ in there] == there
    assert [id_ for id_ in federation.got("sub1") if id_ in back] == back
    assert not federation.paused


def test_a_session_is_dismissed_once_and_nobody_is_no_matter() -> None:
    federation = crowd()
    session = federation.clients["sub"].session
    federation.handle("B3", ev.SessionDismissed("nobody's", "enough"))
    for _ in range(2):
        federation.handle("B3", ev.SessionDismissed(session, "enough"))
    assert federation.between("B3", "sub", SessionEnded) == [SessionEnded("enough")]
