"""Gossip among matchers: who is there, and which table holds (004 section III.C).

Every second a matcher adds one to its own heartbeat and tells log2 N others, drawn at random, the highest
heartbeats that it has heard of all, and the stamp of its table. Whoever has a newer table sends it back;
whoever has an older one asks. So a table is sent only where it is news, and a change is everywhere after
about log N rounds.

Heartbeats of all would make every digest grow with N. So a matcher watches those *around* it only: of all, in
the order of their names and in a circle, at most `AROUND`. It gossips with log2 of these, tells of these, and
suspects these; each is watched by as many. Beyond that many matchers one more partner is any of all, so that
tables cross the circle in few rounds.

A heartbeat has a *life*: one that starts again begins at 1 in a new life, and whoever knows of the last one
tells the two apart by the number of the life. The paper is at odds with itself on the number of partners
(log N in III.C, one in IV.C); see docs/PARTITION.md for what each costs.

Nothing here knows a clock, a network or a random source: `now`, `draw` and what has come are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from roost.partition.accrual import AccrualSettings, Detector

Stamp: TypeAlias = tuple[int, str]
# (life, heartbeat): the later life is the larger one.
Beat: TypeAlias = tuple[int, int]


# Matchers whose heartbeats one hears of.
AROUND = 64


class Digest(Struct, frozen=True, array_like=True, tag="digest"):
    """What one tells another."""

    stamps: dict[str, Stamp]  # of the tables, by space
    beats: dict[str, Beat]


class Gossip:
    """What one matcher has heard of all."""

    def __init__(
        self, name: str, life: int, now: float, settings: AccrualSettings | None = None
    ) -> None:
        self._name = name
        self._settings = settings or AccrualSettings()
        self.beats: dict[str, Beat] = {name: (life, 0)}
        self._detectors: dict[str, Detector] = {}
        self._now = now

    def tick(self) -> None:
        """One more heartbeat of its own."""
        life, beat = self.beats[self._name]
        self.beats[self._name] = (life, beat + 1)

    def digest(self, stamps: dict[str, Stamp], watched: Iterable[str]) -> Digest:
        """What it has heard of these, and of itself."""
        told = [name for name in (self._name, *watched) if name in self.beats]
        return Digest(stamps, {name: self.beats[name] for name in told})

    def hear(self, digest: Digest, now: float) -> None:
        """Take over what is newer."""
        for name, beat in digest.beats.items():
            if name != self._name and beat > self.beats.get(name, (0, 0)):
                self.beats[name] = beat
                if name in self._detectors:
                    self._detectors[name].beat(now)
                else:
                    self._detectors[name] = Detector(self._settings, now)

    def partners(
        self, there: Sequence[str], watched: Sequence[str], draw: Callable[[], float]
    ) -> list[str]:
        """log2 of those around it, at random; and if there are others, one of them."""
        near, far = [], []
        its = frozenset(watched)
        for name in there:
            if name in its:
                near.append(name)
            elif name != self._name:
                far.append(name)
        count = min(len(near), max(1, round(math.log2(len(near) + 1)))) if near else 0
        chosen = [near.pop(int(draw() * len(near))) for _ in range(count)]
        return [*chosen, far[int(draw() * len(far))]] if far else chosen

    def suspects(self, among: Iterable[str], now: float) -> list[str]:
        """Those that have been silent for too long. Who has never been heard of is given time."""
        found = []
        for name in among:
            if name == self._name:
                continue
            detector = self._detectors.setdefault(name, Detector(self._settings, now))
            if detector.suspects(now):
                found.append(name)
        return found

    def forget(self, name: str) -> None:
        """It is no member any more; if it comes back it is given time again."""
        self._detectors.pop(name, None)


def around(name: str, members: Iterable[str]) -> list[str]:
    """Those next to it in the circle of all, on both sides."""
    circle = sorted({*members, name})
    at, half = circle.index(name), AROUND // 2
    if len(circle) <= AROUND + 1:
        return [other for other in circle if other != name]
    near = range(at - half, at + half + 1)
    return [circle[place % len(circle)] for place in near if place != at]
