"""The client for programs without asyncio: the same client, at work in a thread.

All such clients of a process share one thread with an event loop, which comes with the first of them and
goes with the last. Their methods may be called from any thread, and wait; Ctrl-C ends the wait.

A call into another thread and back costs as much as ten events. So publishing only puts the event into a
queue that the other thread empties (`feeding`), and reading fetches as many as there are.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, overload

from roost.client.arguments import check_flag, check_kind, check_seconds, check_whole
from roost.client.client import Client, State
from roost.client.columns import Columns, as_columns, is_columns, rows_of
from roost.client.durable import DurableSubscription
from roost.client.errors import ClientError, Closed, Gap, NotInTime, Refused
from roost.client.event import DurableEvent, SyncEvent
from roost.client.feeding import Feed
from roost.client.inbox import WhenFull
from roost.client.line import HASTE_S
from roost.client.outbox import Outbox
from roost.client.outgoing import Checked
from roost.client.publishing import Advertised
from roost.client.subscription import Subscription
from roost.event_loop import new_event_loop
from roost.language import Advertisement, Filter, Value
from roost.language import Subscription as Interest

if TYPE_CHECKING:
    from types import TracebackType

    from pyarrow import RecordBatch

T = TypeVar("T")

BATCH_MAX = 1_000


class LoopThread:
    """An event loop in a thread, as long as somebody needs it."""

    _lock = threading.Lock()
    _running: LoopThread | None = None

    @classmethod
    def acquire(cls) -> LoopThread:
        """The one that all share."""
        with cls._lock:
            if cls._running is None:
                cls._running = cls()
            cls._running._users += 1
            return cls._running

    def __init__(self) -> None:
        self._users = 0
        self.loop = new_event_loop()
        # A daemon: a client that somebody forgot to close doesn't keep the process from ending.
        self.thread = threading.Thread(target=self._run, name="roost-client", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def release(self) -> None:
        with LoopThread._lock:
            self._users -= 1
            if self._users:
                return
            LoopThread._running = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done there, and wait for it."""
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("on_state can't wait for the client that calls it")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, too: nobody waits for it any more
            future.cancel()
            raise


class SyncSubscription:
    """A subscription, to be read with `for`; see `Subscription` and `DurableSubscription`."""

    def __init__(self, thread: LoopThread, subscription: Subscription, *, auto_ack: bool) -> None:
        self.filter = subscription.filter
        self._thread = thread
        self._subscription = subscription
        self._auto_ack = auto_ack
        self._last: SyncEvent | None = None
        self._events: deque[SyncEvent] = deque()
        self._lock = threading.Lock()  # of reading

    def __iter__(self) -> Iterator[SyncEvent]:
        return self

    def __next__(self) -> SyncEvent:
        """The next event. The loop ends when the client or the subscription is closed."""
        event = self._next(None)
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout_s: float | None = None) -> SyncEvent:
        """The next event; NotInTime if there is none in time, Closed if there will be none."""
        check_seconds("timeout_s", timeout_s)
        event = self._next(timeout_s)
        if event is None:
            raise Closed(f"the subscription to {self.filter!r} is closed")
        return event

    def batch(self, most: int = BATCH_MAX, timeout_s: float | None = None) -> list[SyncEvent]:
        """All events that are here, at least one and at most so many; see `Subscription.batch`.

        NotInTime if there is none in time. Nothing is acknowledged by itself.
        """
        check_whole("most", most, 1)
        check_seconds("timeout_s", timeout_s)
        with self._lock:
            if not self._events:
                received = self._thread.run(self._batch(timeout_s))
                self._events.extend(SyncEvent(each._publication, each) for each in received)
            return [self._events.popleft() for _ in range(min(most, len(self._events)))]

    @overload
    def batches(
        self, most: int = BATCH_MAX, *, arrow: Literal[False] = False
    ) -> Iterator[list[SyncEvent]]: ...
    @overload
    def batches(self, most: int = BATCH_MAX, *, arrow: Literal[True]) -> Iterator[RecordBatch]: ...
    def batches(self, most: int = BATCH_MAX, *, arrow: bool = False) -> Iterator[Any]:
        """All events, at most so many at a time; see `Subscription.batches`."""
        check_whole("most", most, 1)
        check_flag("arrow", arrow)
        batches = iter(lambda: self.batch(most), [])
        if arrow:
            return (as_columns([event.attributes for event in events]) for events in batches)
        return batches

    def ack(self, events: Iterable[SyncEvent]) -> None:
        """Of a durable subscription: we are done with all of these. One call, however many."""
        check_kind("events", events, (Iterable,), "events of the subscription")
        events = list(events)
        for event in events:
            check_kind("events", event, (SyncEvent,), "events of the subscription")
        received = [event._received for event in events]

        def ack() -> None:
            for event in received:
                if isinstance(event, DurableEvent):
                    event._ack()

        if received and not self._thread.loop.is_closed():
            self._thread.loop.call_soon_threadsafe(ack)

    def _next(self, timeout_s: float | None) -> SyncEvent | None:
        with self._lock:
            if self._last is not None:
                self._last.ack()
                self._last = None
            if not self._events:
                received = self._thread.run(self._batch(timeout_s))
                self._events.extend(SyncEvent(each._publication, each) for each in received)
            event = self._events.popleft() if self._events else None
            if self._auto_ack:
                self._last = event
            return event

    async def _batch(self, timeout_s: float | None) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._subscription.batch(BATCH_MAX)
        except TimeoutError:
            raise NotInTime(f"no event for {self.filter!r} within {timeout_s:g} s") from None

    def ready(self, timeout_s: float | None = None, *, everywhere: bool = False) -> None:
        """Until it is in place; see `Subscription.ready`."""
        self._thread.run(self._subscription.ready(timeout_s, everywhere=everywhere))

    def close(self) -> None:
        """End it; a durable one is only detached."""
        self._thread.run(self._subscription.close())
        self._events.clear()

    def forget(self) -> None:
        """End a durable one for good."""
        if not isinstance(self._subscription, DurableSubscription):
            raise TypeError("only a durable subscription can be forgotten; others can be closed")
        self._thread.run(self._subscription.forget())

    def __enter__(self) -> Self:
        self._thread.run(self._subscription.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class SyncAdvertised:
    """An advertisement of this client; see `Advertised`."""

    def __init__(self, thread: LoopThread, advertised: Advertised) -> None:
        self.filter = advertised.filter
        self._thread = thread
        self._advertised = advertised

    def withdraw(self) -> None:
        """No event like this will be published any more."""
        self._thread.run(self._advertised.withdraw())


class SyncOutbox:
    """Events of a log, each published once, by whichever process; see `Outbox`.

    What goes wrong with an event is raised by the next `publish`, by `flush` or `close`.

    >>> import roost
    >>> with roost.connect_sync("memory://") as client:
    ...     with client.outbox("orders") as outbox:
    ...         print(outbox.publish(1, {"line": "first"}), outbox.publish(2, {"line": "second"}))
    ...     outbox = client.outbox("orders")
    ...     print(outbox.open(), outbox.publish(2, {"line": "second"}))
    True True
    2 False
    """

    def __init__(self, thread: LoopThread, outbox: Outbox) -> None:
        self.name = outbox.name
        self._thread = thread
        self._outbox = outbox
        self._feed = Feed(outbox._publish)
        self._lock = threading.Lock()  # of publishing
        self._last: int | None = None  # that was put into the queue; None until it is open

    def open(self) -> int:
        """Take it over from the process before, or begin it; the number of the last event."""
        with self._lock:
            if self._last is None:
                self._last = self._thread.run(self._outbox.open())
            return self._last

    @property
    def is_new(self) -> bool:
        """See `Outbox.is_new`."""
        return self._outbox.is_new

    @property
    def last(self) -> int:
        """The number of the last event, whoever published it. The next one has the next number."""
        return self._last or 0

    @property
    def accepted(self) -> int:
        """The number of the last event that the broker has acknowledged."""

        async def accepted() -> int:
            return self._outbox.accepted

        return self._thread.run(accepted())

    @property
    def publisher(self) -> str:
        """See `Outbox.publisher`."""
        return self._outbox.publisher

    def publish(
        self,
        number: int,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        *,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> bool:
        """Publish the event of this number; False if it was published before. See `Outbox.publish`."""
        check_whole("number", number, 1)
        outbox = self._outbox
        with self._lock:
            outbox._opened()
            last = self.last
            if number <= last:
                return False
            if number != last + 1:
                raise Gap(outbox.publisher, number, last + 1)
            checked = outbox._outgoing.check(attributes, payload, content_type, headers)
            self._feed.put((number, checked), self._thread.loop)
            self._last = number
        return True

    def flush(self, timeout_s: float | None = None) -> None:
        """Until the broker has accepted all events; see `Outbox.flush`."""
        check_seconds("timeout_s", timeout_s)
        self._thread.run(self._flush(timeout_s))

    async def _flush(self, timeout_s: float | None) -> None:
        await self._feed.until_drained()
        self._feed.raise_trouble()
        await self._outbox.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, and leave it to the next process; see `Outbox.close`."""
        check_seconds("timeout_s", timeout_s)
        self._thread.run(self._close(timeout_s))

    async def _close(self, timeout_s: float | None) -> None:
        within_s = self._outbox._options.timeout_s if timeout_s is None else timeout_s
        left = await self._feed.stop(within_s)
        await self._outbox.close(timeout_s)
        self._feed.raise_trouble()
        if left:
            raise NotInTime(f"{left:,} events of the outbox {self.name!r} were not sent in time")

    def forget(self) -> None:
        """End it for good; see `Outbox.forget`."""
        self.open()
        self._thread.run(self._forget())

    async def _forget(self) -> None:
        await self._flush(self._outbox._options.timeout_s)
        await self._outbox.forget()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        with suppress(ClientError):  # what went wrong first counts
            self.close(HASTE_S)


class SyncClient:
    """A session with a broker; `roost.connect_sync` makes one, and `with` opens and closes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread: LoopThread | None = None
        self._feed = Feed(self._publish)
        self._outboxes: list[SyncOutbox] = []

    @property
    def name(self) -> str:
        """What others know it by."""
        return self._client.name

    @property
    def url(self) -> str:
        """Where it connects to."""
        return self._client.url

    @property
    def state(self) -> State:
        """See `Client.state`."""
        return self._client.state

    @property
    def pauses_s(self) -> Sequence[float]:
        """See `Client.pauses_s`."""
        return self._client.pauses_s

    @property
    def unacknowledged(self) -> int:
        """How many events the broker has not acknowledged."""

        async def count() -> int:
            return len(self._feed.queue) + self._client.unacknowledged

        if self._thread is None:
            return len(self._feed.queue) + self._client.unacknowledged
        return self._thread.run(count())

    # --- beginning and end --------------------------------------------------------------------------

    def open(self) -> Self:
        """Connect; `with` does it."""
        self._thread = LoopThread.acquire()
        try:
            self._thread.run(self._client.open())
        except BaseException:
            self._end()
            raise
        return self

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, leave in order, and close; see `Client.close`."""
        check_seconds("timeout_s", timeout_s)
        if self._thread is not None:
            try:
                self._thread.run(self._close(timeout_s))
            except Refused as error:
                self._feed.note(error)
            finally:
                self._end()
            self._feed.raise_trouble()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.release()

    async def _close(self, timeout_s: float | None) -> None:
        within_s = self._client._options.timeout_s if timeout_s is None else timeout_s
        left = await self._feed.stop(within_s)
        trouble: ClientError | None = None
        for outbox in self._outboxes:
            try:
                await outbox._close(timeout_s)
            except ClientError as error:
                trouble = trouble or error
        await self._client.close(timeout_s)
        if left and not self._feed.has_trouble:
            raise NotInTime(f"{self.url}: {left:,} events were not sent after {within_s:g} s")
        if trouble is not None:
            raise trouble

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        with suppress(ClientError):  # what went wrong first counts
            self.close(HASTE_S)

    def _live(self) -> LoopThread:
        if self._thread is None:
            raise Closed(f"{self.name} is not open; expected `with roost.connect_sync(...)`")
        return self._thread

    # --- publishing ---------------------------------------------------------------------------------

    def publish(
        self,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        *,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Publish an event, and get its id; see `Client.publish`. Waits while too many are on their way."""
        checked = self._client._outgoing.check(attributes, payload, content_type, headers)
        number = self._feed.put(checked, self._live().loop)
        return f"{self.name}:{number}"

    def publish_many(self, events: Iterable[Mapping[str, Value]] | Columns) -> int:
        """Publish events, in this order, or none if one can't be; see `Client.publish_many`."""
        if is_columns(events):
            events = rows_of(cast(Columns, events))
        check_kind("events", events, (Iterable,), "events, each as for publish, or an Arrow table")
        checked = self._client._outgoing.check_many(cast(Iterable[Mapping[str, Value]], events))
        self._feed.put_many(checked, self._live().loop)
        return len(checked)

    def flush(self, timeout_s: float | None = None) -> None:
        """Until the broker has acknowledged everything; see `Client.flush`."""
        check_seconds("timeout_s", timeout_s)
        try:
            self._live().run(self._flush(timeout_s))
        except Refused as error:
            self._feed.note(error)
        self._feed.raise_trouble()

    async def _flush(self, timeout_s: float | None) -> None:
        await self._feed.until_drained()
        await self._client.flush(timeout_s)

    async def _publish(self, checked: Checked) -> None:
        publishing = self._client._live_publishing()
        while True:
            try:
                if publishing.put(checked) is None:
                    await publishing.publish(checked)
            except Refused as error:
                self._feed.note(error)  # of an earlier one: this one still has to go
            else:
                return

    def outbox(
        self,
        name: str,
        *,
        advertise: str | Filter | Advertisement | None = None,
        after: int = 0,
    ) -> SyncOutbox:
        """Publish what stands in a log, each event once; see `Client.outbox`."""
        thread = self._live()

        async def make() -> Outbox:
            return self._client.outbox(name, advertise=advertise, after=after)

        outbox = SyncOutbox(thread, thread.run(make()))
        self._outboxes = [there for there in self._outboxes if not there._outbox.is_closed]
        self._outboxes.append(outbox)
        return outbox

    # --- advertising and subscribing ----------------------------------------------------------------

    def advertise(self, filter_: str | Filter | Advertisement) -> SyncAdvertised:
        """Say what will be published; see `Client.advertise`."""
        thread = self._live()
        return SyncAdvertised(thread, thread.run(self._client.advertise(filter_)))

    def subscribe(
        self,
        filter_: str | Filter | Interest,
        *,
        durable: str | None = None,
        auto_ack: bool = False,
        buffer_max: int | None = None,
        when_full: WhenFull = "wait",
    ) -> SyncSubscription:
        """Ask for the events that match a filter, and read them with `for`; see `Client.subscribe`."""
        thread = self._live()
        check_flag("auto_ack", auto_ack)

        async def subscribe() -> Subscription:
            return self._client._subscribe(
                filter_, durable, auto_ack=False, buffer_max=buffer_max, when_full=when_full
            )

        return SyncSubscription(thread, thread.run(subscribe()), auto_ack=auto_ack)
