"""Accrual failure detection: not whether somebody is gone, but how sure one can be (004 section III.C, after
Cassandra's).

A detector hears heartbeats, and says of a silence how unlikely it is: `phi` is minus the decimal logarithm
of the probability that whoever is there would have been silent for so long. At 8 one is wrong once in 10^8.

Cassandra takes intervals for exponential: phi grows as t / (mean ln 10), and reaches 8 after 18.4 times the
mean. With a heartbeat a second that is the paper's 17.5 s until a crash is noticed. Intervals between
heartbeats that gossip carries vary far less than that. `NORMAL` takes them for normal, with a deviation
that is measured and never below a floor, and is as sure after a few seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

# Intervals that are remembered.
WINDOW = 100
# phi beyond which no more is said: the probability is smaller than a float can tell.
MOST = 300.0


class AccrualSettings(Struct, frozen=True, kw_only=True):
    """How a detector judges."""

    model: str = "normal"
    first_s: float = 1.0  # the interval that is expected before any has been seen
    deviation_min_s: float = 0.3
    threshold: float = 8.0


class Detector:
    """The heartbeats of one machine."""

    def __init__(self, settings: AccrualSettings, now: float) -> None:
        self._settings = settings
        self._model = MODELS[settings.model]
        self._intervals: deque[float] = deque([settings.first_s], maxlen=WINDOW)
        self._last = now

    def beat(self, now: float) -> None:
        """It is there."""
        self._intervals.append(now - self._last)
        self._last = now

    def phi(self, now: float) -> float:
        """How sure one can be that it is not."""
        count = len(self._intervals)
        mean = sum(self._intervals) / count
        variance = sum((interval - mean) ** 2 for interval in self._intervals) / count
        deviation = max(self._settings.deviation_min_s, math.sqrt(variance))
        return min(MOST, self._model(now - self._last, mean, deviation))

    def suspects(self, now: float) -> bool:
        return self.phi(now) >= self._settings.threshold


def exponential(silence_s: float, mean_s: float, _: float) -> float:
    return silence_s / (mean_s * math.log(10.0))


def normal(silence_s: float, mean_s: float, deviation_s: float) -> float:
    later = 0.5 * math.erfc((silence_s - mean_s) / (deviation_s * math.sqrt(2.0)))
    return -math.log10(later) if later > 0.0 else MOST


MODELS: Final[Mapping[str, Callable[[float, float, float], float]]] = {
    "exponential": exponential,
    "normal": normal,
}
