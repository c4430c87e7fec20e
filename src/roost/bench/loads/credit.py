"""How far each subscriber is, in memory that the load processes have in common.

The publisher looks at it to stay within its window, so that no server has to drop messages of a subscriber
that can't keep up. Each number has one writer, and is a machine word, so nobody needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np


class Credit:
    """What all subscribers have received, of the warm-up and of the rest."""

    def __init__(self, path: Path, subscribers: int) -> None:
        self._warm, self._counts = np.memmap(path, np.int64, "r+", shape=(2, subscribers))

    @classmethod
    def create(cls, path: Path, subscribers: int) -> Credit:
        """Makes the file, in which nobody has received anything."""
        path.write_bytes(bytes(2 * subscribers * np.dtype(np.int64).itemsize))
        return cls(path, subscribers)

    def put(self, subscriber: int, warm: int, count: int) -> None:
        """So much one of them has received."""
        self._warm[subscriber] = warm
        self._counts[subscriber] = count

    def arrivals(self, *, warm: bool) -> Callable[[], int]:
        """A function that says how many messages have arrived at all of them, from now on."""
        row = self._warm if warm else self._counts
        before = row.copy()
        return lambda: int((row - before).min())
