"""A broker that nobody knows does a little of everything, so that all compiled code is there when it counts.

Kernels are compiled when they are first called, once a machine, or else read from disk.
"""

from __future__ import annotations

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import ConnectionAccepted, LinkAdded, Received, Started
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Advertise,
    Attach,
    Frame,
    Publication,
    Subscribe,
    Unsubscribe,
)
from roost.chunks.taking import Chunks
from roost.language import Event, parse_advertisement, parse_subscription
from roost.wire import encode
from roost.wire.limits import DEFAULT_LIMITS

# More words than a table begins with.
WORDS = 40


def rehearse() -> None:
    broker = Broker(BrokerConfig(broker="nobody", incarnation="none"))
    chunks = Chunks(broker, DEFAULT_LIMITS)
    broker.handle(Started(), 0.0)
    broker.handle(ConnectionAccepted(1), 0.0)
    greeting = Attach(
        PROTOCOL_VERSION, "client", "session", resume=False, control_received=0, data_received=0
    )
    wishes = ["class = 'A' and x > 1", "x > 5 or y prefix 'b'"]
    wishes += [f"class = 'B{number}'" for number in range(WORDS)]
    messages = [
        Advertise("a", parse_advertisement("class = 'A' and x > 0"), ""),
        *(Subscribe(f"s{n}", parse_subscription(text), "") for n, text in enumerate(wishes)),
        Unsubscribe(f"s{len(wishes) - 1}", ""),
    ]
    frames = [Frame(CONTROL, number, message) for number, message in enumerate(messages, 1)]
    first, second = (
        Frame(DATA, number, Publication("client", number, Event({"class": "A", "x": 9, "y": "b"})))
        for number in (1, 2)
    )
    broker.handle(Received(1, (greeting, *frames, first)), 0.0)
    chunks.take(1, encode(second), 0, 0.0)
    broker.handle(LinkAdded("nowhere", dial=False), 0.0)
