"""Segments of even length again, after matchers were lost.

What was a lost matcher's goes to whoever is next to it, at once, because what is next to it is filled least.
If several that were neighbours are lost, one inherits all of it. So when the table rests, and somebody has
more than `UNEVEN` times an even part of a dimension, or nothing of it, its borders are laid anew: matchers in
the order in which they are, an even part each. What changes hands is handed over, switched and forgotten as
ever (`handover`), all of it at the same time.

By length, not by subscriptions: that a part has few of them is what makes it worth being asked (004 section
III.A.2), and with borders where subscriptions are even no candidate would be better than another.

A pure function from a table to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from roost.partition.dimensions import Dimension
from roost.partition.handover import next_table, within
from roost.partition.segments import Segment, SegmentTable, even_row

UNEVEN = 2.0


def even_out(table: SegmentTable, matchers: Collection[str], *, writer: str) -> SegmentTable:
    """The first dimension on which these do not have even parts is laid anew; else the table as it is."""
    if not table.settled:
        return table
    for place in table.live:
        lengths = lengths_on(table, place)
        names = [name for name in lengths if name in matchers]
        missing = [name for name in sorted(matchers) if name not in lengths]
        even = sum(lengths.values()) / max(1, len(matchers))
        if len(names) != len(lengths) or even <= 0 or not names:
            continue  # somebody's is handed over first
        if missing or max(lengths.values()) > UNEVEN * even:
            rows = list(table.segments)
            rows[place] = laid(table.dimensions[place], rows[place], [*names, *missing])
            return next_table(table, rows, writer)
    return table


def lengths_on(table: SegmentTable, dimension: int) -> dict[str, float]:
    """How much of a dimension's extent each has, in the order of where they begin."""
    found: dict[str, float] = {}
    for place, segment in enumerate(table.segments[dimension]):
        low, high = within(table.dimensions[dimension], table.bound(dimension, place))
        found[segment.owner] = found.get(segment.owner, 0.0) + high - low
    return found


def laid(dimension: Dimension, row: Sequence[Segment], names: Sequence[str]) -> tuple[Segment, ...]:
    """The same segments, cut where even ones begin, each part on its way to whose it will be."""
    even = even_row(dimension, names)
    starts = sorted({segment.start for segment in (*row, *even)})
    found = []
    for start in starts:
        owner = [s.owner for s in row if s.start <= start][-1]
        heir = [s.owner for s in even if s.start <= start][-1]
        found.append(Segment(start, owner, heir="" if heir == owner else heir))
    assert found[0].start == -math.inf
    return tuple(found)
