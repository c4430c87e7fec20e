"""A subscriber moves: what comes to its old session, to the new one or to both is handed out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.config import ClientConfig
from roost.broker.messages import (
    CONTROL,
    DATA,
    HANDED_OVER,
    Attach,
    Attached,
    Delivery,
    EndSession,
    Frame,
    HandOver,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
)
from roost.broker.moving import MoveCounts
from roost.broker.names import Address
from roost.language import Event, parse_subscription
from tests.broker.journey import (
    NOTHING,
    PART,
    PATH,
    SOURCE,
    TARGET,
    TOO_LONG,
    Incident,
    Journey,
    crash,
    cut,
    hold,
    leave,
    redirect,
    request,
    restart,
    stall,
    vanish,
)
from tests.broker.kit import Edge, Federation

# --- the client alone -------------------------------------------------------------------------------

OLD, NEW = 1, 2  # connections


class Alone:
    """A client that moves from B1 to B2, and whatever a test has brokers say to it."""

    def __init__(self, **config: Any) -> None:
        self.client = Client(ClientConfig(client="C", session="s", **config))
        self.handed: list[str] = []
        self.said: list[do.Command] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self.happens(ev.AttachRequested(Address("B1")))
        self.happens(ev.LinkOpened("B1", OLD))
        self.happens(ev.Received(OLD, (Attached("s.0", False, 0, 0),)))
        self.happens(ev.SubscribeRequested("all", parse_subscription("a > 0")))
        self.hears(OLD, Redirect("B2", "a test"), CONTROL)
        self.happens(ev.LinkOpened("B2", NEW))
        self.happens(ev.Received(NEW, (Attached("s.1", False, 0, 0),)))

    def happens(self, event: Any) -> None:
        for command in self.client.handle(event, 0.0):
            if isinstance(command, do.Hand):
                self.handed.append(command.publication.id)
            self.said.append(command)

    def hears(self, connection: int, message: Any, class_: Any = DATA) -> None:
        number = self._numbers[connection, class_] = self._numbers.get((connection, class_), 0) + 1
        self.happens(ev.Received(connection, (Frame(class_, number, message),)))

    def event(self, connection: int, number: int, publisher: str = "P") -> None:
        publication = Publication(publisher, number, Event({"a": 1}))
        self.hears(connection, Delivery(publication, (f"C/{connection}",)))

    def settled(self) -> None:
        self.hears(NEW, Settled("roost:move"), CONTROL)

    def ended(self) -> None:
        self.hears(OLD, SessionEnded("all that was on the way has passed"))

    def messages(self, connection: int) -> list[Any]:
        parcels = [
            c.parcel for c in self.said if isinstance(c, do.Send) and c.connection == connection
        ]
        return [parcel.message for parcel in parcels if isinstance(parcel, Frame)]


def test_step_by_step() -> None:
    alone = Alone()
    subscribe, settle = alone.messages(NEW)
    assert isinstance(subscribe, Subscribe)
    assert settle == Settle("roost:move", "a test", ahead=True)
    assert alone.messages(OLD)[1:] == []
    alone.settled()
    assert alone.messages(OLD)[1:] == [HandOver("a test", ahead=True)]
    alone.ended()
    assert (alone.client.address, alone.client.session) == ("B2", "s.1")
    assert do.Close(OLD, "goodbye") in alone.said
    assert do.Tell("moved", "B2", "0.000000") in alone.said
    assert do.CancelTimer("move") in alone.said


def test_what_comes_both_ways_is_handed_out_once() -> None:
    alone = Alone()
    for number in (1, 2, 3):
        alone.event(OLD, number)
    for number in (2, 3, 4):
        alone.event(NEW, number)
    alone.settled()
    assert alone.handed == ["P:1", "P:2", "P:3"]
    alone.ended()
    assert alone.handed == ["P:1", "P:2", "P:3", "P:4"]
    alone.event(NEW, 5)
    assert alone.handed[-1] == "P:5"
    assert alone.client.duplicates == 2


def test_what_came_the_new_way_first_waits_for_the_old() -> None:
    """P:1 and Q:1 come the old way only; whatever is behind them came quicker."""
    alone = Alone()
    alone.event(NEW, 2)
    alone.event(NEW, 2, "Q")
    alone.settled()
    alone.event(NEW, 3)
    assert not alone.handed
    alone.event(OLD, 1, "Q")
    alone.event(OLD, 1)
    alone.event(OLD, 2)
    assert alone.handed == ["Q:1", "P:1", "P:2"]
    alone.ended()
    assert alone.handed == ["Q:1", "P:1", "P:2", "Q:2", "P:3"]


def test_what_is_held_is_not_acknowledged() -> None:
    """The broker's bound on what waits for a client holds for what waits in it, too."""
    alone = Alone()
    for number in (1, 2):
        alone.event(NEW, number)
    alone.settled()
    acks = [c.parcel for c in alone.said if isinstance(c, do.Send) and c.connection == NEW]
    assert not [ack for ack in acks if getattr(ack, "data", 0)]
    alone.ended()
    acks = [c.parcel for c in alone.said if isinstance(c, do.Send) and c.connection == NEW]
    assert [ack for ack in acks if getattr(ack, "data", 0) == 2]


def test_a_subscription_meanwhile_is_for_both_sessions() -> None:
    alone = Alone()
    alone.happens(ev.SubscribeRequested("more", parse_subscription("a > 5")))
    alone.happens(ev.UnsubscribeRequested("all"))
    kinds = [type(message).__name__ for message in alone.messages(OLD)]
    assert kinds == ["Subscribe", "Subscribe", "Unsubscribe"]
    kinds = [type(message).__name__ for message in alone.messages(NEW)]
    assert kinds == ["Subscribe", "Settle", "Subscribe", "Unsubscribe"]


def test_a_subscription_ahead_of_the_second_session_is_part_of_what_it_begins_with() -> None:
    client = Client(ClientConfig(client="C", session="s"))
    client.handle(ev.AttachRequested(Address("B1")), 0.0)
    client.handle(ev.LinkOpened("B1", OLD), 0.0)
    client.handle(ev.Received(OLD, (Attached("s.0", False, 0, 0),)), 0.0)
    redirect = Frame(CONTROL, 1, Redirect("B2", "a test"))
    client.handle(ev.Received(OLD, (redirect,)), 0.0)
    client.handle(ev.SubscribeRequested("all", parse_subscription("a > 0")), 0.0)
    client.handle(ev.LinkOpened("B2", NEW), 0.0)
    said = client.handle(ev.Received(NEW, (Attached("s.1", False, 0, 0),)), 0.0)
    kinds = [type(c.parcel.message) for c in said if isinstance(c, do.Send)]  # type: ignore[union-attr]
    assert kinds == [Subscribe, Settle]


def test_a_redirect_on_the_way_is_not_heard() -> None:
    alone = Alone()
    alone.hears(OLD, Redirect("B3", "a second thought"), CONTROL)
    alone.hears(NEW, Redirect("B3", "a second thought"), CONTROL)
    assert do.OpenLink("B3") not in alone.said
    alone.settled()
    alone.ended()
    alone.hears(NEW, Redirect("B3", "a third"), CONTROL)
    assert do.OpenLink("B3") in alone.said


def test_while_greeting_nothing_is_acknowledged() -> None:
    """It would be of the session before, which the broker has forgotten, or of none."""
    alone = Alone(ack_delay_s=0.05)
    alone.event(OLD, 1)
    alone.happens(ev.ConnectionClosed(OLD))
    alone.happens(ev.TimerFired("dial:0"))
    before = len(alone.said)
    alone.happens(ev.LinkOpened("B1", 3))
    alone.happens(ev.TimerFired("acks:0"))
    alone.happens(ev.Received(3, (Attached("s.0", False, 0, 0),)))
    alone.happens(ev.TimerFired("acks:0"))
    sent = [c for c in alone.said[before:] if isinstance(c, do.Send) and c.connection == 3]
    assert [type(command.parcel) for command in sent] == [Attach, Attach]


# --- staying ----------------------------------------------------------------------------------------


def abandoned(alone: Alone, reason: str) -> None:
    """It is where it was, the second session hears goodbye, and what was held is nobody's."""
    assert do.Tell("stays", "B2", reason) in alone.said
    assert (alone.client.address, alone.client.session) == ("B1", "s.0")
    assert not alone.client.moving
    alone.event(OLD, 1)
    alone.event(OLD, 2)
    assert alone.handed == ["P:1", "P:2"]


def test_it_takes_too_long() -> None:
    alone = Alone()
    alone.event(NEW, 2)
    alone.happens(ev.TimerFired("move"))
    abandoned(alone, TOO_LONG)
    assert alone.messages(NEW)[-1] == EndSession("C leaves")
    alone.event(NEW, 3)  # what is still on the way is nobody's
    alone.hears(NEW, SessionEnded("goodbye"))
    assert alone.handed == ["P:1", "P:2"]
    assert do.Close(NEW, "goodbye") in alone.said


def test_once_it_hands_over_it_can_take_as_long_as_it_likes() -> None:
    alone = Alone()
    alone.settled()
    alone.happens(ev.TimerFired("move"))
    assert alone.client.moving
    alone.ended()
    assert alone.client.address == "B2"


def test_the_target_refuses_to_settle() -> None:
    alone = Alone()
    alone.hears(NEW, Refused("roost:move", "too much waits for a neighbour"), CONTROL)
    abandoned(alone, "B2 says: too much waits for a neighbour")


def test_the_target_refuses_a_subscription() -> None:
    alone = Alone()
    (subscribe, _) = alone.messages(NEW)
    alone.hears(NEW, Refused(subscribe.id, "one too many"), CONTROL)
    abandoned(alone, "B2 says: one too many")
    assert not [c for c in alone.said if isinstance(c, do.Tell) and c.what == "refused"]


def test_what_the_target_refuses_is_no_obstacle_if_the_move_does_not_need_it() -> None:
    alone = Alone()
    alone.happens(ev.SettleRequested("q1"))
    alone.hears(NEW, Refused("q1", "too much waits for a neighbour"), CONTROL)
    assert do.Tell("refused", "q1", "too much waits for a neighbour") in alone.said
    alone.settled()
    alone.ended()
    assert (alone.client.address, alone.client.moving) == ("B2", False)


def test_a_subscription_that_is_refused_when_there_is_no_way_back() -> None:
    """The application hears of it, as without a move."""
    alone = Alone()
    (subscribe, _) = alone.messages(NEW)
    alone.settled()
    alone.hears(NEW, Refused(subscribe.id, "one too many"), CONTROL)
    assert do.Tell("refused", subscribe.id, "one too many") in alone.said
    alone.ended()
    assert (alone.client.address, alone.client.moving) == ("B2", False)


def test_a_question_that_was_refused_is_not_asked_again() -> None:
    alone = Alone()
    alone.happens(ev.SettleRequested("q1"))
    alone.hears(OLD, Refused("q1", "too much waits for a neighbour"), CONTROL)
    alone.hears(NEW, Settled("q1"), CONTROL)
    alone.settled()
    alone.ended()
    assert do.Tell("settled", "q1") not in alone.said
    assert sum(isinstance(m, Settle) and m.id == "q1" for m in alone.messages(NEW)) == 1


def test_the_target_ends_the_session() -> None:
    alone = Alone()
    alone.hears(NEW, SessionEnded("you are too slow"))
    abandoned(alone, "B2 has ended the session: you are too slow")


def test_the_target_has_forgotten_the_session() -> None:
    alone = Alone()
    alone.happens(ev.ConnectionClosed(NEW))
    alone.happens(ev.TimerFired("dial:1"))
    alone.happens(ev.LinkOpened("B2", 3))
    alone.happens(ev.Received(3, (Attached("s.1", False, 0, 0),)))
    abandoned(alone, "B2 has forgotten the session")


def test_the_old_broker_ends_the_session() -> None:
    """Then it is over, as it would be without a move."""
    alone = Alone()
    alone.hears(OLD, SessionEnded("you are too slow"))
    assert do.Tell("stays", "B2", "B1 has ended the session: you are too slow") in alone.said
    assert do.Tell("ended", "B1", "you are too slow") in alone.said
    assert (alone.client.state, alone.client.moving) == ("idle", False)


def test_the_old_broker_has_forgotten_the_session() -> None:
    """Before the second session has settled nobody knows what it has missed: all begins anew."""
    alone = Alone()
    alone.happens(ev.ConnectionClosed(OLD))
    alone.happens(ev.TimerFired("dial:0"))
    alone.happens(ev.LinkOpened("B1", 3))
    alone.happens(ev.Received(3, (Attached("s.0", False, 0, 0),)))
    assert do.Tell("stays", "B2", "B1 has forgotten the session") in alone.said
    alone.happens(ev.Received(3, (Attached("s.2", False, 0, 0),)))
    assert (alone.client.address, alone.client.session) == ("B1", "s.2")
    assert do.Tell("attached", "B1", "") in alone.said


def test_the_old_broker_has_forgotten_a_session_that_is_handed_over() -> None:
    """That is its end: what is held follows."""
    alone = Alone()
    alone.event(OLD, 1)
    alone.event(NEW, 2)
    alone.settled()
    alone.happens(ev.ConnectionClosed(OLD))
    alone.happens(ev.TimerFired("dial:0"))
    alone.happens(ev.LinkOpened("B1", 3))
    alone.happens(ev.Received(3, (Attached("s.0", False, 0, 0),)))
    assert (alone.client.address, alone.client.moving) == ("B2", False)
    assert alone.handed == ["P:1", "P:2"]


def test_the_old_broker_gives_a_session_up_that_is_handed_over() -> None:
    """What waited there is lost with it: unlike at an orderly end, the application hears of it."""
    for reason in ("more than 4 deliveries were waiting", HANDED_OVER):
        alone = Alone()
        alone.event(NEW, 2)
        alone.settled()
        alone.said.clear()
        alone.hears(OLD, SessionEnded(reason))
        assert (alone.client.address, alone.client.moving) == ("B2", False)
        assert alone.handed == ["P:2"]
        assert (do.Tell("attached", "B2") in alone.said) == (reason != HANDED_OVER)


@pytest.mark.parametrize("lost", [True, False])
def test_what_is_held_is_not_handed_out_to_who_wants_it_no_more(lost: bool) -> None:
    alone = Alone()
    alone.event(NEW, 1)
    alone.settled()
    alone.happens(ev.UnsubscribeRequested("all"))
    if lost:
        alone.hears(NEW, SessionEnded("you are too slow"))
        alone.happens(ev.LinkOpened("B2", 3))
        alone.happens(ev.Received(3, (Attached("s.2", False, 0, 0),)))
    alone.ended()
    assert not alone.handed


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "forgot"])
def test_the_target_is_lost_when_there_is_no_way_back(ended: bool) -> None:
    """A third session, there; the application hears that it is a new one. What was held is kept."""
    alone = Alone()
    alone.event(NEW, 1)
    alone.settled()
    if ended:
        alone.hears(NEW, SessionEnded("you are too slow"))
    else:
        alone.happens(ev.ConnectionClosed(NEW))
        alone.happens(ev.TimerFired("dial:1"))
        alone.happens(ev.LinkOpened("B2", 3))
        alone.happens(ev.Received(3, (Attached("s.1", False, 0, 0),)))
    assert alone.client.moving
    if ended:
        alone.happens(ev.LinkOpened("B2", 3))
    alone.happens(ev.Received(3, (Attached("s.2", False, 0, 0),)))
    assert do.Tell("attached", "B2", "") in alone.said
    assert [type(message) for message in alone.messages(3)] == [Subscribe]
    publication = Publication("P", 4, Event({"a": 1}))
    alone.happens(ev.Received(3, (Frame(DATA, 1, Delivery(publication, ("C/3",))),)))
    alone.ended()
    assert (alone.client.address, alone.client.session) == ("B2", "s.2")
    assert alone.handed == ["P:1", "P:4"]


def test_leaving_before_it_hands_over_is_leaving_both() -> None:
    alone = Alone()
    alone.happens(ev.LeaveRequested())
    assert do.Tell("stays", "B2", "C leaves") in alone.said
    assert alone.messages(OLD)[-1] == alone.messages(NEW)[-1] == EndSession("C leaves")


def test_leaving_when_it_hands_over_is_leaving_the_second() -> None:
    alone = Alone()
    alone.settled()
    alone.happens(ev.LeaveRequested())
    assert alone.messages(NEW)[-1] == Settle("roost:move", "a test", ahead=True)
    alone.ended()
    assert alone.messages(NEW)[-1] == EndSession("C leaves")
    assert not alone.handed


def dialling() -> Client:
    """It is at B1, and dials B2, where it is told to move."""
    client = Client(ClientConfig(client="C", session="s"))
    client.handle(ev.AttachRequested(Address("B1")), 0.0)
    client.handle(ev.LinkOpened("B1", OLD), 0.0)
    client.handle(ev.Received(OLD, (Attached("s.0", False, 0, 0),)), 0.0)
    client.handle(ev.Received(OLD, (Frame(CONTROL, 1, Redirect("B2", "a test")),)), 0.0)
    return client


def test_a_target_that_has_not_answered_is_hung_up_on_when_the_move_is_off() -> None:
    client = dialling()
    client.handle(ev.LinkOpened("B2", NEW), 0.0)
    assert do.Close(NEW, "never mind") in client.handle(ev.TimerFired("move"), 0.0)


def test_a_connection_that_came_too_late_is_closed() -> None:
    """It was dialled for a move that is off."""
    client = dialling()
    client.handle(ev.TimerFired("move"), 0.0)
    assert client.handle(ev.LinkOpened("B2", NEW), 0.0) == [do.Close(NEW, "never mind")]


def test_who_stays_can_be_told_again() -> None:
    alone = Alone()
    alone.happens(ev.TimerFired("move"))
    alone.hears(OLD, Redirect("B2", "once more"), CONTROL)
    alone.happens(ev.LinkOpened("B2", 3))
    alone.happens(ev.Received(3, (Attached("s.2", False, 0, 0),)))
    assert [type(message) for message in alone.messages(3)] == [Subscribe, Settle]
    alone.hears(NEW, SessionEnded("goodbye"))  # the first try is over by now
    alone.happens(ev.Received(3, (Frame(CONTROL, 1, Settled("roost:move")),)))
    alone.ended()
    assert (alone.client.address, alone.client.session) == ("B2", "s.2")
    assert alone.client.move_counts == MoveCounts(finished=1, migrated=0, abandoned=1)


# --- in a federation --------------------------------------------------------------------------------


CASTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no covering": {"covering": False},
    "flooding": {"routing": "flooding"},
}


def journey(cast: str = "plain", *, durable: bool = False, linger_s: float = 60.0) -> Journey:
    """S at B1, and publishers on both sides of the path and on it. SB2 wants the same as S."""
    config = CASTS[cast]
    federation = Federation(*PART, ack_delay_s=0.05, durable=durable, linger_s=linger_s, **config)
    for broker in ("B2", "B5", "B7"):
        federation.client(f"P{broker}", broker, ack_delay_s=0.05)
        federation.advertise(f"P{broker}", "a > 0")
    for name, broker in (("S", SOURCE), ("SB2", "B2")):
        federation.client(name, broker, ack_delay_s=0.05)
        federation.subscribe(name, "a > 0")
    return Journey(federation, "S")


STEPS = ("Redirect B1-S", "Settle S-B6", "Settled B6-S", "HandOver S-B1", "SessionEnded B1-S")


@pytest.mark.parametrize("cast", CASTS)
def test_undisturbed_it_arrives(cast: str) -> None:
    play = journey(cast)
    assert not play.go("never", NOTHING)
    assert tuple(play.steps) == STEPS
    assert play.client.address == TARGET
    assert play.client.duplicates > 0  # some came both ways


LINKS: tuple[Edge, ...] = (("B1", "B5"), ("B5", "B6"), ("B1", "B2"), ("S", "B1"), ("S", "B6"))
KEEPS: dict[str, Incident] = {
    **{f"{b} crashes": crash(b, keep_store=True) for b in PATH},
    **{f"{b} restarts": restart(b, keep_store=True) for b in PATH},
    **{f"{b} does not answer": stall(b, away_s=40.0) for b in PATH},
    **{f"{a}-{b} is cut for {s:g} s": cut(a, b, away_s=s) for a, b in LINKS for s in (3.0, 40.0)},
    **{f"data is stuck on {a}-{b}": hold((a, b), (b, a)) for a, b in LINKS},
    "S disappears and returns": vanish(away_s=20.0),
    "S is sent to a third broker": redirect("B7"),
    "S is sent back": redirect(SOURCE),
    "S subscribes to more": request(lambda f: f.subscribe("S", "a > -3")),
    "PB5 unadvertises": request(lambda f: f.unadvertise("PB5", "a > 0")),
    "SB2 unsubscribes": request(lambda f: f.unsubscribe("SB2", "a > 0")),
    "SB2 takes its place": request(lambda f: f.redirect("SB2", SOURCE)),
    "PB2 moves to where it was": request(lambda f: f.redirect("PB2", SOURCE)),
    "PB2 moves to where it goes": request(lambda f: f.redirect("PB2", TARGET)),
    "PB7 moves past it": request(lambda f: f.redirect("PB7", SOURCE)),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", KEEPS)
def test_a_move_is_interrupted(what: str, step: str) -> None:
    assert journey(durable=True).go(step, KEEPS[what])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", [crash, restart], ids=["stays down", "is back at once"])
@pytest.mark.parametrize("broker", PATH)
def test_a_broker_loses_its_memory(broker: str, how: Callable[..., Incident], step: str) -> None:
    assert journey().go(step, how(broker, keep_store=False))


@pytest.mark.parametrize("step", STEPS)
def test_it_disappears_until_it_is_forgotten(step: str) -> None:
    assert journey(linger_s=10.0).go(step, vanish(away_s=30.0, loses=True))


@pytest.mark.parametrize("step", STEPS)
def test_it_leaves(step: str) -> None:
    def end(journey: Journey) -> None:
        journey.federation.advance(100.0)
        for broker in journey.federation.brokers.values():
            assert "S" not in {session.client for session in broker.sessions.values()}

    assert journey().go(step, Incident(leave, end))


@given(
    cast=st.sampled_from(list(CASTS)),
    held=st.sets(st.sampled_from([(a, b) for a, b in (*PART, *((b, a) for a, b in PART))])),
    arrived=st.integers(0, 120),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=settings().max_examples // 2)
def test_in_any_order_of_arrival(cast: str, held: set[Edge], arrived: int, order: Any) -> None:
    """Whatever comes first, the old way or the new: each once, and in order."""
    play = journey(cast)
    play.go(arrived, hold(*held), iter(lambda: order.randrange(1000), None))
    assert play.client.address == TARGET


@given(
    what=st.sampled_from(list(KEEPS)),
    arrived=st.integers(0, 120),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=settings().max_examples // 2)
def test_an_interruption_in_any_order_of_arrival(what: str, arrived: int, order: Any) -> None:
    choices = iter(lambda: order.randrange(1000), None)
    journey(durable=True).go(arrived, KEEPS[what], choices)


# --- full queues ------------------------------------------------------------------------------------


def test_what_is_held_has_a_bound() -> None:
    """While the old session can't end, what waits for the new one is as much as a broker keeps."""
    federation = Federation(*PART, session_outbox_max=5, session_outbox_policy="drop")
    federation.client("P", TARGET)
    federation.advertise("P", "a > 0")
    federation.client("S", SOURCE)
    federation.subscribe("S", "a > 0")
    federation.settle()
    federation.redirect("S", TARGET)
    while not federation.between("S", SOURCE, HandOver):
        assert federation.step()
    federation.severed.add(frozenset(("B1", "B5")))
    federation.cut("B1", "B5")
    ids = [federation.publish("P", a=1) for _ in range(20)]
    federation.advance(2.0)  # it is waited for, but not for long
    move = federation.clients["S"].move
    assert move is not None
    assert len(move.target.held) == 5
    assert not federation.got("S")
    federation.severed.clear()
    federation.advance(20.0)
    assert federation.clients["S"].address == TARGET
    ids.append(federation.publish("P", a=1))
    federation.settle()
    assert federation.heard("S", "dropped")
    got = federation.got("S")
    assert got == [id_ for id_ in ids if id_ in got]
    assert got[-1] == ids[-1]
