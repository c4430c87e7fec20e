"""A matcher's queues: one for each of its sets, served in the order in which messages came (004 section
III.B).

And what it tells of them (`Pace`). mu is what the paper's formula needs it to be: (q + 1) / mu has to be
how long a message that comes now takes, and its queue is not alone. So mu is (q + 1) / (W + s), where W is
the work that waits in all queues and s what a message of this set takes by itself. That is known for a set
that nobody is sent to as well: what a message and what a subscription take is the same in all sets
(`metering`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

from roost.partition.forwarding import Pace
from roost.partition.metering import Meter
from roost.partition.notes import Asks
from roost.partition.segments import SetKey

# A set of a space.
QueueKey: TypeAlias = tuple[str, SetKey]

# Of fewer messages, what they took says more of what else was done meanwhile.
MEASURED_MIN = 100


class Waiting:
    """An event in a queue, of those that one question is about."""

    __slots__ = ("asks", "came_at", "dispatcher", "key", "row")

    def __init__(
        self, dispatcher: str, key: QueueKey, asks: Asks, row: int, came_at: float
    ) -> None:
        self.dispatcher = dispatcher
        self.key = key
        self.asks = asks
        self.row = row
        self.came_at = came_at


class Gauge:
    """What came into one queue, by second, over the last few."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seconds: deque[list[float]] = deque()  # [when it began, arrived]

    def count(self, count: int, now: float) -> None:
        second = float(int(now))
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0.0])
        self._seconds[-1][1] += count

    def rate(self, now: float) -> float:
        """A second, over the window."""
        while self._seconds and self._seconds[0][0] < now - self._window_s:
            self._seconds.popleft()
        return sum(second[1] for second in self._seconds) / self._window_s


class Queues:
    """All of one matcher."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._queues: dict[QueueKey, int] = {}  # how many wait in each
        self._order: deque[Waiting] = deque()
        self._gauges: dict[QueueKey, Gauge] = {}
        self.meter = Meter()
        self.busy_s = 0.0
        self._matched = 0  # since the driver measured, ...
        self._searched = 0  # ... in sets of that size together

    def __len__(self) -> int:
        return len(self._order)

    def put(self, waiting: Waiting) -> None:
        key, now = waiting.key, waiting.came_at
        self._order.append(waiting)
        self._queues[key] = self._queues.get(key, 0) + 1
        self._gauge(key).count(1, now)

    def passed(self, key: QueueKey, count: int, size: int, now: float) -> None:
        """So many have come for a set of that size, and wait for nobody."""
        self._gauge(key).count(count, now)
        self._matched += count
        self._searched += count * size

    def measured(self, each_s: float) -> None:
        """What a message took that has passed since this was last said; 0: nobody knows."""
        if self._matched >= MEASURED_MIN and each_s > 0:
            self.meter.add(self._matched, self._searched / self._matched, each_s)
        self._matched = self._searched = 0

    def next(self) -> Waiting | None:
        """The one that is to be matched now. It is in its queue until it is `done`."""
        return self._order[0] if self._order else None

    def done(self, entries: int, took_s: float) -> Waiting:
        """It has been matched, against so many, in that time."""
        waiting = self._order.popleft()
        self._queues[waiting.key] -= 1
        self.meter.add(1, entries, took_s)
        self.busy_s += took_s
        return waiting

    def paces(self, sizes: Mapping[QueueKey, int], now: float) -> dict[QueueKey, Pace]:
        takes_s = {key: self.meter.search_s(size) for key, size in sorted(sizes.items())}
        work_s = sum(count * takes_s.get(key, 0.0) for key, count in self._queues.items())
        return {
            key: Pace(
                size=sizes[key],
                arrivals_per_s=self._gauge(key).rate(now),
                matches_per_s=(self._queues.get(key, 0) + 1) / (work_s + each_s),
                queue=self._queues.get(key, 0),
                search_s=each_s,
            )
            for key, each_s in takes_s.items()
        }

    def _gauge(self, key: QueueKey) -> Gauge:
        if key not in self._gauges:
            self._gauges[key] = Gauge(self._window_s)
        return self._gauges[key]
