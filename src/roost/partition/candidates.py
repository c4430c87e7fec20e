"""Whom to ask about events, one or many at a time.

Many that come at once are divided by way of arrays: where each is on every dimension, which candidates that
makes, and which of those comes first by the policy. The policy sees what has been sent after every `PART`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan

import numpy as np
from numpy.typing import NDArray

from roost.partition.batch import Points
from roost.partition.dimensions import Dimension, Point
from roost.partition.forwarding import POLICIES, at_random, choose
from roost.partition.segments import Finder, Option, SegmentTable, spare_options
from roost.partition.sights import Sights

# Fewer are divided one by one.
MANY = 16
PART = 128

Division = list[tuple[Option, NDArray[np.int64]]]


class Candidates:
    """Of one dispatcher. `is_there(matcher)`: it can be asked; `draw()` is a random number below 1."""

    def __init__(
        self,
        policy: str,
        sights: Sights,
        is_there: Callable[[str], bool],
        draw: Callable[[], float],
    ) -> None:
        self._policy = POLICIES[policy]
        self._sights = sights
        self._is_there = is_there
        self._draw = draw
        self._table: SegmentTable

    def adopt(self, table: SegmentTable) -> None:
        self._table = table
        self._finder = Finder(table)

    @property
    def dimensions(self) -> Sequence[Dimension]:
        """What coordinates are on."""
        return self._finder.dimensions

    def divide(
        self, points: Points, tried: Sequence[Sequence[Option]], now: float
    ) -> tuple[Division, list[int]]:
        """Who is asked about which events, and those that there is nobody for."""
        left: Sequence[int] = range(points.shape[1])
        division: Division = []
        are_alike = self._policy is not at_random and not any(tried)
        if are_alike and len(left) >= MANY and not np.isnan(points[self._finder.live]).any():
            division, left = self._divide_many(points, now)
        asked: dict[Option, list[int]] = {}
        nobody = []
        for place in left:
            coordinates = [None if isnan(c) else c for c in points[:, place].tolist()]
            option = self._one(tuple(coordinates), tried[place], now)
            if option is None:
                nobody.append(place)
            else:
                self._sights.sent(option, 1, now)
                asked.setdefault(option, []).append(place)
        return [*division, *((o, np.array(places)) for o, places in asked.items())], nobody

    def _one(self, point: Point, tried: Sequence[Option], now: float) -> Option | None:
        """The best candidate that has not been asked."""
        for some in (self._finder.options(point), spare_options(self._table, point)):
            there = [o for o in some if o not in tried and self._is_there(o.matcher)]
            if there:
                sights = [self._sights.sight(option, now) for option in there]
                return there[choose(self._policy, sights, self._draw)]
        return None

    def _divide_many(self, points: Points, now: float) -> tuple[Division, list[int]]:
        """The same for all at once; those are left whose candidates are not there."""
        options, picks = self._finder.all, self._finder.many(points)
        chosen = np.empty(points.shape[1], np.int64)
        for start in range(0, len(chosen), PART):
            part = picks[:, start : start + PART]
            ranks = self._ranks(options, now)
            best = ranks[part].argmin(axis=0)
            numbers = part[best, np.arange(part.shape[1])]
            chosen[start : start + PART] = np.where(ranks[numbers] < len(options), numbers, -1)
            counts = np.bincount(numbers)
            for number in np.flatnonzero(counts).tolist():
                if ranks[number] < len(options):
                    self._sights.sent(options[number], int(counts[number]), now)
        order = np.argsort(chosen, kind="stable")
        numbers, starts = np.unique(chosen[order], return_index=True)
        parts = dict(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))
        left = parts.pop(-1, np.empty(0, np.int64)).tolist()
        return [(options[number], places) for number, places in parts.items()], left

    def _ranks(self, options: Sequence[Option], now: float) -> NDArray[np.int64]:
        """The place of each among all by the policy; of who is not there, behind the last."""
        keys = []
        for number, option in enumerate(options):
            if self._is_there(option.matcher):
                drawn = self._draw()
                keys.append((self._policy(self._sights.sight(option, now), drawn), drawn, number))
        ranks = np.full(len(options) + 1, len(options))  # nobody is behind the last, too
        ranks[[number for _, _, number in sorted(keys)]] = np.arange(len(keys))
        return ranks
