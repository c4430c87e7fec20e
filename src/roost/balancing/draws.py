"""Numbers that look random and are the same in every run: from a broker's name and a count.

A module keeps no random source. What is drawn depends on who draws, for what, and how often before; so two
brokers never draw in step, and a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

Thing = TypeVar("Thing")


class Draws:
    """Those of one broker."""

    def __init__(self, broker: str, seed: int = 0) -> None:
        self._whose = f"{seed}/{broker}" if seed else broker
        self._count = 0

    def between(self, low: float, high: float, what: str = "") -> float:
        """Uniformly, from `low` on and below `high`."""
        self._count += 1
        text = f"{self._whose}/{what}/{self._count}".encode()
        share = int.from_bytes(blake2b(text, digest_size=7).digest()) / 2**56
        return low + (high - low) * share

    def choice(self, things: Sequence[Thing], what: str = "") -> Thing:
        """One of them; there has to be one."""
        return things[int(self.between(0, len(things), what))]
