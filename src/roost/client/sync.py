"""The client for programs without asyncio: the same client, at work in a thread.

All such clients of a process share one thread with an event loop, which comes with the first of them and
goes with the last. Their methods may be called from any thread, and wait; Ctrl-C ends the wait.

A call into another thread and back costs as much as ten events. So publishing only puts the event into a
queue that the other thread empties, and reading fetches as many as there are.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import uvloop

from roost.client.client import HASTE_S, Client, State
from roost.client.durable import DurableSubscription
from roost.client.errors import ClientError, Closed, NotInTime, Refused
from roost.client.event import SyncEvent
from roost.client.outgoing import Checked
from roost.client.publishing import Advertised
from roost.client.subscription import Subscription
from roost.language import Advertisement, Filter, Value
from roost.language import Subscription as Interest

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

# Events that wait for the other thread, above which publishing waits.
QUEUE_MAX = 4_096
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
        self.loop = uvloop.new_event_loop()
        # A daemon: a client that somebody forgot to close doesn't keep the process from ending.
        self.thread = threading.Thread(target=self._run, name="roost-client", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
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
        event = self._next(timeout_s)
        if event is None:
            raise Closed(f"the subscription to {self.filter!r} is closed")
        return event

    def _next(self, timeout_s: float | None) -> SyncEvent | None:
        with self._lock:
            if self._last is not None:
                self._last.ack()
                self._last = None
            if not self._events:
                received = self._thread.run(self._batch(timeout_s))
                self._events.extend(map(SyncEvent, received))
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

    def ready(self, timeout_s: float | None = None) -> None:
        """Until it is in effect at every broker; see `Subscription.ready`."""
        self._thread.run(self._subscription.ready(timeout_s))

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


class SyncClient:
    """A session with a broker; `roost.connect_sync` makes one, and `with` opens and closes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread: LoopThread | None = None
        # Publishing: what waits for the other thread, and what it could not tell anybody yet.
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._queue: deque[Checked] = deque()
        self._count = 0
        self._is_draining = False
        self._drained: asyncio.Event | None = None
        self._drain_task: asyncio.Task[None] | None = None
        self._trouble: ClientError | None = None

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
    def unacknowledged(self) -> int:
        """How many events the broker has not acknowledged."""

        async def count() -> int:
            return len(self._queue) + self._client.unacknowledged

        if self._thread is None:
            return len(self._queue) + self._client.unacknowledged
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
        if self._thread is not None:
            try:
                self._thread.run(self._close(timeout_s))
            except Refused as error:
                self._note(error)
            finally:
                self._end()
            self._raise_trouble()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.release()

    async def _close(self, timeout_s: float | None) -> None:
        within_s = self._client._options.timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(within_s):
                await self._until_drained()
        except TimeoutError:
            pass  # what has not been sent is said below, as what has not been acknowledged
        left = len(self._queue)
        if self._drain_task is not None:
            self._drain_task.cancel()
            await asyncio.wait((self._drain_task,))
        await self._client.close(timeout_s)
        if left and self._trouble is None:
            raise NotInTime(f"{self.url}: {left:,} events were not sent after {within_s:g} s")

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
        thread = self._live()
        with self._lock:
            self._raise_trouble()
            while len(self._queue) >= QUEUE_MAX:
                self._room.wait()
                self._raise_trouble()
            self._queue.append(checked)
            self._count += 1
            number = self._count
            starts, self._is_draining = not self._is_draining, True
        if starts:
            thread.loop.call_soon_threadsafe(self._start_draining)
        return f"{self.name}:{number}"

    def flush(self, timeout_s: float | None = None) -> None:
        """Until the broker has acknowledged everything; see `Client.flush`."""
        try:
            self._live().run(self._flush(timeout_s))
        except Refused as error:
            self._note(error)
        self._raise_trouble()

    async def _flush(self, timeout_s: float | None) -> None:
        await self._until_drained()
        await self._client.flush(timeout_s)

    def _raise_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def _note(self, error: Refused) -> None:
        """Keep a refusal for whoever comes next, together with those that wait for the same."""
        if isinstance(first := self._trouble, Refused):
            error = Refused(first.request, first.reason, first.others + 1 + error.others)
        self._trouble = error

    def _start_draining(self) -> None:
        self._drained = asyncio.Event()
        self._drain_task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        """In the other thread: publish what is in the queue, until it is empty."""
        assert self._drained is not None
        try:
            while True:
                with self._lock:
                    if not self._queue:
                        self._is_draining = False
                        return
                    checked = self._queue[0]
                try:
                    await self._client._publish(checked)
                except Refused as error:
                    self._note(error)  # of an earlier one: this one still has to go
                    continue
                with self._lock:
                    self._queue.popleft()
                    if len(self._queue) == QUEUE_MAX // 2:
                        self._room.notify_all()
        except ClientError as error:
            self._give_up(error)
        except asyncio.CancelledError:
            self._give_up(None)
            raise
        finally:
            self._drained.set()

    def _give_up(self, error: ClientError | None) -> None:
        line = self._client._line
        with self._lock:
            self._queue.clear()
            self._is_draining = False
            # What was in the queue never got its number.
            self._count = 0 if line is None else line.machine.published
            self._trouble = error or self._trouble
            self._room.notify_all()

    async def _until_drained(self) -> None:
        while self._is_draining:
            if self._drained is None or self._drained.is_set():
                await asyncio.sleep(0)  # it is just about to begin
            else:
                await self._drained.wait()

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
    ) -> SyncSubscription:
        """Ask for the events that match a filter, and read them with `for`; see `Client.subscribe`."""
        thread = self._live()

        async def subscribe() -> Subscription:
            if durable is None:
                return self._client.subscribe(filter_, buffer_max=buffer_max)
            return self._client.subscribe(filter_, durable=durable, buffer_max=buffer_max)

        return SyncSubscription(thread, thread.run(subscribe()), auto_ack=auto_ack)
