"""The client library: publish and subscribe from an application.

    import roost

    async with roost.connect("roost://broker.example:7411") as client:
        await client.publish({"class": "STOCK", "symbol": "YHOO", "volume": 400_000})
        async for event in client.subscribe("class = 'STOCK' and volume > 300000"):
            print(event["symbol"], event["volume"])

`connect_sync` is the same without asyncio. See `Client` for all that a client can do, `errors` for what can
go wrong, and `url` for where to connect.
"""

from roost.client.client import Client, State
from roost.client.connecting import connect, connect_sync
from roost.client.dialling import Tls
from roost.client.durable import DurableSubscription
from roost.client.errors import (
    ClientError,
    Closed,
    ConnectError,
    EventsDropped,
    Gap,
    InsecureConnection,
    NeverMatches,
    NotEverywhere,
    NotInTime,
    Overrun,
    Refused,
    SessionOver,
    Stalled,
    Unreachable,
)
from roost.client.event import DurableEvent, ReceivedEvent, SyncEvent
from roost.client.inbox import WhenFull
from roost.client.outbox import Outbox
from roost.client.polling import close_queue, open_queue, poll
from roost.client.publishing import Advertised
from roost.client.subscription import Subscription
from roost.client.sync import SyncAdvertised, SyncClient, SyncOutbox, SyncSubscription
from roost.client.url import BadUrl

__all__ = [
    "Advertised",
    "BadUrl",
    "Client",
    "ClientError",
    "Closed",
    "ConnectError",
    "DurableEvent",
    "DurableSubscription",
    "EventsDropped",
    "Gap",
    "InsecureConnection",
    "NeverMatches",
    "NotEverywhere",
    "NotInTime",
    "Outbox",
    "Overrun",
    "ReceivedEvent",
    "Refused",
    "SessionOver",
    "Stalled",
    "State",
    "Subscription",
    "SyncAdvertised",
    "SyncClient",
    "SyncEvent",
    "SyncOutbox",
    "SyncSubscription",
    "Tls",
    "Unreachable",
    "WhenFull",
    "close_queue",
    "connect",
    "connect_sync",
    "open_queue",
    "poll",
]
