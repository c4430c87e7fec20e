"""What a dispatcher knows of how busy matchers are: their last reports, and what it has sent since."""

from __future__ import annotations

from collections.abc import Iterable

from roost.partition.forwarding import Pace, Sight
from roost.partition.segments import Option, SetKey


class Sights:
    """Of all matchers, as one of so many dispatchers sees them."""

    def __init__(self, dispatchers: int) -> None:
        self._dispatchers = dispatchers
        self._paces: dict[Option, tuple[Pace, float]] = {}  # with when it was told
        self._sent: dict[Option, int] = {}

    def report(self, matcher: str, paces: Iterable[tuple[SetKey, Pace]], now: float) -> None:
        for key, pace in paces:
            option = Option(matcher, tuple(key))
            self._paces[option] = (pace, now)
            self._sent[option] = 0

    def sent(self, option: Option) -> None:
        self._sent[option] = self._sent.get(option, 0) + 1

    def forget(self, matcher: str) -> None:
        for option in [o for o in self._paces if o.matcher == matcher]:
            del self._paces[option]

    def sight(self, option: Option, now: float) -> Sight:
        known = self._paces.get(option)
        if known is None:
            return Sight()
        pace, at = known
        return Sight(pace, now - at, self._sent.get(option, 0) * self._dispatchers)

    def loads(self) -> dict[tuple[int, str], float]:
        """How busy each matcher is on each dimension, then how many subscriptions it has there."""
        found: dict[tuple[int, str], float] = {}
        most = max((pace.size for pace, _ in self._paces.values()), default=0) + 1
        for option, (pace, _) in self._paces.items():
            if len(option.key) == 1:
                busy = pace.arrivals_per_s / pace.matches_per_s if pace.matches_per_s else 0.0
                found[option.key[0], option.matcher] = busy + pace.size / most * 1e-3
        return found
