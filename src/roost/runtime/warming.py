"""Has everything that is loaded on first use loaded before the first client comes.

Compiled kernels are read from their cache when they are first called: a fifth of a second in which nobody
would be served.
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
)
from roost.language import Event, parse_advertisement, parse_subscription


def warm_up() -> None:
    """Let a broker that nobody knows do a little of everything."""
    broker = Broker(BrokerConfig(broker="nobody", incarnation="none"))
    broker.handle(Started(), 0.0)
    broker.handle(LinkAdded("nowhere", dial=False), 0.0)
    broker.handle(ConnectionAccepted(1), 0.0)
    parcels = (
        Attach(
            PROTOCOL_VERSION, "client", "session", resume=False, control_received=0, data_received=0
        ),
        Frame(CONTROL, 1, Advertise("a", parse_advertisement("class = 'A' and x > 0"), "")),
        Frame(CONTROL, 2, Subscribe("s", parse_subscription("class = 'A' and x > 1"), "")),
        Frame(CONTROL, 3, Subscribe("t", parse_subscription("x > 5 or y prefix 'b'"), "")),
        Frame(DATA, 1, Publication("client", 1, Event({"class": "A", "x": 9}))),
    )
    broker.handle(Received(1, parcels), 0.0)
