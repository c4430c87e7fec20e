"""The virtual clock: what is to happen, in the order of its time, and of its planning where times are equal.

Most of what is planned is a timer, seconds away, or an arrival, milliseconds away. What is near is kept in a
heap; what is far waits in a bucket, unsorted, until its time comes near. So the heap stays as small as what a
moment holds, however many clients have a timer running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

# Buckets a second: a power of two, so that a time and its bucket never disagree by rounding.
BUCKETS_PER_S = 8

Planned = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class Clock:
    """Time that passes only from one planned action to the next."""

    __slots__ = ("_buckets", "_count", "_edge", "_heap", "_order", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._heap: list[Planned] = []  # what comes before the edge
        self._edge = 0.0
        self._buckets: dict[int, list[Planned]] = {}  # what comes after it
        self._order: list[int] = []  # a heap of the buckets

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Plan an action; in the past is now."""
        self._count = count = self._count + 1
        if time < self.now:  # noqa: PLR1730 (max takes three times as long)
            time = self.now
        if time < self._edge:
            heappush(self._heap, (time, count, action, arguments))
            return
        number = int(time * BUCKETS_PER_S)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = []
            heappush(self._order, number)
        bucket.append((time, count, action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay_s, action, *arguments)

    def run(self, until: float) -> None:
        """Do everything that is planned up to a time."""
        heap = self._heap
        while True:
            while heap and heap[0][0] <= until:
                self.now, _, action, arguments = heappop(heap)
                action(*arguments)
            if heap or not self._order or self._order[0] > until * BUCKETS_PER_S:
                break
            number = heappop(self._order)
            heap += self._buckets.pop(number)
            heapify(heap)
            self._edge = (number + 1) / BUCKETS_PER_S
        self.now = max(self.now, until)

    def planned(self, action: Callable[..., None]) -> Iterator[tuple[Any, ...]]:
        """The arguments of this action, each time that it is planned."""
        for part in (self._heap, *self._buckets.values()):
            yield from (arguments for _, _, other, arguments in part if other == action)
