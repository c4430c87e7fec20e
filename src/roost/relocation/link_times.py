"""How long the links of a broker are: now and then one end asks the other for an answer.

A note goes ahead of data, so that queues add little to its round trip; of the last few the shortest is taken,
which they have added least to. Of the two ends the one whose name comes first asks, and says with each
question what it has found so far: a link is measured once for both. A second question follows close on
the first, to tell its answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from roost.relocation.notes import LinkPing, LinkPong, body_of

if TYPE_CHECKING:
    from roost.broker.module import Surroundings

KEPT = 4
# A neighbour that has not answered, or not been told, is asked again sooner.
SOON_S = 1.0
TOLD_AFTER = 2
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
            if neighbour < self._around.broker:
                continue  # it asks us
            asked, times = self._asked.get(neighbour), self._times.get(neighbour, ())
            wait_s = self._period_s if len(times) >= TOLD_AFTER else SOON_S
            if asked is None or now - asked >= wait_s:
                self._asked[neighbour] = now
                ping = LinkPing(now, min(times, default=-1.0))
                self._around.tell(neighbour, body_of(ping), CAUSE)

    def asked(self, neighbour: str, ping: LinkPing) -> None:
        """Somebody else wants to know, and tells what it has found."""
        if ping.found_s >= 0:
            self._times[neighbour] = deque([ping.found_s])
        self._around.tell(neighbour, body_of(LinkPong(ping.at)), CAUSE)

    def answered(self, neighbour: str, pong: LinkPong, now: float) -> None:
        times = self._times.setdefault(neighbour, deque(maxlen=KEPT))
        times.append(max(0.0, now - pong.at))

    def one_way_s(self, neighbour: str) -> float:
        """Half of the round trip; 0 as long as it is not known."""
        times = self._times.get(neighbour)
        return min(times) / 2 if times else 0.0
