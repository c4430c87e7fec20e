"""A client that reads more slowly than chunks come is served without them, before it is at its bound."""

from __future__ import annotations

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import ConnectionAccepted, Received, Started
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Attach,
    Frame,
    Publication,
    Subscribe,
)
from roost.chunks.taking import Chunks
from roost.language import Event, parse_advertisement, parse_subscription
from roost.wire import encode
from roost.wire.limits import DEFAULT_LIMITS

BOUND = 10


def events(first: int, last: int) -> bytes:
    numbers = range(first, last + 1)
    frames = (Frame(DATA, n, Publication("c", n, Event({"x": 9}))) for n in numbers)
    return b"".join(map(encode, frames))


def test_half_of_what_may_wait_for_a_client_comes_in_chunks() -> None:
    broker = Broker(BrokerConfig(broker="B", incarnation="1", session_outbox_max=BOUND))
    chunks = Chunks(broker, DEFAULT_LIMITS)
    broker.handle(Started(), 0.0)
    broker.handle(ConnectionAccepted(1), 0.0)
    attach = Attach(PROTOCOL_VERSION, "c", "s", resume=False, control_received=0, data_received=0)
    offers = Frame(CONTROL, 1, Advertise("a", parse_advertisement("x > 0"), ""))
    wants = Frame(CONTROL, 2, Subscribe("i", parse_subscription("x > 0"), ""))
    broker.handle(Received(1, (attach, offers, wants)), 0.0)
    assert chunks.take(1, events(1, 4), 0, 0.0).events == 4
    assert chunks.take(1, events(5, 8), 0, 0.0).events == 0
    broker.handle(Received(1, (Ack(0, 4),)), 0.0)
    assert chunks.take(1, events(5, 8), 0, 0.0).events == 4
