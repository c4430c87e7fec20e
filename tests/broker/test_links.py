"""Links: how neighbours greet, lose and find each other, and what they then still know."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    PROTOCOL_VERSION_MIN,
    Ack,
    Advertise,
    Attach,
    AttachRefused,
    Delivery,
    Frame,
    Inquiry,
    LinkHello,
    Marker,
    Publication,
    Rewire,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wants,
)
from roost.broker.rewiring.plan import PATIENCE_S
from roost.language import Event, parse_advertisement
from tests.broker.kit import Federation


def broker(name: str = "B1", **config: Any) -> Broker:
    config = {"members": False, **config}
    machine = Broker(BrokerConfig(broker=name, incarnation=f"{name}~1", **config))
    machine.handle(ev.Started(), 0.0)
    return machine


def hello(name: str, *, version: int = PROTOCOL_VERSION, known: str = "") -> LinkHello:
    return LinkHello(version, name, f"{name}~1", known, 0, 0)


def broker_whose_link_was_cut() -> Broker:
    """B2 has greeted, on connection 7, and is away."""
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    machine.handle(ev.ConnectionClosed(7, "cut"), 0.0)
    return machine


def our_hello() -> LinkHello:
    """What B1 says at first: nothing is known, and its life has begun."""
    return replace(hello("B1"), life="B1~1", address="B1")


def publisher_and_subscriber(**config: Any) -> Federation:
    """B1 - B2 - B3, a publisher at B1 and a subscriber at B3."""
    federation = Federation(("B1", "B2"), ("B2", "B3"), **config)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B3")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    return federation


# --- greeting ---------------------------------------------------------------------------------------


def test_both_greet_and_only_then_speak() -> None:
    machine = broker()
    grace, dial = machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    assert grace == do.SetTimer("absence:B2", machine.config.absence_grace_s)
    assert dial == do.OpenLink("B2")
    assert machine.handle(ev.LinkOpened("B2", 7), 0.0) == [do.Send(7, our_hello())]
    assert not machine.links["B2"].greeted
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    assert machine.links["B2"].greeted


def test_who_is_called_answers_the_greeting() -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    assert machine.handle(ev.ConnectionAccepted(7), 0.0) == []
    answer, *_, wants, inquiry = machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    assert answer == do.Send(7, our_hello())
    # Behind all that it is told: who is away here, and the question whether it has answered all that.
    assert wants == do.Send(7, Frame(CONTROL, 1, Wants((), "B2 is back")))
    assert inquiry == do.Send(7, Frame(CONTROL, 2, Inquiry(1, "B2 is back")))
    assert machine.links["B2"].greeted


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (hello("B2", version=99), f"protocol version 99; B1 speaks {PROTOCOL_VERSION}"),
        (hello("B9"), "B9 is no neighbour of B1"),
        (Ack(0, 0), "Ack came where a greeting was expected"),
        (Frame(CONTROL, 1, Unsubscribe("x", "y")), "Frame came where a greeting was expected"),
    ],
)
def test_refusals_say_why(greeting: Any, reason: str) -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    said = machine.handle(ev.Received(7, (greeting,)), 0.0)
    assert said == [do.Send(7, AttachRefused(reason)), do.Close(7, reason)]
    # What comes after that is not heard.
    assert machine.handle(ev.Received(7, (hello("B2"),)), 0.0) == []
    assert not machine.links["B2"].greeted


@pytest.mark.parametrize(
    "reason",
    [
        "protocol version 2; B2 speaks 1",
        "frame at byte 8 of the stream: LinkHello: expected at most 6 items, got 15",
        # With sixteen items its array has a longer head, in which the broker before finds no kind.
        "frame at byte 8 of the stream: parcel: expected `array` of at most length 6, got 15",
    ],
)
def test_whoever_can_not_read_the_greeting_gets_an_older_one(reason: str) -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    machine.handle(ev.LinkOpened("B2", 7), 0.0)
    machine.handle(ev.Received(7, (AttachRefused(reason),)), 0.0)
    (greeting,) = machine.handle(ev.LinkOpened("B2", 8), 1.0)
    assert isinstance(greeting, do.Send)
    assert isinstance(greeting.parcel, LinkHello)
    assert greeting.parcel.version == PROTOCOL_VERSION_MIN
    assert greeting.parcel.address == greeting.parcel.life == ""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(PROTOCOL_VERSION, PROTOCOL_VERSION_MIN), (PROTOCOL_VERSION_MIN, PROTOCOL_VERSION)],
)
def test_of_two_greetings_the_earlier_version_is_spoken(ours: int, theirs: int) -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    if ours == PROTOCOL_VERSION_MIN:  # as it has refused what is newer
        machine.handle(ev.LinkOpened("B2", 7), 0.0)
        machine.handle(ev.Received(7, (AttachRefused("protocol version 4; B2 speaks 3"),)), 0.0)
    machine.handle(ev.LinkOpened("B2", 8), 1.0)
    commands = machine.handle(ev.Received(8, (hello("B2", version=theirs),)), 1.0)
    frames = [c.parcel for c in commands if isinstance(c, do.Send) and isinstance(c.parcel, Frame)]
    assert [type(frame.message) for frame in frames] == [Marker]  # and no `Wants`, no `Inquiry`


def test_nobody_is_greeted_on_a_connection_that_came_too_late() -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    machine.handle(ev.LinkRemoved("B2", "a test"), 0.0)
    assert machine.handle(ev.LinkOpened("B2", 7), 0.0) == [do.Close(7, "no longer neighbours")]


def test_nobody_greets_twice() -> None:
    """The first session would think that it still owns a connection that answers for another."""
    machine = broker()
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    machine.handle(ev.Received(7, (Attach(PROTOCOL_VERSION, "C1", "s1", False, 0, 0),)), 0.0)
    commands = machine.handle(
        ev.Received(7, (Attach(PROTOCOL_VERSION, "C2", "s2", False, 0, 0),)), 0.0
    )
    assert any(isinstance(command, do.Close) for command in commands)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Frame(CONTROL, 2, Unsubscribe("x", "y")), "message 2 came where 1 was expected"),
        (Ack(9, 0), "9 is acknowledged, but 2 was the last"),
    ],
)
def test_a_neighbour_that_breaks_the_protocol_is_hung_up_on(message: Any, reason: str) -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    machine.handle(ev.LinkOpened("B2", 7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    why, close, *_, redial = machine.handle(ev.Received(7, (message,)), 0.0)
    assert why == do.Send(7, AttachRefused(reason))
    assert close == do.Close(7, reason)
    assert redial == do.SetTimer("dial:B2", 0.5)
    assert machine.links["B2"].connection is None


def test_a_neighbour_that_refuses_us_is_dialled_again() -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    machine.handle(ev.LinkOpened("B2", 7), 0.0)
    said = machine.handle(ev.Received(7, (AttachRefused("not you"),)), 0.0)
    assert said == [
        do.Report("warning", "link refused", "B2", "not you"),
        do.Close(7, "not you"),
        do.SetTimer("dial:B2", 0.5),
    ]


# --- connections that come and go -------------------------------------------------------------------


def test_what_was_lost_on_the_way_is_sent_again() -> None:
    federation = publisher_and_subscriber()
    federation.hold_data.add(("B2", "B3"))
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.settle()
    federation.cut("B2", "B3")
    federation.hold_data.clear()
    ids += [federation.publish("pub", a=i) for i in (4, 5)]
    federation.settle()
    assert not federation.got("sub")
    since = len(federation.said)
    federation.advance(1.0)
    assert federation.got("sub") == ids
    assert not federation.between("B2", "B3", Advertise, since=since)
    assert not federation.between("B3", "B2", Subscribe, since=since)
    assert federation.clients["sub"].duplicates == 0


def test_what_had_arrived_without_an_acknowledgement_is_passed_over() -> None:
    federation = publisher_and_subscriber(ack_delay_s=5.0)
    federation.advance(5.0)
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [id_]
    federation.cut("B2", "B3")
    federation.advance(1.0)
    federation.settle()
    assert federation.got("sub") == [id_]
    assert federation.brokers["B3"].exchange.duplicates == 0
    federation.advance(10.0)
    federation.check_quiet()


def test_control_that_was_lost_is_sent_again() -> None:
    federation = publisher_and_subscriber()
    federation.cut("B2", "B3")
    federation.severed.add(frozenset(("B2", "B3")))
    federation.unsubscribe("sub", "a > 0")
    federation.subscribe("sub", "a > 7")
    federation.advertise("pub", "b > 0")
    federation.advance(40.0)
    federation.severed.clear()
    federation.advance(40.0)
    federation.check_tables()
    assert federation.table("B1") == {"sub/2": "B2"}


@pytest.mark.parametrize("forgetful", ["B1", "B2", "B3"])
def test_both_start_from_nothing_when_one_has_lost_its_memory(forgetful: str) -> None:
    federation = publisher_and_subscriber()
    federation.client("wide", "B3")
    federation.subscribe("wide", "a > -5")
    federation.client("also", "B2")
    federation.advertise("also", "a > 3")
    federation.settle()
    federation.restart(forgetful)
    federation.check_tables()
    id_ = federation.publish("pub", a=9)
    federation.settle()
    assert federation.got("sub") == federation.got("wide") == [id_]
    federation.check_quiet()


def test_a_neighbour_that_lost_its_memory_gets_what_it_had_not_acknowledged() -> None:
    federation = publisher_and_subscriber()
    federation.hold_data.add(("B1", "B2"))
    id_ = federation.publish("pub", a=1)
    federation.settle()
    federation.hold_data.clear()
    federation.restart("B2")
    assert len(federation.between("B1", "B2", Publication)) == 2
    # B3 had not yet said again what it wants when it came; it is routed by then, or it may be lost.
    later = federation.publish("pub", a=2)
    federation.settle()
    assert federation.got("sub") in ([later], [id_, later])


def test_an_event_that_comes_a_second_time_is_known_by_its_number() -> None:
    federation = publisher_and_subscriber()
    federation.hold_data.add(("B3", "sub"))
    federation.publish("pub", a=1)
    federation.settle()
    (copy,) = federation.between("B2", "B3", Publication)
    b2 = federation.brokers["B2"]
    b2.node.flow.tell(b2.links["B3"], copy)
    federation.cut("B2", "B3")
    federation.advance(1.0)
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("sub") == ["pub:1"]
    assert federation.brokers["B3"].exchange.duplicates == 1
    assert federation.clients["sub"].duplicates == 0


def test_a_newer_connection_replaces_an_older() -> None:
    """B2 has not noticed that the old one is dead: the neighbour dials, and goes on with the new."""
    federation = publisher_and_subscriber()
    federation.cut("B1", "B2", unnoticed_by="B2")
    old = federation.brokers["B2"].links["B1"].connection
    federation.advance(1.0)
    link = federation.brokers["B2"].links["B1"]
    assert link.connection != old
    assert link.greeted
    assert old is not None
    federation.handle("B2", ev.ConnectionClosed(old, "at last"))
    assert link.greeted
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [id_]


def test_the_older_connection_is_closed_with_a_reason() -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    for connection in (7, 8):
        machine.handle(ev.ConnectionAccepted(connection), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    commands = machine.handle(ev.Received(8, (hello("B2", known="B1~1"),)), 0.0)
    assert do.Close(7, "there is a newer connection") in commands
    frame = Frame(DATA, 1, Publication("P", 1, Event({"a": 1})))
    assert machine.handle(ev.Received(7, (frame,)), 0.0) == []
    assert machine.links["B2"].channel.data.received == 0


def test_on_a_newer_connection_nobody_speaks_before_the_greetings() -> None:
    """Both have dialled: what was said on the older one does not count."""
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    machine.handle(ev.LinkOpened("B2", 8), 0.0)
    machine.handle(ev.ConnectionAccepted(9), 0.0)
    machine.handle(ev.Received(9, (Attach(PROTOCOL_VERSION, "C", "s", False, 0, 0),)), 0.0)
    advertise = Frame(CONTROL, 1, Advertise("C/1", parse_advertisement("a > 0"), "a test"))
    told = []
    for connection, parcel in ((9, advertise), (8, hello("B2", known="B1~1"))):
        commands = machine.handle(ev.Received(connection, (parcel,)), 0.0)
        told.append(
            [
                command.parcel.message.id
                for command in commands
                if isinstance(command, do.Send)
                and isinstance(command.parcel, Frame)
                and isinstance(command.parcel.message, Advertise)
            ]
        )
    assert told == [[], ["C/1"]]


def test_messages_for_a_closed_connection_are_not_heard() -> None:
    machine = broker_whose_link_was_cut()
    frame = Frame(CONTROL, 1, Unsubscribe("x", "y"))
    assert machine.handle(ev.Received(7, (frame,)), 0.0) == []
    assert machine.links["B2"].channel.control.received == 0


def test_redialling_backs_off() -> None:
    machine = broker(redial_min_s=0.5, redial_max_s=3.0)
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    delays = []
    for _ in range(5):
        (timer,) = machine.handle(ev.LinkRefused("B2", "nobody answers"), 0.0)
        assert isinstance(timer, do.SetTimer)
        assert timer.name == "dial:B2"
        delays.append(timer.delay_s)
        assert machine.handle(ev.TimerFired("dial:B2"), 0.0) == [do.OpenLink("B2")]
    assert delays == [0.5, 1.0, 2.0, 3.0, 3.0]
    # Once it has greeted, it begins from the least again.
    machine.handle(ev.LinkOpened("B2", 7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    assert machine.handle(ev.ConnectionClosed(7, "cut"), 0.0)[-1] == do.SetTimer("dial:B2", 0.5)


def test_who_is_to_be_dialled_does_not_dial() -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    commands = machine.handle(ev.ConnectionClosed(7, "cut"), 0.0)
    timers = [command.name for command in commands if isinstance(command, do.SetTimer)]
    assert timers == ["absence:B2"]


def test_adding_a_neighbour_twice_is_no_matter() -> None:
    federation = publisher_and_subscriber()
    federation.handle("B1", ev.LinkAdded("B2", dial=True))
    federation.settle()
    assert federation.table("B1") == {"sub/1": "B2"}


# --- links that come and go for good ----------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_removal_leaves_nothing(durable: bool) -> None:
    federation = publisher_and_subscriber(durable=durable)
    federation.hold_data.add(("B2", "B3"))
    federation.publish("pub", a=1)
    federation.settle()
    federation.part("B2", "B3")
    federation.settle()
    federation.check_tables()
    assert federation.table("B1") == federation.table("B2") == {}
    assert not federation.table("B3", "advertisements")
    assert ("B2", "dial:B3") not in federation.timers
    for name, neighbour in (("B2", "B3"), ("B3", "B2")):
        assert not [key for key in federation.stores[name] if neighbour in key]


def test_a_neighbour_that_had_a_standby_may_come_back_without() -> None:
    """What was known of the one before is gone, also after a restart."""
    federation = Federation(("B1", "B2"), durable=True)
    identity = federation.brokers["B2"].identity
    identity.epoch, identity.beside = 2, "elsewhere:7500"
    federation.cut("B1", "B2")
    federation.advance(1.0)
    assert federation.brokers["B1"].links["B2"].epoch == 2
    federation.part("B1", "B2")
    federation.settle()
    federation.restart("B2")  # its epoch is 0
    federation.join("B1", "B2")
    federation.settle()
    federation.restart("B1", keep_store=True)
    link = federation.brokers["B1"].links["B2"]
    assert (link.greeted, link.epoch, link.beside) == (True, 0, "")


def test_who_is_no_neighbour_any_more_is_not_dialled_again() -> None:
    federation = publisher_and_subscriber()
    federation.severed.add(frozenset(("B2", "B3")))
    federation.cut("B2", "B3")
    federation.settle()
    assert ("B2", "dial:B3") in federation.timers
    federation.part("B2", "B3")
    federation.settle()
    assert ("B2", "dial:B3") not in federation.timers


def test_a_new_link_brings_the_tables_together() -> None:
    federation = publisher_and_subscriber()
    federation.part("B2", "B3")
    federation.settle()
    federation.join("B3", "B1")
    federation.settle()
    federation.check_tables()
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert federation.got("sub") == [id_]
    assert not federation.between("B1", "B2", Publication)


def test_removing_who_is_no_neighbour_is_no_matter() -> None:
    assert broker().handle(ev.LinkRemoved("B2", "a test"), 0.0) == []


def test_an_advertisement_that_a_neighbour_says_anew_takes_the_place_of_what_it_was() -> None:
    """The same id, and other events: subscriptions to these go there."""
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=True), 0.0)
    machine.handle(ev.LinkOpened("B2", 8), 0.0)
    machine.handle(ev.Received(8, (hello("B2", known="B1~1"),)), 0.0)
    for number, text in enumerate(("a > 0", "b > 0"), 1):
        said = Advertise("P/1", parse_advertisement(text), "a test", number)
        machine.handle(ev.Received(8, (Frame(CONTROL, number, said),)), 0.0)
    (entry,) = machine.router.advertisements.values()
    assert (entry.hop.name, entry.interest) == ("B2", parse_advertisement("b > 0"))


# --- announcements are numbered ---------------------------------------------------------------------


def test_a_late_withdrawal_does_not_undo_a_newer_announcement() -> None:
    """An advertisement is covered and uncovered again while the withdrawal waits behind data."""
    federation = Federation(("B1", "B2"), advertisement_covering=True)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 5", "narrow")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.advertise("pub", "a > 1", "wide")  # withdraws the narrow one, behind data
    federation.settle()
    federation.unadvertise("pub", "wide")  # announces it again, ahead of data
    federation.settle()
    federation.hold_data.clear()
    federation.settle()
    withdrawals = federation.between("B1", "B2", Unadvertise)
    assert [m.id for m in withdrawals if isinstance(m, Unadvertise)] == ["pub/1", "pub/2"]
    assert federation.table("B2", "advertisements") == {"pub/1": "B1"}
    federation.check_tables()
    id_ = federation.publish("pub", a=9)
    federation.settle()
    assert federation.got("sub") == [id_]


def test_a_withdrawal_says_which_announcement_it_means() -> None:
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    advertisement = parse_advertisement("a > 1")
    for number in (1, 2):
        frame = Frame(CONTROL, number, Advertise("x", advertisement, "a test", number))
        machine.handle(ev.Received(7, (frame,)), 0.0)
    machine.handle(ev.Received(7, (Frame(DATA, 1, Unadvertise("x", "a test", 1)),)), 0.0)
    assert "x" in machine.router.advertisements
    machine.handle(ev.Received(7, (Frame(DATA, 2, Unadvertise("x", "a test", 2)),)), 0.0)
    assert "x" not in machine.router.advertisements


@pytest.mark.parametrize("durable", [False, True])
def test_announcements_keep_their_numbers_over_a_crash(durable: bool) -> None:
    federation = publisher_and_subscriber(durable=durable)
    federation.restart("B2", keep_store=durable)
    federation.unadvertise("pub", "a > 0")
    federation.settle()
    federation.check_tables()
    assert not federation.table("B3", "advertisements")


def test_a_rewiring_that_can_not_be_is_reported() -> None:
    federation = Federation(("B1", "B2"))
    federation.handle("B1", ev.RewiringRequested("B2", "B9", "a test"))
    (report,) = [r for who, r in federation.reports if who == "B1" and "rewiring" in r.what]
    assert (report.what, report.about) == ("rewiring refused", "B2")
    assert "B9" in report.detail


def test_an_anchor_that_has_lost_its_memory_takes_the_mover_from_the_middle_once() -> None:
    """B0, which was behind B2, is to be behind B1 from now on: B2 can't take that back."""
    machine = broker()
    machine.handle(ev.LinkAdded("B2", dial=False), 0.0)
    machine.handle(ev.ConnectionAccepted(7), 0.0)
    machine.handle(ev.Received(7, (hello("B2"),)), 0.0)
    assert "B0" not in machine.links
    forced = Rewire("unknown", "forced", ("B2", "B0", "B1"), "a test")
    links = []
    for number in (1, 2):
        machine.handle(ev.Received(7, (Frame(CONTROL, number, forced),)), 0.0)
        links.append(machine.links["B0"])
    assert links[0] is links[1]
    assert not links[0].dials


@pytest.mark.parametrize("stage", ["locked", "opening"])
def test_a_mover_gives_up_when_the_middle_has_lost_its_memory(stage: str) -> None:
    """And does not wait, nor go on with it."""
    federation = Federation(("B0", "B1"), ("B1", "B2"))
    federation.settle()
    federation.severed.add(frozenset(("B0", "B2")))
    federation.handle("B1", ev.RewiringRequested("B0", "B2", "a test"))
    mover = federation.brokers["B0"]
    while (plan := mover.rewirings.now) is None or plan.stage != stage:
        assert federation.step()
    federation.restart("B1")
    assert mover.rewirings.now is None
    assert list(mover.links) == ["B1"]


def test_a_middle_that_is_gone_before_it_hears_that_its_link_has_moved_is_not_waited_for() -> None:
    federation = Federation(("B0", "B1"), ("B1", "B2"))
    federation.settle()
    federation.handle("B1", ev.RewiringRequested("B0", "B2", "a test"))
    mover = federation.brokers["B0"]
    while (plan := mover.rewirings.now) is None or plan.stage != "switched":
        assert federation.step()
    federation.crash("B1")
    federation.start("B1")
    federation.handle("B0", ev.TimerFired("dial:B1"))
    while mover.rewirings.now is not None:
        assert federation.step()
    federation.crash("B1")
    federation.settle()
    assert sorted(mover.links) == ["B1", "B2"]
    federation.advance(PATIENCE_S)
    assert list(mover.links) == ["B2"]


def test_that_nobody_answers_is_news_only_where_a_neighbour_is_away() -> None:
    """By then it may have dialled us, or be no neighbour any more."""
    federation = Federation(("B1", "B2"))
    federation.settle()
    for name in ("B2", "B9"):
        assert federation.brokers["B1"].handle(ev.LinkRefused(name, "nobody answers"), 0.0) == []


def test_deliveries_for_a_neighbour_that_has_lost_its_memory_are_events_as_well() -> None:
    """Of stations that look after clients together: found by `partition`, seed 618, which lost eight."""
    machine = broker_whose_link_was_cut()
    link = machine.links["B2"]
    event = Publication("P", 1, Event({"a": 1}))
    for message in (event, Delivery(event, ("s",))):
        machine.node.flow.tell(link, message, 1)
    machine.handle(ev.ConnectionAccepted(8), 0.0)
    anew = replace(hello("B2", known="B1~1"), incarnation="B2~2")
    machine.handle(ev.Received(8, (anew,)), 0.0)
    waiting = [frame.message for frame in link.channel.data.outbox]
    assert waiting[:2] == [event, Delivery(event, ("s",))]
