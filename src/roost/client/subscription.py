"""A subscription, as an application reads it: `async for event in client.subscribe(...)`.

The handle that the application holds and the inbox that the client fills are two things. When the handle is
gone, because a loop over it was left, nobody can read the inbox any more, so the subscription ends by
itself; otherwise what nobody reads would in the end keep the whole client from reading.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from roost.client.arguments import check_flag, check_seconds, check_whole
from roost.client.bundle import Bundle
from roost.client.columns import as_columns, reader_of_columns
from roost.client.errors import Closed, EventsDropped, NotInTime
from roost.client.event import ReceivedEvent
from roost.client.inbox import Missing

if TYPE_CHECKING:
    from types import TracebackType

    from pyarrow import RecordBatch

    from roost.client.client import Client
    from roost.client.inbox import Inbox


class Subscription:
    """Events that match a filter, from the moment of subscribing on. `Client.subscribe` makes one.

    It is in effect at the broker before anything that this client publishes later; to know that it is in
    effect at every broker, wait for `ready`.

    >>> import asyncio, roost
    >>> async def main():
    ...     async with roost.connect("memory://") as client:
    ...         async with client.subscribe("volume > 1000") as subscription:
    ...             await subscription.ready()
    ...             for volume in (900, 1100, 1200):
    ...                 await client.publish({"volume": volume})
    ...             async for event in subscription:
    ...                 print(event["volume"])
    ...                 if event["volume"] == 1200:
    ...                     break
    >>> asyncio.run(main())
    1100
    1200
    """

    def __init__(self, client: Client, filter_: str, inbox: Inbox[Any]) -> None:
        self.filter = filter_  # in the readable syntax
        self._client = client
        self._inbox = inbox

    @property
    def waiting(self) -> int:
        """How many events are here and have not been read; at most `buffer_max`."""
        return len(self._inbox)

    @property
    def dropped(self) -> int:
        """How many events it has dropped, as it was full (`when_full="drop"`)."""
        return self._inbox.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedEvent:
        """The next event. The loop ends when the client or the subscription is closed."""
        inbox = self._inbox
        items = inbox.items
        if items and not inbox.odd and not inbox.is_full:
            event: Any = items.popleft()  # mostly it is just that
            return ReceivedEvent(event)
        if not await self._some():
            raise StopAsyncIteration
        event = inbox.pop()
        return ReceivedEvent(event)

    async def _some(self) -> bool:
        """Until there is an event; False says that there will be none any more."""
        inbox = self._inbox
        while True:
            try:
                await inbox.some()
            except EOFError:
                return False
            if not inbox.lacks_next:
                return True
            self._warn(inbox.pop())

    async def get(self, timeout_s: float | None = None) -> ReceivedEvent:
        """The next event; NotInTime if there is none in time, Closed if there will be none."""
        check_seconds("timeout_s", timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await self.__anext__()
        except TimeoutError:
            raise NotInTime(f"no event for {self.filter!r} within {timeout_s:g} s") from None
        except StopAsyncIteration:
            raise Closed(f"the subscription to {self.filter!r} is closed") from None

    async def batch(self, most: int = 1_000) -> Sequence[ReceivedEvent]:
        """All events that are here, at least one and at most so many; waits for the first.

        None at all says that there will be none any more. For whoever handles events by the hundred it is
        quicker than one at a time.
        """
        check_whole("most", most, 1)
        # What is missing behind them is a warning to be given, for the next time.
        return self._events(self._inbox.take(most)) if await self._some() else []

    @overload
    def batches(
        self, most: int = 1_000, *, arrow: Literal[False] = False
    ) -> AsyncIterator[Sequence[ReceivedEvent]]: ...
    @overload
    def batches(self, most: int = 1_000, *, arrow: Literal[True]) -> AsyncIterator[RecordBatch]: ...
    def batches(self, most: int = 1_000, *, arrow: bool = False) -> AsyncIterator[Any]:
        """All events, at most so many at a time: `async for events in subscription.batches()`.

        With `arrow` each batch is an Arrow record batch: a row an event, a column an attribute, with nulls
        where an event does not have it. A column has the type of its values: bool, int64, float64 (also
        where ints are among floats) or string, also for an attribute with values of several kinds.
        """
        check_whole("most", most, 1)
        check_flag("arrow", arrow)
        return self._columns(most) if arrow else self._batches(most)

    async def _columns(self, most: int) -> AsyncIterator[RecordBatch]:
        if not self._bundles():
            async for events in self._batches(most):
                yield as_columns([event.attributes for event in events])
            return
        read = reader_of_columns()
        while await self._some():
            yield read(self._inbox.take(most))

    async def _batches(self, most: int) -> AsyncIterator[Sequence[ReceivedEvent]]:
        self._bundles()
        while events := await self.batch(most):
            yield events

    def _bundles(self) -> bool:
        """Have events stay together from now on that come together, and say whether they do."""
        line = self._client._line
        assert line is not None
        return line.intake.bundles()

    def _events(self, parts: Sequence[Any]) -> Sequence[ReceivedEvent]:
        received: list[ReceivedEvent] = []
        for part in parts:
            events: Sequence[Any] = part.events() if type(part) is Bundle else (part,)
            received += map(ReceivedEvent, events)
        return received

    async def ready(self, timeout_s: float | None = None, *, everywhere: bool = False) -> None:
        """Until it is in place: whatever is published from now on, anywhere, comes.

        It is known then to every broker that can be reached, and waits for those that can't; what is
        published there meanwhile is kept until they are back. With `everywhere`, NotEverywhere says who
        that is.

        Refused if the broker refuses the subscription; NotInTime if it takes longer than the client's
        `timeout_s`, if no other time is given. It goes on in any case.
        """
        check_seconds("timeout_s", timeout_s)
        check_flag("everywhere", everywhere)
        await self._client._until_ready(self._inbox, timeout_s, everywhere)

    async def close(self) -> None:
        """End it; what was not read is gone."""
        self._client._unsubscribe(self._inbox)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # From any thread: the collector chooses its own.
        self._client._abandoned(self._inbox)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.filter!r}, {self.waiting} waiting>"

    def _warn(self, missing: Missing) -> None:
        if missing.by_broker:
            what = f"the broker dropped {missing.count:,} events for {self._client.name}, by its policy"
            what = f"{what} for a full queue"
        else:
            what = f"{self._inbox.title} dropped {missing.count:,} events, as {self._inbox.bound:,}"
            what = f"{what} waited to be read"
        warnings.warn(what, EventsDropped, stacklevel=4)
