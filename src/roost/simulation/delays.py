"""Delays of millions of deliveries, in a few kilobytes: counts in bins of a constant relative width."""

from __future__ import annotations

import math

# Bins grow by this factor: a quantile is right to about 1 %.
GROWTH = 1.02
SMALLEST_S = 1e-6
_LOG_GROWTH = math.log(GROWTH)


class Delays:
    """How long things took."""

    __slots__ = ("_bins", "count", "maximum", "total")

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0

    def add(self, delay_s: float) -> None:
        self.count += 1
        self.total += delay_s
        self.maximum = max(self.maximum, delay_s)
        bin_ = int(math.log(delay_s / SMALLEST_S) / _LOG_GROWTH) if delay_s > SMALLEST_S else -1
        self._bins[bin_] = self._bins.get(bin_, 0) + 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The delay that this share of all did not exceed, to about 1 %."""
        rank = share * self.count
        for bin_, count in sorted(self._bins.items()):
            rank -= count
            if rank <= 0:
                return min(SMALLEST_S * GROWTH ** (bin_ + 1), self.maximum) if bin_ >= 0 else 0.0
        return self.maximum
