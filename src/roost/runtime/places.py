"""Where neighbours are dialled, and how long each may take to greet.

A neighbour that has a standby is at two places, and one of them answers. So they take turns, from the one
that did not answer last; and as their machine may be busy, each gets twice as long the next time round.
"""

from __future__ import annotations

from collections.abc import Mapping

# How long one of two may take to greet the first time.
STANDBY_GREETING_S = 0.5
# Doubled so often at most: enough for any bound.
DOUBLED_MAX = 8


class Places:
    """The addresses of all neighbours. What the settings say of one goes before what was heard."""

    def __init__(self, configured: Mapping[str, str], greeting_s: float) -> None:
        self._configured = configured
        self._greeting_s = greeting_s
        self._turns: dict[str, int] = {}  # neighbour -> which of its places was dialled last
        # Neighbours at two places -> how often they were dialled since they last greeted.
        self._in_two: dict[str, int] = {}

    def next(self, neighbour: str, heard: str) -> list[str]:
        """Its places, in the order in which they are tried this time; `heard`: with a comma, if two."""
        told, _, beside = heard.partition(",")
        said = f"{self._configured.get(neighbour) or told},{beside}"
        places = list(dict.fromkeys(filter(None, said.split(","))))
        turn = self._turns[neighbour] = (self._turns.get(neighbour, -1) + 1) % (len(places) or 1)
        if len(places) > 1:
            self._in_two[neighbour] = self._in_two.get(neighbour, 0) + 1
        return places[turn:] + places[:turn]

    def greeted(self, neighbour: str) -> None:
        """By one whom we had dialled."""
        if neighbour in self._in_two:
            self._in_two[neighbour] = 0

    def greeting_s(self, neighbour: str) -> float:
        """How long one may take to greet."""
        dialled = self._in_two.get(neighbour)
        if dialled is None:
            return self._greeting_s
        longer: int = 1 << min(max(dialled - 1, 0) // 2, DOUBLED_MAX)
        return min(self._greeting_s, STANDBY_GREETING_S * longer)
