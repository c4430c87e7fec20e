"""What one peer may cost a broker, its neighbours and the other clients: so much, and no more.

Those that fail are known, and say why.
"""

from __future__ import annotations

import pytest

from roost.broker import events as ev
from roost.broker.config import BrokerConfig, UserQuotas
from roost.broker.core import Broker
from roost.broker.messages import (
    DATA,
    PROTOCOL_VERSION,
    Attach,
    Delivery,
    EndSession,
    Frame,
    LinkHello,
    Publication,
    Settle,
    Unsubscribe,
)
from roost.broker.permissions import Permission
from roost.language import Event, parse_subscription
from roost.wire import DEFAULT_LIMITS, PREFACE, StreamDecoder, codec, decode, encode
from tests.runtime.desk import Caller, Desk, deliveries

ALL = parse_subscription("*")
NOTHING = Permission("eve")
EVERYTHING = Permission("eve", ALL, ALL)
PREFIX_SIZE = 4


def test_nothing_is_heard_behind_a_greeting_that_was_refused() -> None:
    broker = Broker(BrokerConfig(broker="B0", incarnation="i"))
    broker.handle(ev.Started(), 0.0)
    broker.handle(ev.ConnectionAccepted(1), 0.0)
    greetings = [Attach(version, "eve", "eve", False, 0, 0) for version in (99, PROTOCOL_VERSION)]
    broker.handle(ev.Received(1, greetings), 0.0)
    assert broker.sessions == {}
    assert broker.node.peers.on == {}


@pytest.mark.parametrize("what", ["refused events", "settled", "farewells"])
def test_a_client_that_acknowledges_nothing_costs_so_much_and_no_more(what: str) -> None:
    """Then its session is over. That of a deaf one in the other class ends by `session_outbox_max`."""
    desk = Desk(quotas=UserQuotas(answers=100))
    me = Caller(desk, NOTHING)
    me.attach("eve")
    for sequence in range(1, 1_001):
        if what == "refused events":
            me.publish(sequence, {"class": "a"})
        elif what == "settled":
            me.say(Settle("x", ""))
        else:
            me.say(EndSession(""))
    session = desk.broker.sessions.get("eve")
    if what == "farewells":  # one answer will do
        assert session is not None
        assert len(session.channel.data.outbox) == 1
    else:
        assert session is None
        assert 100 <= len([p for p in me.heard if isinstance(p, Frame)]) <= 101


def test_bytes_that_wait_for_a_client_count_until_it_has_them() -> None:
    desk = Desk(session_outbox_bytes_max=10_000)
    me = Caller(desk, EVERYTHING)
    me.attach("eve", durable=True)
    me.subscribe("*")
    me.close()
    ann = Caller(desk, Permission("ann", ALL, ALL))
    ann.attach("ann")
    ann.advertise("*", "ann/a")
    for sequence in range(1, 101):
        event = Publication("ann", sequence, Event({"class": "a"}), bytes(500))
        ann.put(decode(encode(Frame(DATA, sequence, event))[PREFIX_SIZE:]))
        if sequence % 10 == 0:  # it comes, takes what there is, says nothing, and leaves
            me = Caller(desk, EVERYTHING)
            me.attach("eve", resume=True, durable=True)
            me.close()
    outbox = desk.broker.sessions["eve"].channel.data.outbox
    kept = [frame.message for frame in outbox if isinstance(frame.message, Delivery)]
    assert sum(len(delivery.publication.encoded) for delivery in kept) <= 10_000


@pytest.mark.parametrize("what", ["settles", "leaves"])
def test_what_a_client_calls_itself_never_parts_neighbours(what: str) -> None:
    """With a frame that the neighbour refuses, they part, and again whenever they meet: for ever."""
    desk = Desk()
    desk.handle(ev.LinkAdded("N", dial=False))
    neighbour = Caller(desk, Permission("N", link=True))
    neighbour.put(LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0))
    neighbour.advertise("class = 'a'", "n/a")
    name = "eve~".ljust(DEFAULT_LIMITS.name_length_max, "x")
    me = Caller(desk, EVERYTHING)
    me.attach(name)
    if what == "settles":
        me.say(Settle("x", ""))
    else:
        me.subscribe("*", "s")
        Caller(desk, NOTHING).attach(name)  # which forgets the session before
    for parcel in neighbour.heard:
        decode(encode(parcel)[PREFIX_SIZE:])


@pytest.mark.parametrize("what", ["settles", "subscribes and unsubscribes"])
def test_a_client_can_not_pile_up_messages_for_a_neighbour_that_is_away(what: str) -> None:
    desk = Desk(link_outbox_max=100)
    desk.handle(ev.LinkAdded("N", dial=False))
    neighbour = Caller(desk, Permission("N", link=True))
    neighbour.put(LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0))
    neighbour.advertise("class = 'a'", "n/a")
    neighbour.close()
    me = Caller(desk, EVERYTHING)
    me.attach("eve")
    for number in range(500):
        if what == "settles":
            me.say(Settle("x", ""))
        else:
            me.subscribe(f"class = 'a' and n = {number}")
            me.say(Unsubscribe("s", ""))
    lanes = desk.broker.links["N"].channel.lanes
    assert sum(len(lane.outbox) for lane in lanes) <= 200


def subscribed_often(count: int, id_length: int) -> tuple[Desk, Caller]:
    desk = Desk()
    me = Caller(desk, EVERYTHING)
    me.attach("eve")
    for number in range(count):
        me.subscribe("class = 'a'", f"eve/{number}/".ljust(id_length, "x"))
    ann = Caller(desk, Permission("ann", ALL, ALL))
    ann.attach("ann")
    ann.advertise("*", "ann/a")
    ann.publish(1, {"class": "a"})
    return desk, me


def test_a_delivery_is_a_frame_that_its_reader_takes() -> None:
    """If the ids of its subscriptions are too much for one, it comes in parts."""
    _, me = subscribed_often(1_100, DEFAULT_LIMITS.name_length_max)
    parts = deliveries(me.heard)
    assert len(parts) > 1
    assert len({part.publication.id for part in parts}) == 1
    ids = [id_ for part in parts for id_ in part.subscriptions]
    assert len(ids) == len(set(ids)) == 1_100
    StreamDecoder().feed(PREFACE + b"".join(map(encode, me.heard)))


def test_what_is_kept_of_the_ids_of_deliveries_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_ids", {})
    publication = Publication("ann", 1, Event({"class": "a"}))
    # A client with 300 subscriptions, of which an event matches these and another those.
    ids = [f"{number}/".ljust(DEFAULT_LIMITS.name_length_max, "x") for number in range(300)]
    for number in range(200):
        matched = tuple(ids[:number] + ids[number + 1 :])
        codec.delivery_head(Frame(DATA, 1, Delivery(publication, matched)), 100)
    assert sum(map(len, codec._ids.values())) < 20_000_000
