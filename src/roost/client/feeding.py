"""From any thread into that of the event loop: events to be published there, in order.

A call into another thread and back costs as much as ten events. So publishing only puts the event into a
queue, which the other thread empties. What goes wrong there is kept for whoever comes next.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from roost.client.errors import ClientError, Refused

T = TypeVar("T")

# Events that wait for the other thread, above which publishing waits.
QUEUE_MAX = 4_096


class Feed(Generic[T]):
    """A queue, and what empties it: `publish`, in the other thread."""

    def __init__(self, publish: Callable[[T], Awaitable[object]]) -> None:
        self.queue: deque[T] = deque()
        self._publish = publish
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._count = 0
        self._is_draining = False
        self._drained: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._trouble: ClientError | None = None

    # --- in any thread ------------------------------------------------------------------------------

    def put(self, item: T, loop: asyncio.AbstractEventLoop) -> int:
        """One more; how many there have been. Raises what went wrong with earlier ones."""
        with self._lock:
            self._wait_for_room()
            self.queue.append(item)
            self._count += 1
            number = self._count
            starts, self._is_draining = not self._is_draining, True
        if starts:
            loop.call_soon_threadsafe(self._start_draining)
        return number

    def put_many(self, items: Sequence[T], loop: asyncio.AbstractEventLoop) -> None:
        """The same of several, as many at a time as there is room for."""
        at = 0
        while at < len(items):
            with self._lock:
                self._wait_for_room()
                part = items[at : at + QUEUE_MAX - len(self.queue)]
                self.queue.extend(part)
                self._count += len(part)
                at += len(part)
                starts, self._is_draining = not self._is_draining, True
            if starts:
                loop.call_soon_threadsafe(self._start_draining)

    def _wait_for_room(self) -> None:
        self.raise_trouble()
        while len(self.queue) >= QUEUE_MAX:
            self._room.wait()
            self.raise_trouble()

    def raise_trouble(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def note(self, error: Refused) -> None:
        """Keep a refusal for whoever comes next, together with those that wait for the same."""
        if isinstance(first := self._trouble, Refused):
            others, events = first.others + 1 + error.others, first.events + error.events
            error = Refused(first.request, first.reason, others, events=events)
        self._trouble = error

    # --- in the other one ---------------------------------------------------------------------------

    def _start_draining(self) -> None:
        self._drained = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        """Publish what is in the queue, until it is empty."""
        assert self._drained is not None
        try:
            while True:
                with self._lock:
                    if not self.queue:
                        self._is_draining = False
                        return
                    item = self.queue[0]
                await self._publish(item)
                with self._lock:
                    self.queue.popleft()
                    if len(self.queue) == QUEUE_MAX // 2:
                        self._room.notify_all()
        except ClientError as error:
            self._give_up(error)
        except asyncio.CancelledError:
            self._give_up(None)
            raise
        finally:
            self._drained.set()

    def _give_up(self, error: ClientError | None) -> None:
        with self._lock:
            self._count -= len(self.queue)  # what is in the queue never got its number
            self.queue.clear()
            self._is_draining = False
            self._trouble = error or self._trouble
            self._room.notify_all()

    async def until_drained(self) -> None:
        while self._is_draining:
            if self._drained is None or self._drained.is_set():
                await asyncio.sleep(0)  # it is just about to begin
            else:
                await self._drained.wait()

    async def stop(self, within_s: float) -> int:
        """Empty the queue, within this time; how many were left then, and are gone."""
        try:
            async with asyncio.timeout(within_s):
                await self.until_drained()
        except TimeoutError:
            pass  # the caller is told how many
        left = len(self.queue)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        return left

    @property
    def has_trouble(self) -> bool:
        return self._trouble is not None
