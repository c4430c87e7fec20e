"""How long the links of a broker are: it asks its neighbours for an answer now and then.

A note goes ahead of data, so that queues add little to its round trip; of the last few the shortest is taken,
which they have added least to.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from roost.relocation.notes import LinkPing, LinkPong, body_of

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

KEPT = 4
# A neighbour that has never answered is asked again sooner.
SOON_S = 1.0
CAUSE = "the length of this link"


class LinkTimes:
    """The round trips between a broker and its neighbours."""

    def __init__(self, around: Surroundings, period_s: float) -> None:
        self._around = around
        self._period_s = period_s
        self._asked: dict[str, float] = {}
        self._times: dict[str, deque[float]] = {}

    def ask(self, now: float) -> None:
        """Those whose turn it is."""
        for neighbour in self._around.neighbours:
            asked = self._asked.get(neighbour)
            wait_s = self._period_s if neighbour in self._times else SOON_S
            if asked is None or now - asked >= wait_s:
                self._asked[neighbour] = now
                self._around.tell(neighbour, body_of(LinkPing(now)), CAUSE)

    def asked(self, neighbour: str, ping: LinkPing) -> None:
        """Somebody else wants to know."""
        self._around.tell(neighbour, body_of(LinkPong(ping.at)), CAUSE)

    def answered(self, neighbour: str, pong: LinkPong, now: float) -> None:
        times = self._times.setdefault(neighbour, deque(maxlen=KEPT))
        times.append(max(0.0, now - pong.at))

    def one_way_s(self, neighbour: str) -> float:
        """Half of the round trip; 0 as long as it is not known."""
        times = self._times.get(neighbour)
        return min(times) / 2 if times else 0.0
