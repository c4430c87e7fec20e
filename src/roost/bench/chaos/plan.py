"""What goes wrong, when and to whom: drawn from a seed, so that a run can be had again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Fault = Literal["kill", "stop", "fill"]

STOP_S = 5.0
FILL_S = 3.0
# How long a broker that was killed stays down, and how long all is left in peace before the next fault.
DOWN_S = (0.0, 1.5)
PEACE_S = (0.2, 1.0)


class Round(Struct, frozen=True):
    """One fault: it begins, lasts, and is over; then everything recovers, and there is peace for a while."""

    fault: Fault
    broker: str
    lasts_s: float
    peace_s: float


def rounds_of(
    seed: int, brokers: Sequence[str], *, kills: int, stops: int, fills: int
) -> list[Round]:
    """So many of each fault, in any order. Every broker has its share of each kind."""
    draw = random.Random(seed)
    rounds = []
    counts: tuple[tuple[Fault, int], ...] = (("kill", kills), ("stop", stops), ("fill", fills))
    for fault, count in counts:
        for number in range(count):
            lasts_s = {"kill": draw.uniform(*DOWN_S), "stop": STOP_S, "fill": FILL_S}[fault]
            broker = brokers[number % len(brokers)]
            rounds.append(Round(fault, broker, lasts_s, draw.uniform(*PEACE_S)))
    draw.shuffle(rounds)
    return rounds
