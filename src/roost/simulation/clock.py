"""The virtual clock: what is to happen, in the order of its time, and of its planning where times are
equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any


class Clock:
    """Time that passes only from one planned action to the next."""

    __slots__ = ("_count", "_heap", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Plan an action; in the past is now."""
        self._count = count = self._count + 1
        now = self.now
        heappush(self._heap, (time if time > now else now, count, action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay_s, action, *arguments)

    def run(self, until: float) -> None:
        """Do everything that is planned up to a time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action, arguments = heappop(heap)
            action(*arguments)
        self.now = max(self.now, until)

    def planned(self, action: Callable[..., None]) -> Iterator[tuple[Any, ...]]:
        """The arguments of this action, each time that it is planned."""
        return (arguments for _, _, planned, arguments in self._heap if planned == action)

    def __len__(self) -> int:
        """How many actions are planned."""
        return len(self._heap)
