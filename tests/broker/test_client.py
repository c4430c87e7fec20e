"""The client's side of a session: what it keeps, what it says again, and what it does only once."""

from __future__ import annotations

from typing import Any

import pytest

from roost.broker import commands as do
from roost.broker import events as ev
from roost.broker.client import Client
from roost.broker.config import ClientConfig
from roost.broker.messages import (
    CONTROL,
    DATA,
    SESSION_VERSION,
    Ack,
    Attach,
    Attached,
    Delivery,
    EndSession,
    Frame,
    Publication,
    Redirect,
    SessionEnded,
    Settled,
    Subscribe,
)
from roost.broker.names import Address
from roost.language import Event, parse_subscription
from tests.broker.kit import Federation


def pair(**config: Any) -> Federation:
    """Two brokers; a publisher of a > 0 at the first and a subscriber to it at the second."""
    federation = Federation(("B1", "B2"), **config)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    return federation


def attached(**config: Any) -> Client:
    """A client alone, attached on connection 1."""
    client = Client(ClientConfig(client="C", session="s", **config))
    client.handle(ev.AttachRequested(Address("B1")), 0.0)
    client.handle(ev.LinkOpened("B1", 1), 0.0)
    client.handle(ev.Received(1, (Attached("s.0", False, 0, 0),)), 0.0)
    return client


def delivery(number: int, publisher: str = "P", *ids: str) -> Frame:
    publication = Publication(publisher, number, Event({"a": number}))
    return Frame(DATA, number, Delivery(publication, ids or ("C/1",)))


# --- attaching --------------------------------------------------------------------------------------


def test_attaching_step_by_step() -> None:
    client = Client(ClientConfig(client="C", session="s", redial_s=2.0))
    assert client.handle(ev.AttachRequested(Address("B1")), 0.0) == [do.OpenLink("B1")]
    assert client.handle(ev.LinkRefused("B1"), 0.0) == [do.SetTimer("dial:0", 2.0)]
    assert client.handle(ev.TimerFired("dial:0"), 0.0) == [do.OpenLink("B1")]
    (greeting,) = client.handle(ev.LinkOpened("B1", 1), 0.0)
    assert greeting == do.Send(1, Attach(SESSION_VERSION, "C", "s.0", False, 0, 0))
    told = client.handle(ev.Received(1, (Attached("s.0", False, 0, 0),)), 0.0)
    assert told == [do.Tell("attached", "B1")]
    assert client.state == "attached"


def test_an_application_in_a_hurry_need_not_wait_for_the_timer() -> None:
    client = Client(ClientConfig(client="C", session="s"))
    client.handle(ev.AttachRequested(Address("B1")), 0.0)
    client.handle(ev.LinkRefused("B1"), 0.0)
    assert client.handle(ev.AttachRequested(Address("B1")), 0.0) == [do.OpenLink("B1")]
    assert client.handle(ev.TimerFired("dial:0"), 0.0) == []


def test_what_is_asked_before_attaching_is_said_afterwards() -> None:
    federation = Federation(("B1", "B2"))
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0")
    federation.settle()
    federation.client("pub")
    federation.advertise("pub", "a > 0")
    early = [federation.publish("pub", a=i) for i in (1, 2)]
    assert federation.clients["pub"].pending == 3
    assert federation.clients["pub"].accepted == 0
    federation.attach("pub", "B1")
    federation.settle()
    assert not federation.heard("pub", "refused")
    assert federation.clients["pub"].accepted == 2
    assert federation.clients["pub"].pending == 0
    # The subscription had not yet come to B1, which is why they need not arrive.
    later = federation.publish("pub", a=3)
    federation.settle()
    assert federation.got("sub") in ([later], [*early, later])


def test_a_name_is_used_once() -> None:
    federation = pair()
    with pytest.raises(ValueError, match="already a subscription called"):
        federation.subscribe("sub", "a > 3", "a > 0")
    with pytest.raises(ValueError, match="already an advertisement called"):
        federation.advertise("pub", "a > 3", "a > 0")


def test_a_refusal_without_another_place_is_final_until_asked_again() -> None:
    federation = pair()
    federation.client("thief", "B2", session="sub-session")
    federation.settle()
    assert federation.state("thief") == "refused"
    assert federation.heard("thief", "refused") == [
        do.Tell("refused", "B2", "the session is somebody else's")
    ]
    federation.advance(60.0)
    assert federation.state("thief") == "refused"
    federation.attach("thief", "B1")
    federation.settle()
    assert federation.state("thief") == "attached"


# --- pausing ----------------------------------------------------------------------------------------


def test_while_paused_events_are_kept_and_then_go_out_in_order() -> None:
    federation = pair()
    first = federation.publish("pub", a=1)
    federation.handle("pub", ev.PauseRequested())
    kept = [federation.publish("pub", a=i) for i in (2, 3)]
    federation.settle()
    assert federation.got("sub") == [first]
    assert federation.clients["pub"].pending == 2
    assert federation.clients["pub"].accepted == 1
    federation.handle("pub", ev.ResumeRequested())
    last = federation.publish("pub", a=4)
    federation.settle()
    assert federation.got("sub") == [first, *kept, last]
    assert federation.clients["pub"].accepted == 4


def test_an_unadvertisement_waits_its_turn_while_paused() -> None:
    federation = pair()
    federation.handle("pub", ev.PauseRequested())
    event = federation.publish("pub", a=1)
    federation.unadvertise("pub", "a > 0")
    federation.settle()
    assert federation.table("B2", "advertisements")
    federation.handle("pub", ev.ResumeRequested())
    federation.settle()
    assert federation.got("sub") == [event]
    assert not federation.table("B2", "advertisements")


def test_what_is_kept_back_outlives_the_connection() -> None:
    federation = pair()
    federation.handle("pub", ev.PauseRequested())
    kept = [federation.publish("pub", a=i) for i in (1, 2)]
    federation.cut("pub", "B1")
    federation.advance(1.0)
    assert not federation.got("sub")
    federation.handle("pub", ev.ResumeRequested())
    federation.settle()
    assert federation.got("sub") == kept


def test_moving_does_not_end_a_pause() -> None:
    federation = pair()
    federation.handle("pub", ev.PauseRequested())
    federation.publish("pub", a=1)
    federation.redirect("pub", "B2")
    federation.settle()
    assert federation.clients["pub"].address == "B2"
    assert not federation.between("pub", "B2", Publication)
    federation.handle("pub", ev.ResumeRequested())
    federation.settle()
    assert federation.got("sub") == ["pub:1"]


# --- coming back ------------------------------------------------------------------------------------


def test_what_was_lost_on_the_way_is_sent_again_and_nothing_else() -> None:
    federation = pair()
    federation.hold_data.add(("pub", "B1"))
    first = federation.publish("pub", a=1)
    federation.settle()
    federation.cut("pub", "B1")
    federation.hold_data.clear()
    second = federation.publish("pub", a=2)
    since = len(federation.said)
    federation.advance(1.0)
    assert federation.got("sub") == [first, second]
    said = [type(m) for m in federation.between("pub", "B1", since=since)]
    assert said == [Publication, Publication]
    assert [tell.reason for tell in federation.heard("pub", "attached")] == ["", "resumed"]
    assert len(federation.heard("pub", "detached")) == 1


def test_deliveries_that_were_missed_come_after_the_return() -> None:
    federation = pair()
    federation.cut("sub", "B2")
    federation.severed.add(frozenset(("sub", "B2")))
    ids = [federation.publish("pub", a=i) for i in (1, 2, 3)]
    federation.advance(5.0)
    assert not federation.got("sub")
    federation.severed.clear()
    federation.advance(1.0)
    assert federation.got("sub") == ids


def test_requests_made_while_away_are_carried_out_on_return() -> None:
    federation = pair()
    federation.cut("sub", "B2")
    federation.unsubscribe("sub", "a > 0")
    federation.subscribe("sub", "a > 5")
    federation.advance(1.0)
    federation.check_tables()
    assert federation.table("B2") == {"sub/2": "sub"}


# --- a broker that has forgotten --------------------------------------------------------------------


def test_a_broker_that_forgot_is_told_everything_again() -> None:
    federation = pair()
    federation.restart("B2")
    federation.check_tables()
    (tell,) = federation.heard("sub", "attached")[1:]
    assert tell.reason == ""
    (again,) = [
        m for m in federation.between("sub", "B2", Subscribe)[1:] if isinstance(m, Subscribe)
    ]
    assert again.id == "sub/2"
    assert again.cause == "sub begins anew"
    id_ = federation.publish("pub", a=1)
    federation.settle()
    assert [(h.id, h.names) for h in federation.handed["sub"]] == [(id_, ("a > 0",))]


def test_what_was_not_accepted_is_published_again() -> None:
    federation = pair()
    federation.hold_data.add(("pub", "B1"))
    events = [federation.publish("pub", a=i) for i in (1, 2)]
    federation.settle()
    federation.crash("B1")
    federation.hold_data.clear()
    federation.start("B1")
    federation.advance(1.0)
    assert not federation.heard("pub", "refused")
    assert federation.clients["pub"].accepted == 2
    later = federation.publish("pub", a=3)
    federation.settle()
    assert federation.got("sub") in ([later], [*events, later])
    federation.check_quiet()


def test_an_unadvertisement_that_was_on_the_way_is_said_again_behind_its_events() -> None:
    """The events before it still need their advertisement."""
    federation = pair()
    federation.hold_data.add(("pub", "B1"))
    federation.publish("pub", a=1)
    federation.unadvertise("pub", "a > 0")
    federation.settle()
    federation.crash("B1")
    federation.hold_data.clear()
    federation.start("B1")
    federation.advance(1.0)
    assert not federation.heard("pub", "refused")
    assert not federation.table("B1", "advertisements")
    assert not federation.table("B2", "advertisements")
    federation.check_quiet()


def test_an_unadvertisement_that_was_kept_back_still_covers_the_events_before_it() -> None:
    federation = pair()
    federation.handle("pub", ev.PauseRequested())
    federation.publish("pub", a=1)
    federation.unadvertise("pub", "a > 0")
    federation.restart("B1")
    federation.handle("pub", ev.ResumeRequested())
    federation.settle()
    assert not federation.heard("pub", "refused")
    assert not federation.table("B1", "advertisements")


@pytest.mark.parametrize("client", ["pub", "sub"])
def test_the_answer_of_a_broker_that_forgot_may_be_lost(client: str) -> None:
    """The client asks to resume again: what the broker has by now is not the session that it means."""
    federation = pair()
    federation.publish("pub", a=1)
    federation.settle()
    broker = federation.clients[client].address
    federation.crash(broker)
    federation.start(broker)
    federation.settle()
    federation.handle(client, ev.TimerFired("dial:0"))
    while not federation.brokers[broker].sessions:
        assert federation.step()
    federation.cut(client, broker)  # `Attached` is on the way
    federation.advance(5.0)
    assert federation.clients[client].state == "attached"
    federation.check_tables()


# --- hearing ----------------------------------------------------------------------------------------


def test_an_event_that_comes_twice_is_handed_over_once() -> None:
    client = attached()
    client.handle(ev.SubscribeRequested("all", parse_subscription("a > 0")), 0.0)
    client.handle(ev.Received(1, (delivery(1),)), 0.0)
    again = Frame(DATA, 2, delivery(1).message)
    commands = client.handle(ev.Received(1, (again,)), 0.0)
    assert not [c for c in commands if isinstance(c, do.Hand)]
    assert client.duplicates == 1


def test_what_comes_behind_a_frame_that_comes_twice_is_handed_over() -> None:
    client = attached()
    client.handle(ev.SubscribeRequested("all", parse_subscription("a > 0")), 0.0)
    commands = client.handle(ev.Received(1, (delivery(1), delivery(1), delivery(2))), 0.0)
    assert [c.publication.id for c in commands if isinstance(c, do.Hand)] == ["P:1", "P:2"]


def test_what_is_no_longer_wanted_is_not_handed_over() -> None:
    client = attached()
    client.handle(ev.SubscribeRequested("all", parse_subscription("a > 0")), 0.0)
    client.handle(ev.UnsubscribeRequested("all"), 0.0)
    commands = client.handle(ev.Received(1, (delivery(1),)), 0.0)
    assert not [c for c in commands if isinstance(c, do.Hand)]
    assert do.Send(1, Ack(0, 1)) in commands


def test_acknowledgements_may_be_put_off() -> None:
    client = attached(ack_every=3, ack_delay_s=1.0)
    assert client.handle(ev.Received(1, (delivery(1),)), 0.0)[-1] == do.SetTimer("acks:0", 1.0)
    assert not client.handle(ev.Received(1, (delivery(2),)), 0.0)
    assert client.handle(ev.Received(1, (delivery(3),)), 0.0)[-1] == do.Send(1, Ack(0, 3))
    client.handle(ev.Received(1, (delivery(4),)), 0.0)
    assert client.handle(ev.TimerFired("acks:0"), 0.0) == [do.Send(1, Ack(0, 4))]


def test_the_short_way_is_for_the_next_delivery_until_an_acknowledgement_is_due() -> None:
    client = attached(ack_every=4, ack_delay_s=1.0)
    client.handle(ev.SubscribeRequested("all", parse_subscription("a > 0")), 0.0)
    settled = tuple(Frame(CONTROL, number, Settled("q")) for number in (1, 2, 3))
    client.handle(ev.Received(1, settled), 0.0)
    client.handle(ev.TimerFired("acks:0"), 0.0)  # they are acknowledged
    client.handle(ev.Received(1, (delivery(1),)), 0.0)
    assert client.take(1, delivery(1)) is None  # it has been here before
    assert client.take(1, delivery(3)) is None  # one is missing
    assert client.take(9, delivery(2)) is None  # of another connection
    assert [client.take(1, delivery(number)) for number in (2, 3)] == [("all",), ("all",)]
    assert client.take(1, delivery(4)) is None
    assert client.handle(ev.Received(1, (delivery(4),)), 0.0)[-1] == do.Send(1, Ack(3, 4))


@pytest.mark.parametrize("parcel", [Ack(5, 5), delivery(3), Attach(1, "C", "s", False, 0, 0)])
def test_a_broker_that_breaks_the_protocol_is_hung_up_on(parcel: Any) -> None:
    client = attached()
    close, timer = client.handle(ev.Received(1, (parcel,)), 0.0)
    assert isinstance(close, do.Close)
    assert timer == do.SetTimer("dial:0", 0.5)
    assert client.state == "waiting"


def test_an_old_connection_is_not_heard() -> None:
    client = attached()
    assert client.handle(ev.Received(9, (delivery(1),)), 0.0) == []
    assert client.handle(ev.ConnectionClosed(9), 0.0) == []
    assert client.state == "attached"


def test_an_acknowledgement_behind_the_end_of_a_session_is_not_for_the_next() -> None:
    """The event that it would take for accepted would be lost."""
    client = attached()
    client.handle(ev.PublishRequested(Event({"a": 1})), 0.0)
    end = Frame(DATA, 1, SessionEnded("you are too slow"))
    client.handle(ev.Received(1, (end, Ack(0, 1))), 0.0)
    assert client.accepted == 0
    assert client.pending == 1


def test_an_acknowledgement_behind_the_end_of_a_move_is_not_for_the_next_session() -> None:
    """It acknowledges the goodbye; the event that goes to the new broker would be lost."""
    client = attached()
    redirect = Frame(CONTROL, 1, Redirect("B2", "a test"))
    assert do.OpenLink("B2") in client.handle(ev.Received(1, (redirect,)), 0.0)
    client.handle(ev.LinkOpened("B2", 2), 0.0)
    said = client.handle(ev.Received(2, (Attached("s.1", False, 0, 0),)), 0.0)
    assert do.Send(1, Frame(DATA, 1, EndSession("a test"))) in said
    client.handle(ev.PublishRequested(Event({"a": 1})), 0.0)
    end = Frame(DATA, 1, SessionEnded("goodbye"))
    client.handle(ev.Received(1, (end, Ack(0, 1))), 0.0)
    assert (client.address, client.moving) == ("B2", False)
    assert client.accepted == 0
    assert client.pending == 2  # the event, and that it has arrived


def test_what_is_published_first_while_a_client_says_goodbye_goes_to_the_new_broker() -> None:
    """There is nothing at the old one that it could overtake, and nobody there who would take it."""
    federation = Federation(("B1", "B2"), routing="flooding")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0")
    federation.client("pub", "B1")
    federation.settle()
    federation.hold_data.add(("pub", "B1"))
    federation.redirect("pub", "B2")
    federation.settle()
    assert federation.between("pub", "B1", EndSession)
    ids = [federation.publish("pub", a=i) for i in (1, 2)]
    federation.settle()
    assert federation.got("sub") == ids
    federation.hold_data.clear()
    federation.settle()
    ids.append(federation.publish("pub", a=3))
    federation.settle()
    assert federation.got("sub") == ids
    assert not federation.between("pub", "B1", Publication)
    federation.check_quiet()


# --- leaving ----------------------------------------------------------------------------------------


def test_leaving_behind_the_last_event() -> None:
    federation = pair()
    ids = [federation.publish("pub", a=i) for i in (1, 2)]
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    assert federation.got("sub") == ids
    assert federation.clients["pub"].state == "idle"
    assert federation.heard("pub", "ended") == [do.Tell("ended", "B1", "goodbye")]
    assert not federation.brokers["B1"].sessions
    assert not federation.table("B2", "advertisements")
    assert ("B1", "linger:pub-session.0") not in federation.timers


def test_leaving_ends_a_pause() -> None:
    federation = pair()
    federation.handle("pub", ev.PauseRequested())
    event = federation.publish("pub", a=1)
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    assert federation.got("sub") == [event]


def test_nothing_is_handed_over_after_leaving() -> None:
    federation = pair()
    federation.publish("pub", a=1)
    federation.handle("sub", ev.LeaveRequested())
    federation.settle()
    assert not federation.got("sub")


@pytest.mark.parametrize("keep", [True, False])
def test_leaving_while_away(keep: bool) -> None:
    federation = pair(durable=keep)
    federation.crash("B1", keep_store=keep)
    event = federation.publish("pub", a=1)
    federation.handle("pub", ev.LeaveRequested())
    federation.start("B1")
    federation.advance(2.0)
    assert federation.clients["pub"].state == "idle"
    assert federation.got("sub") == ([event] if keep else federation.got("sub"))
    assert not federation.brokers["B1"].sessions
    assert not federation.table("B2", "advertisements")


def test_leaving_when_the_broker_that_had_heard_it_forgets() -> None:
    federation = pair()
    federation.hold_data.add(("B1", "pub"))
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    federation.crash("B1")
    federation.hold_data.clear()
    federation.start("B1")
    federation.advance(2.0)
    assert federation.clients["pub"].state == "idle"
    assert len(federation.between("pub", "B1", EndSession)) == 2
    assert not federation.brokers["B1"].sessions


def test_leaving_while_moving() -> None:
    """What was published meanwhile still goes out, at the new broker."""
    federation = pair()
    federation.publish("pub", a=1)
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.redirect("pub", "B2")
    federation.settle()
    assert federation.clients["pub"].moving
    event = federation.publish("pub", a=2)
    federation.handle("pub", ev.LeaveRequested())
    federation.settle()
    federation.hold_data.clear()
    federation.settle()
    assert federation.got("sub") == ["pub:1", event]
    assert federation.clients["pub"].state == "idle"
    assert not any(b.sessions.keys() - {"sub-session.0"} for b in federation.brokers.values())
    assert not federation.table("B1", "advertisements")


def test_an_event_for_more_subscriptions_than_fit_into_a_frame_comes_in_parts() -> None:
    """Each of them gets it once, and it is one event."""
    federation = Federation(("B1", "B2"), delivery_ids_bytes_max=120)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B2")
    names = [f"number {i}" for i in range(40)]
    for name in names:
        federation.subscribe("sub", "a > 0", name)
    federation.settle()
    ids = [federation.publish("pub", a=i) for i in (1, 2)]
    federation.settle()
    for id_ in ids:
        handed = [h for h in federation.handed["sub"] if h.id == id_]
        assert len(handed) > 1
        assert sorted(name for h in handed for name in h.names) == sorted(names)
    assert federation.clients["sub"].duplicates == 0
    # What comes a second time is still known by its number, whichever part it is.
    federation.cut("sub", "B2")
    federation.advance(10.0)
    federation.settle()
    assert len([h for h in federation.handed["sub"] if h.id == ids[0]]) == len(
        [h for h in federation.handed["sub"] if h.id == ids[1]]
    )
