"""What waits for an application that reads at its own pace: a queue with a bound.

At the bound the line is told, which then reads no more from the broker, until half of it has been read.
What one read has brought comes on top, so the bound is soft by that much.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from roost.client.errors import ClientError
    from roost.client.line import Line

T = TypeVar("T")


class Inbox(Generic[T]):
    """Events for one subscription, in order; an int stands for so many that the broker dropped."""

    __slots__ = (
        "_is_full",
        "_line",
        "_waiters",
        "bound",
        "failure",
        "is_over",
        "items",
        "name",
        "read_at",
        "stalled_s",
        "title",
    )

    def __init__(self, line: Line, name: str, title: str, bound: int, stalled_s: float) -> None:
        self.name = name  # what its owner knows it by
        self.title = title  # what errors call it
        self.bound = bound
        self.stalled_s = stalled_s
        self.items: deque[T | int] = deque()
        self.is_over = False  # nothing more will come
        self.failure: Callable[[], ClientError] | None = None  # why, if it is not as it should be
        self.read_at = 0.0  # when it was last read, or became full
        self._line = line
        self._is_full = False
        self._waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self.items)

    def put(self, item: T | int) -> None:
        if self.is_over:
            return
        items = self.items
        items.append(item)
        if self._waiters:
            self._wake()
        if not self._is_full and len(items) >= self.bound:
            self._is_full = True
            self.read_at = self._line.loop.time()
            self._line.full(self)

    async def next(self) -> T | int:
        """The next one; EOFError when nothing will come any more, or what `failure` says."""
        items = self.items
        while not items:
            if self.is_over:
                raise EOFError if self.failure is None else self.failure()
            waiter = self._line.loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self.pop()

    def pop(self) -> T | int:
        """The next one, of those that are there."""
        item = self.items.popleft()
        if self._is_full:
            self._was_read()
        return item

    def _was_read(self) -> None:
        self.read_at = self._line.loop.time()
        if len(self.items) * 2 <= self.bound:
            self._is_full = False
            self._line.has_room(self)

    def end(self, failure: Callable[[], ClientError] | None = None) -> None:
        """Nothing more will come; what is there can still be read."""
        if not self.is_over:
            self.is_over = True
            self.failure = failure
            self._line.has_room(self)
            self._wake()

    def clear(self) -> None:
        """Nobody wants what is there."""
        self.items.clear()
        if self._is_full:
            self._was_read()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
