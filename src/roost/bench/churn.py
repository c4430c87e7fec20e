"""Matching while subscriptions come and go, in one thread.

Between two matches as many subscriptions are replaced (one removed, another added) as are due by
the clock. A stall is the longest that any single call took: a match, an addition or a removal.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

from roost.language import Event, Filter
from roost.matching import Matcher


@dataclass(frozen=True)
class Churned:
    """What was measured, and which subscriptions there are now."""

    events_per_s: float
    replaced_per_s: float
    stall_ms_max: float
    live: dict[int, Filter]


def churn(
    matcher: Matcher,
    live: dict[int, Filter],
    newcomers: Sequence[Filter],
    events: Sequence[Event],
    per_s: float,
    seconds: float,
) -> Churned:
    """Match `events`, over and over, while `per_s` subscriptions a second are replaced.

    `live` are the subscriptions of the matcher; the longest there goes first, and its place is
    taken by the next of the newcomers under an id of its own.
    """
    live = dict(live)
    leaving = iter(list(live))
    gc.freeze()  # or the collector would go through our own list of what is live, and that is a stall
    next_id = max(live) + 1
    clock = time.perf_counter
    matched = replaced = 0
    stall = 0.0
    start = now = clock()
    while now - start < seconds:
        due = min(int((now - start) * per_s), len(live)) - replaced
        for _ in range(due):
            leaver, newcomer = next(leaving), newcomers[replaced % len(newcomers)]
            before = clock()
            matcher.remove(leaver)
            between = clock()
            matcher.add(next_id, newcomer)
            stall = max(stall, between - before, clock() - between)
            del live[leaver]
            live[next_id] = newcomer
            next_id += 1
            replaced += 1
        before = clock()
        matcher.match(events[matched % len(events)])
        now = clock()
        stall = max(stall, now - before)
        matched += 1
    took = now - start
    return Churned(matched / took, replaced / took, 1_000 * stall, live)
