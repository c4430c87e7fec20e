"""What waits for an application that reads at its own pace: a queue with a bound, and a policy for it.

    when_full  what becomes of more than `bound`
    wait       the line takes nothing more until half has been read (`intake`): nothing is lost, others wait
    drop       what comes while it is full is gone; whoever reads is warned where it would have stood
    end        the subscription ends; what is there can still be read

Only what a move to another broker has kept back comes on top of the bound: it is handed on at once.

Events that came together may stand here as one item (`bundle`), and count as so many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from roost.client.bundle import Bundle

if TYPE_CHECKING:
    from roost.client.errors import ClientError
    from roost.client.line import Line

T = TypeVar("T")

WhenFull: TypeAlias = Literal["wait", "drop", "end"]
# A full one that nobody has read for so long must not keep others of its client waiting.
UNREAD_S = 10.0


class Missing:
    """So many events should stand here, and were dropped: by the broker, or here."""

    __slots__ = ("by_broker", "count")

    def __init__(self, count: int, *, by_broker: bool) -> None:
        self.count = count
        self.by_broker = by_broker


class Inbox(Generic[T]):
    """Events for one subscription, in order, and what is missing between them."""

    __slots__ = (
        "_bundled",
        "_full_at",
        "_line",
        "_waiters",
        "bound",
        "dropped",
        "failure",
        "is_full",
        "is_over",
        "items",
        "name",
        "odd",
        "read_at",
        "stalled_s",
        "title",
        "when_full",
    )

    def __init__(
        self,
        line: Line,
        name: str,
        title: str,
        bound: int,
        stalled_s: float,
        when_full: WhenFull = "wait",
    ) -> None:
        self.name = name  # what its owner knows it by
        self.title = title  # what errors call it
        self.bound = bound
        self.stalled_s = stalled_s
        self.when_full: WhenFull = when_full
        self.items: deque[T | Missing | Bundle] = deque()
        self.dropped = 0  # here, as it was full
        self.is_over = False  # nothing more will come
        self.failure: Callable[[], ClientError] | None = None  # why, if it is not as it should be
        self.read_at = 0.0  # when it was last read, or became full
        self._line = line
        self.odd = 0  # items that are no events
        self._bundled = 0  # events in bundles
        self.is_full = False  # and until half of it has been read
        self._full_at = 0.0
        self._waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self.items) - self.odd + self._bundled

    @property
    def room(self) -> int:
        """How many more events it may hold."""
        return max(0, self.bound - len(self))

    @property
    def room_at_once(self) -> int:
        """How many may be put among `items` without a look at each; `wake` is due then."""
        if self.is_over or self.when_full != "wait" or self.is_full:
            return 0
        return max(0, self.bound - 1 - len(self))

    def wake(self) -> None:
        """Events have come."""
        if self._waiters and self.items:
            self._wake()

    @property
    def is_plain(self) -> bool:
        """Whether all `items` are events, and taking one has no consequences."""
        return not self.odd and not self.is_full and bool(self.items)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for an event of it."""
        return bool(self._waiters)

    def holds_up_too_long(self, now: float) -> bool:
        """Whether others of its client have waited long enough for it to be read."""
        return now - self.read_at > UNREAD_S or now - self._full_at > self.stalled_s

    def put(self, item: T) -> bool:
        """One more event; False if there is no room, and that is the end of it."""
        if self.is_over:
            return True
        items, waits = self.items, self.when_full == "wait"
        if not waits and len(self) >= self.bound:
            if self.when_full == "end":
                return False
            self.dropped += 1
            self._mark(1, by_broker=False)
            return True
        items.append(item)
        if self._waiters:
            self._wake()
        if waits and not self.is_full and len(self) >= self.bound:
            self.is_full = True
            self._full_at = self.read_at = self._line.loop.time()
            self._line.intake.is_full(self)
        return True

    def put_bundle(self, bundle: Bundle) -> None:
        """Several more, for which there is room at once."""
        self.items.append(bundle)
        self.odd += 1
        self._bundled += len(bundle)
        self.wake()

    def lacks(self, count: int) -> None:
        """The broker has dropped so many that might have been for it."""
        if not self.is_over:
            self._mark(count, by_broker=True)
            self._wake()

    def _mark(self, count: int, *, by_broker: bool) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(last, Missing) and last.by_broker == by_broker:
            last.count += count
        else:
            self.items.append(Missing(count, by_broker=by_broker))
            self.odd += 1

    async def next(self) -> T | Missing:
        """The next one; EOFError when nothing will come any more, or what `failure` says."""
        await self.some()
        return self.pop()

    async def some(self) -> None:
        """Until there is something; EOFError when nothing will come any more, or what `failure` says."""
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

    @property
    def lacks_next(self) -> bool:
        """Whether the next of `items` is not an event, but that some are missing."""
        return type(self.items[0]) is Missing

    def pop(self) -> T | Missing:
        """The next one, of those that are there."""
        item: Any = self.items.popleft()
        if type(item) is Bundle:
            self.odd -= 1
            self._bundled -= len(item)
            self.items.extendleft(reversed(item.events()))  # type: ignore[arg-type]
            item = self.items.popleft()
        elif type(item) is Missing:
            self.odd -= 1
        if self.is_full:
            self._was_read()
        return item  # type: ignore[no-any-return]

    def take(self, most: int) -> list[T | Bundle]:
        """As many events as are there, at most so many and up to what is missing; bundles as they are."""
        items: Any = self.items
        taken: list[T | Bundle] = []
        if not self.odd:
            taken = [items.popleft() for _ in range(min(most, len(items)))]
            most -= len(taken)
        while items and most and not self.lacks_next:
            item: Any = items[0]
            if type(item) is not Bundle:
                items.popleft()
                most -= 1
            else:
                if len(item) > most:
                    item = item.cut(most)
                else:
                    items.popleft()
                    self.odd -= 1
                self._bundled -= len(item)
                most -= len(item)
            taken.append(item)
        if self.is_full:
            self._was_read()
        return taken

    def _was_read(self) -> None:
        self.read_at = self._line.loop.time()
        if len(self) * 2 <= self.bound:
            self.is_full = False
            self._line.intake.has_room(self)

    def end(self, failure: Callable[[], ClientError] | None = None) -> None:
        """Nothing more will come; what is there can still be read."""
        if not self.is_over:
            self.is_over = True
            self.failure = failure
            self._line.intake.has_room(self)
            self._wake()

    def clear(self) -> None:
        """Nobody wants what is there."""
        self.items.clear()
        self.odd = self._bundled = 0
        if self.is_full:
            self._was_read()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
