"""Gossip among matchers: who is there, and which table holds (004 section III.C).

Every second a matcher adds one to its own heartbeat and tells log2 N others, drawn at random, the highest
heartbeats that it has heard of all, and the stamp of its table. Whoever has a newer table sends it back;
whoever has an older one asks. So a table is sent only where it is news, and a change is everywhere after
about log N rounds.

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

    def digest(self, stamps: dict[str, Stamp]) -> Digest:
        return Digest(stamps, dict(sorted(self.beats.items())))

    def hear(self, digest: Digest, now: float) -> None:
        """Take over what is newer."""
        for name, beat in digest.beats.items():
            if name != self._name and beat > self.beats.get(name, (0, 0)):
                self.beats[name] = beat
                if name in self._detectors:
                    self._detectors[name].beat(now)
                else:
                    self._detectors[name] = Detector(self._settings, now)

    def partners(self, there: Sequence[str], draw: Callable[[], float]) -> list[str]:
        """log2 N of the others, at random."""
        others = [name for name in there if name != self._name]
        count = min(len(others), max(1, round(math.log2(len(others) + 1)))) if others else 0
        return [others.pop(int(draw() * len(others))) for _ in range(count)]

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
