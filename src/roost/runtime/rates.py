"""How fast events may come: buckets of credit, one a connection, one a user.

A bucket holds a burst. What comes is taken out of it, also what is not there: then whoever brought it is read
no further until the bucket would be at zero again if nobody took more. Several that share one so stand in
line: each waits for those ahead of it, and together they are as fast as one alone.

The bucket of a user outlives its connections, or each new one would be a burst; until it is full again, when
nobody can tell it from a new one.
"""

from __future__ import annotations

# So many buckets, and those that are full are looked for.
CROWD = 1_024


class Bucket:
    """Credit for so many events a second, and for so many at once."""

    __slots__ = ("_at", "_burst", "_credit", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = self._credit = burst
        self._at = now

    def take(self, count: int, now: float) -> float:
        """For how long whoever brought so many is not to be read."""
        self._credit = self._credit_at(now) - count
        self._at = now
        return max(0.0, -self._credit / self._rate)

    def is_full(self, now: float) -> bool:
        return self._credit_at(now) >= self._burst

    def _credit_at(self, now: float) -> float:
        return min(self._burst, self._credit + (now - self._at) * self._rate)


class Rates:
    """The buckets of users."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[str, Bucket] = {}
        self._crowd = CROWD

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, user: str, now: float) -> list[Bucket]:
        """The one of a user, or none: it may be as fast as it can."""
        if not self._rate:
            return []
        if user not in self._buckets:
            if len(self._buckets) >= self._crowd:
                self._forget_full(now)
            self._buckets[user] = Bucket(self._rate, self._burst, now)
        return [self._buckets[user]]

    def _forget_full(self, now: float) -> None:
        self._buckets = {u: b for u, b in self._buckets.items() if not b.is_full(now)}
        self._crowd = max(CROWD, 2 * len(self._buckets))  # so that it costs each of them a moment
