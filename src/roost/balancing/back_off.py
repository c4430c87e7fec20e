"""Partners that are left alone for a while: with whom an action came to nothing.

The thesis tries the same again at the next detection, which is a request, a session and a time of
stabilising for both, and nothing else. Here a partner rests for that action, for twice as long each time, and
a session that did move somebody ends it. The memory of a module, which is told what has happened.
"""

from __future__ import annotations

from typing import NamedTuple

from roost.balancing.indices import Action
from roost.balancing.settings import BalancingConfig


class Rest(NamedTuple):
    """How long a partner is left alone."""

    until: float
    for_s: float


class BackOff:
    """Who rests."""

    def __init__(self, config: BalancingConfig) -> None:
        self._first_s = config.rules.back_off_s
        self._longest_s = config.rules.back_off_max_s
        self._rests: dict[tuple[str, Action], Rest] = {}

    def failed(self, partner: str, action: Action, now: float) -> None:
        """A session moved nobody, or it did not lower what it was to lower."""
        if not self._first_s:
            return
        last = self._rests.get((partner, action))
        for_s = self._first_s if last is None else last.for_s * 2
        for_s = min(for_s, max(self._longest_s, self._first_s))
        self._rests[partner, action] = Rest(now + for_s, for_s)

    def succeeded(self, partner: str, action: Action) -> None:
        """A session did what it was to do."""
        self._rests.pop((partner, action), None)

    def resting(self, now: float) -> list[tuple[str, Action]]:
        """Those that are to be left alone now: for `detect`."""
        return [key for key, rest in self._rests.items() if now < rest.until]
