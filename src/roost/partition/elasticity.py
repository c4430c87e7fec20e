"""When a service needs a matcher more, and when it can do with one less (004 section IV.E).

A dispatcher judges by the time from an event's acceptance to its answer, a mean for each second.

    saturated   it keeps growing (IV.B, figure 5: more comes than can be matched, and what waits grows by as
                much each second), and some matcher hardly rests; or so much waits that it would take long to
                be worked off
    idle        matchers rest so much that one of them could go

Growth is told by ranks, not by a line through the points: one second in which much came at once moves the
line, and hardly a rank. All are pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Final, Literal, TypeAlias

Wish: TypeAlias = Literal["", "more", "fewer"]

# Of all pairs of seconds, by how many more the later one has to be the slower one, as a share (Kendall's
# tau).
ORDERED: Final = 0.6
# Seconds that are added to the response time each second: that much of the rate is too much.
STEEP: Final = 0.02
# While all matchers are busy for less of their time, what grows is not their queues.
BUSY: Final = 0.7
# What waits has to be worked off within so long, at the pace of the last seconds.
RECOVERY_S: Final = 20.0


def slope(times_s: Sequence[float]) -> float:
    """By how much they grow a second: the median over all pairs (Theil and Sen's)."""
    pairs = combinations(enumerate(times_s), 2)
    return median([(b - a) / (j - i) for (i, a), (j, b) in pairs]) if len(times_s) > 1 else 0.0


def order(times_s: Sequence[float]) -> float:
    """How much they are in order (Kendall's tau): 1 if each is longer than all before it, -1 if shorter."""
    signs = [(b > a) - (b < a) for a, b in combinations(times_s, 2)]
    return sum(signs) / len(signs) if signs else 0.0


def keeps_growing(times_s: Sequence[float]) -> bool:
    """Whether response times, second by second, show that more comes than can be matched."""
    return slope(times_s) >= STEEP and order(times_s) >= ORDERED


def is_behind(times_s: Sequence[float], bearable_s: float) -> bool:
    """Whether they are long, and stay so."""
    if not times_s or min(times_s) < bearable_s:
        return False
    return times_s[-1] > -slope(times_s) * RECOVERY_S


def is_saturated(times_s: Sequence[float], bearable_s: float, busiest: float) -> bool:
    """By response times, and by what share of its time the busiest matcher is."""
    return (busiest >= BUSY and keeps_growing(times_s)) or is_behind(times_s, bearable_s)


def spare(busy: Mapping[str, float], busy_max: float) -> str:
    """The matcher that could go, by what share of its time each is busy; nobody if none can.

    With one less of N each has N / (N - 1) times as many messages, and about as many times more
    subscriptions to search for each. Who is least busy goes, for it has least to hand over.
    """
    count = len(busy)
    if count < 2:
        return ""
    afterwards = sum(busy.values()) / count * (count / (count - 1)) ** 2
    return min(sorted(busy), key=lambda name: busy[name]) if afterwards <= busy_max else ""
