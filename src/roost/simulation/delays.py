"""Delays of millions of deliveries, in a few kilobytes: counts in bins of a constant relative width."""

from __future__ import annotations

import numpy as np

# Bins grow by this factor: a quantile is right to about 1 %.
GROWTH = 1.02
SMALLEST_S = 1e-6


class Delays:
    """How long things took."""

    def __init__(self) -> None:
        # For the hot path: append to it, and `flush` now and then.
        self.fresh: list[float] = []
        self._bins: dict[int, int] = {}
        self._count = 0
        self._total = 0.0
        self._maximum = 0.0

    def flush(self) -> None:
        """Put what has been gathered into the bins."""
        if not self.fresh:
            return
        values = np.asarray(self.fresh)
        self.fresh.clear()
        self._count += len(values)
        self._total += float(values.sum())
        self._maximum = max(self._maximum, float(values.max()))
        above = np.maximum(values, SMALLEST_S) / SMALLEST_S
        numbers, counts = np.unique(
            (np.log(above) / np.log(GROWTH)).astype(int), return_counts=True
        )
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._bins[number] = self._bins.get(number, 0) + count

    @property
    def count(self) -> int:
        self.flush()
        return self._count

    @property
    def mean(self) -> float:
        return self._total / self._count if self.count else 0.0

    @property
    def maximum(self) -> float:
        self.flush()
        return self._maximum

    def quantile(self, share: float) -> float:
        """The delay that this share of all did not exceed, to about 1 %."""
        rank = share * self.count
        for number, count in sorted(self._bins.items()):
            rank -= count
            if rank <= 0:
                return min(SMALLEST_S * GROWTH ** (number + 1), self._maximum)
        return self._maximum
