"""What a dispatcher knows of how busy matchers are: their last reports, and what it has sent since."""

from __future__ import annotations

from collections.abc import Iterable

from roost.partition.forwarding import Pace, Sight
from roost.partition.segments import Option, SetKey


class Sights:
    """Of all matchers, as one of so many dispatchers sees them.

    What one has sent since a report counts for all of them: the others do the same.
    """

    def __init__(self, dispatchers: int) -> None:
        self._dispatchers = dispatchers
        self._paces: dict[Option, tuple[Pace, float]] = {}  # with when it was told
        self._work: dict[
            str, tuple[float, float]
        ] = {}  # matcher -> what waits there, and as of when
        self._busy: dict[str, float] = {}

    def report(
        self, matcher: str, paces: Iterable[tuple[SetKey, Pace]], busy: float, now: float
    ) -> None:
        self._busy[matcher] = busy
        for key, pace in paces:
            self._paces[Option(matcher, tuple(key))] = (pace, now)
        waits = [pace for option, (pace, _) in self._paces.items() if option.matcher == matcher]
        self._work[matcher] = (sum(pace.queue * pace.search_s for pace in waits), now)

    def sent(self, option: Option, count: int, now: float) -> None:
        """So many more are on their way there."""
        known = self._paces.get(option)
        if known is not None:
            work_s = self._waits(option.matcher, now)
            self._work[option.matcher] = (
                work_s + count * known[0].search_s * self._dispatchers,
                now,
            )

    def _waits(self, matcher: str, now: float) -> float:
        work_s, at = self._work.get(matcher, (0.0, now))
        return max(0.0, work_s - (now - at))

    def forget(self, matcher: str) -> None:
        for option in [o for o in self._paces if o.matcher == matcher]:
            del self._paces[option]
        self._work.pop(matcher, None)
        self._busy.pop(matcher, None)

    def busy(self, matchers: Iterable[str]) -> dict[str, float]:
        """The share of its time that each is; of whom nothing has been heard is taken to have no rest."""
        return {name: self._busy.get(name, 1.0) for name in matchers}

    def sight(self, option: Option, now: float) -> Sight:
        known = self._paces.get(option)
        if known is None:
            return Sight()
        pace, at = known
        return Sight(pace, now - at, self._waits(option.matcher, now))

    def loads(self) -> dict[tuple[int, str], float]:
        """How busy each matcher is on each dimension, then how many subscriptions it has there."""
        found: dict[tuple[int, str], float] = {}
        most = max((pace.size for pace, _ in self._paces.values()), default=0) + 1
        for option, (pace, _) in self._paces.items():
            if len(option.key) == 1:
                busy = pace.arrivals_per_s / pace.matches_per_s if pace.matches_per_s else 0.0
                found[option.key[0], option.matcher] = busy + pace.size / most * 1e-3
        return found
