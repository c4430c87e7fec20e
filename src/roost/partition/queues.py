"""A matcher's queues: one for each of its sets, served in the order in which messages came (004 section
III.B).

And what it tells of them (`Pace`): arrivals a second over the last w seconds, and the rate at which it
*could* match. What was matched would not do for mu: a queue that nobody sends to has matched nothing, and
would look slow. So mu is how many were matched in the time in which the queue was not empty, in which other
queues had their turn as well; for a queue that was always empty, what a message takes by what the others
show a subscription takes.
"""

from __future__ import annotations

from collections import deque

from roost.partition.forwarding import Pace
from roost.partition.notes import Ask
from roost.partition.segments import SetKey

# Nothing takes less, so that a rate is finite.
LEAST_S = 1e-7


class Waiting:
    """A question in a queue."""

    __slots__ = ("ask", "came_at", "dispatcher")

    def __init__(self, dispatcher: str, ask: Ask, came_at: float) -> None:
        self.dispatcher = dispatcher
        self.ask = ask
        self.came_at = came_at


class Gauge:
    """What happened to one queue, by second, over the last few."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seconds: deque[list[float]] = deque()  # [when it began, arrived, matched, busy for]

    def count(self, now: float, *, arrived: int = 0, matched: int = 0, busy_s: float = 0.0) -> None:
        second = float(int(now))
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0.0, 0.0, 0.0])
        last = self._seconds[-1]
        last[1] += arrived
        last[2] += matched
        last[3] += busy_s

    def over(self, now: float) -> tuple[float, float, float]:
        """Arrived, matched, and busy for so long, over the window."""
        while self._seconds and self._seconds[0][0] < now - self._window_s:
            self._seconds.popleft()
        sums = [sum(second[place] for second in self._seconds) for place in (1, 2, 3)]
        return sums[0], sums[1], sums[2]


class Queues:
    """All of one matcher."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._queues: dict[SetKey, int] = {}  # how many wait in each
        self._order: deque[Waiting] = deque()
        self._gauges: dict[SetKey, Gauge] = {}
        self._busy_since: dict[SetKey, float] = {}
        self._entries = 0.0  # that were searched in all, ...
        self._searched_s = 0.0  # ... in this time
        self.matched = 0

    def __len__(self) -> int:
        return len(self._order)

    def put(self, waiting: Waiting) -> None:
        key, now = waiting.ask.key, waiting.came_at
        self._order.append(waiting)
        if not self._queues.get(key, 0):
            self._busy_since[key] = now
        self._queues[key] = self._queues.get(key, 0) + 1
        self._gauge(key).count(now, arrived=1)

    def next(self) -> Waiting | None:
        """The one that is to be matched now. It is in its queue until it is `done`."""
        return self._order[0] if self._order else None

    def done(self, now: float, entries: int, took_s: float) -> Waiting:
        """It has been matched, against so many, in that time."""
        waiting = self._order.popleft()
        key = waiting.ask.key
        self._queues[key] -= 1
        self._gauge(key).count(now, matched=1, busy_s=now - self._busy_since[key])
        self._busy_since[key] = now
        self._entries += entries
        self._searched_s += took_s
        self.matched += 1
        return waiting

    def paces(self, sizes: dict[SetKey, int], now: float) -> dict[SetKey, Pace]:
        return {key: self._pace(key, size, now) for key, size in sorted(sizes.items())}

    def _pace(self, key: SetKey, size: int, now: float) -> Pace:
        arrived, matched, busy_s = self._gauge(key).over(now)
        alone_s = self._searched_s / max(1.0, self._entries) * max(1, size)
        rate = matched / busy_s if matched and busy_s > 0.0 else 1.0 / max(LEAST_S, alone_s)
        # No faster than it would be alone.
        rate = min(rate, 1.0 / max(LEAST_S, alone_s))
        return Pace(size, arrived / self._window_s, rate, self._queues.get(key, 0))

    def _gauge(self, key: SetKey) -> Gauge:
        if key not in self._gauges:
            self._gauges[key] = Gauge(self._window_s)
        return self._gauges[key]
