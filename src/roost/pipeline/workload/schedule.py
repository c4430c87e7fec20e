"""Who publishes when: many publishers, each at its own pace, merged in the order of time.

A publisher's n-th publication (from 0) is n intervals after the start; an interval is a whole number of
microseconds, so all of this is exact. Those of the same moment stand in the order of the publishers. How
many there are until a time is a sum of quotients, so that the place of any row can be looked up without the
rows before it: find the time at which so many have been published, and list what is published around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roost.errors import UserError
from roost.pipeline.workload.blocks import Integers

US_A_MINUTE = 60_000_000


class Turns(NamedTuple):
    """A row each: who publishes (a number), which of its publications it is, and when."""

    publisher: Integers
    sequence: Integers
    time_us: Integers


class Schedule:
    """The turns of publishers with these rates; whoever has a rate of 0 never publishes."""

    def __init__(self, rates_per_min: Sequence[float]) -> None:
        rates = np.asarray(rates_per_min, np.float64)
        self.active = np.flatnonzero(rates > 0)
        if not len(self.active):
            raise UserError(
                f"none of the {len(rates)} publishers publishes; expected a rate above 0"
            )
        self.interval_us = np.rint(US_A_MINUTE / rates[self.active]).astype(np.int64).clip(1)
        self._per_us = float((1 / self.interval_us).sum())

    def count(self, time_us: int) -> int:
        """How many publications there are until then, and then."""
        return 0 if time_us < 0 else int((time_us // self.interval_us + 1).sum())

    def time_of(self, row: int) -> int:
        """When that row is published."""
        # Each publisher is ahead of its rate by at most one: that bounds the time from both sides.
        low = int(max(row - len(self.active), 0) / self._per_us * (1 - 1e-9)) - 2
        high = int((row + 1) / self._per_us * (1 + 1e-9)) + 2
        while high - low > 1:
            middle = (low + high) // 2
            if self.count(middle) > row:
                high = middle
            else:
                low = middle
        return high

    def turns(self, first: int, rows: int) -> Turns:
        """The rows from `first` on."""
        start, end = self.time_of(first), self.time_of(first + rows - 1)
        begin = -(-start // self.interval_us)
        counts = end // self.interval_us + 1 - begin
        who = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(who)) - np.repeat(counts.cumsum() - counts, counts)
        sequence = begin[who] + within
        time = sequence * self.interval_us[who]
        skipped = first - self.count(start - 1)
        # Stable, and the publishers are in order: so are those of the same moment.
        order = np.argsort(time, kind="stable")[skipped : skipped + rows]
        return Turns(self.active[who[order]], sequence[order], time[order])
