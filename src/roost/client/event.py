"""An event as a subscriber gets it.

What can be read of it is the same for all (`EventView`). How to say that it has been dealt with differs:
with or without asyncio, and with anything to say at all only for durable subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, overload

from msgspec import Struct

from roost.client.arguments import check_text

if TYPE_CHECKING:
    from typing import TypeVar

    from roost.broker.messages import Publication
    from roost.client.durable import DurableSession
    from roost.language import Value

    T = TypeVar("T")


class EventView(Struct, eq=False, gc=False):
    """An event that a subscription asked for: its attributes by name, and what came along with them.

    >>> import asyncio, roost
    >>> async def main():
    ...     async with roost.connect("memory://") as client:
    ...         subscription = client.subscribe("volume > 300000")
    ...         await client.publish({"symbol": "YHOO", "volume": 400_000}, b"chart", headers={"v": "2"})
    ...         event = await subscription.get()
    ...         print(event["symbol"], event.get("price", 0.0), event.payload, event.headers)
    >>> asyncio.run(main())
    YHOO 0.0 b'chart' {'v': '2'}
    """

    _publication: Publication  # or what has the same of one (`arriving.Arrived`)

    def __getitem__(self, name: str) -> Value:
        return self._publication.event.attributes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._publication.event.attributes

    def __iter__(self) -> Iterator[str]:
        """The names of its attributes."""
        return iter(self._publication.event.attributes)

    def __len__(self) -> int:
        return len(self._publication.event.attributes)

    @overload
    def get(self, name: str) -> Value | None: ...
    @overload
    def get(self, name: str, default: T) -> Value | T: ...
    def get(self, name: str, default: object = None) -> object:
        """An attribute, or the default if it is not there."""
        if name.__class__ is not str:
            check_text("name", name, optional=False)
        return self._publication.event.attributes.get(name, default)

    @property
    def attributes(self) -> dict[str, Value]:
        """All attributes by name. The event is everybody's who gets it: copy before changing it."""
        return self._publication.event.attributes

    @property
    def payload(self) -> bytes:
        """What the publisher sent along, which brokers don't look into."""
        return self._publication.payload

    @property
    def content_type(self) -> str:
        """What the payload is, in the publisher's words; "" if it didn't say."""
        return self._publication.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        """More that the publisher sent along."""
        return self._publication.headers

    @property
    def id(self) -> str:
        """No other event has it: the publisher and its number there."""
        return self._publication.id

    @property
    def publisher(self) -> str:
        """The name of the client that published it."""
        return self._publication.publisher

    @property
    def sequence(self) -> int:
        """Its number among the events of its publisher, from 1."""
        return self._publication.sequence

    @property
    def published_at(self) -> float:
        """When, by the publisher's clock, in seconds since 1970."""
        return self._publication.published_at

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.attributes!r}>"


class ReceivedEvent(EventView, eq=False, gc=False):
    """An event of a subscription."""

    async def ack(self) -> None:
        """Nothing to do: only those of durable subscriptions wait for it (`DurableEvent`)."""


class DurableEvent(ReceivedEvent, eq=False, gc=True):
    """An event of a durable subscription: it comes again unless it is acknowledged.

    Events may be acknowledged in any order. What was not acknowledged comes again, in order, and no other,
    when this process opens the subscription again or another one does.
    """

    _session: DurableSession
    _epoch: int  # numbers begin again when a broker has forgotten the session
    _number: int

    @property
    def number(self) -> int:
        """Its number among all that came for the subscription, rising. It keeps it when it comes again."""
        return self._number

    @property
    def life(self) -> int:
        """How often the broker has forgotten the subscription since it was opened: numbers began again."""
        return self._epoch - 1

    async def ack(self) -> None:
        """We are done with it. The broker is told within a moment, together with others."""
        self._ack()

    def _ack(self) -> None:
        self._session.ack(self._epoch, self._number)


class SyncEvent(EventView, eq=False, gc=True):
    """An event of a subscription that is read without asyncio."""

    _received: ReceivedEvent

    @property
    def number(self) -> int:
        """Of a durable subscription: see `DurableEvent`. Else 0."""
        return self._received.number if isinstance(self._received, DurableEvent) else 0

    @property
    def life(self) -> int:
        """Of a durable subscription: see `DurableEvent`. Else 0."""
        return self._received.life if isinstance(self._received, DurableEvent) else 0

    def ack(self) -> None:
        """Of a durable subscription: we are done with it. From any thread."""
        if isinstance(self._received, DurableEvent):
            loop = self._received._session.line.loop
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._received._ack)
