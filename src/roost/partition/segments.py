"""mPartition: which matcher has which part of the subscription space (004 section III.A).

Every dimension is cut into segments, half-open and without a gap; a matcher owns segments in each. What it
has to know for a segment is a *region*: all subscriptions whose footprint overlaps it. The region of a
segment is a *slab*, bounded on one dimension. For any event in a region, whoever has all subscriptions that
overlap the region has all that match the event: each of them has, on the region's dimensions, either the
whole line or a span with the event's coordinate in it. So **any matcher with a region is a candidate for
every event in it, and complete on its own.** An event has a candidate a dimension; where it lacks the
attribute, every segment of the dimension is one.

**Replicas.** Where the segments of one matcher meet, in its *box*, all candidates are the same matcher. The
paper copies subscriptions "all of whose copies fall on one matcher" to clockwise neighbours. That is not
enough: a subscription that reaches out of the box has other copies, and an event in the box has no other
candidate. So the neighbours get the box as a region: all subscriptions that overlap it on every dimension.
Each is the clockwise neighbour on another dimension but the first, k - 1 of them, and is asked when the
owner does not answer.

**Dimensions come and go** (`reshaping`). While one comes, its segments have heirs and no owners; while it
goes, former owners only. One that is gone leaves its number, with no segments, to the next that comes: the
numbers of others do not change.

**Who owns what** is open in the paper. By default matcher j owns segment j in every dimension (`aligned`);
see `owners` for others, and docs/PARTITION.md for how much it matters.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.partition.dimensions import Dimension, Footprint, Point

# Of a region on a dimension: (dimension, from, up to), the end not included.
Bound: TypeAlias = tuple[int, float, float]
Region: TypeAlias = tuple[Bound, ...]
# Which of a matcher's sets of subscriptions: the dimensions that its regions are bounded on.
SetKey: TypeAlias = tuple[int, ...]


class Segment(Struct, frozen=True, array_like=True):
    """From `start` to the start of the next one. Who else than its owner knows it: see `handover`.

    Without an owner: its dimension comes or goes.
    """

    start: float
    owner: str
    heir: str = ""  # whom it is handed over to
    former: str = ""  # who had it, and keeps it until all dispatchers know

    @property
    def holders(self) -> tuple[str, ...]:
        """All who have its region, or are about to."""
        return tuple(name for name in (self.owner, self.heir, self.former) if name)


class SegmentTable(Struct, frozen=True, array_like=True):
    """The global state. Of two tables the one with the higher version holds, else the later writer's."""

    version: int
    writer: str
    dimensions: tuple[Dimension, ...]
    segments: tuple[tuple[Segment, ...], ...]  # by dimension, in order; the first starts at -inf

    @property
    def stamp(self) -> tuple[int, str]:
        return (self.version, self.writer)

    @property
    def live(self) -> list[int]:
        """The dimensions along which somebody can be asked."""
        return [d for d, row in enumerate(self.segments) if any(s.owner for s in row)]

    @property
    def settled(self) -> bool:
        """Whether nothing changes hands."""
        return not any(s.heir or s.former for row in self.segments for s in row)

    def matchers(self) -> list[str]:
        """All that are in it, in any role."""
        found = {name: None for row in self.segments for s in row for name in s.holders}
        return sorted(found)

    def place(self, dimension: int, coordinate: float) -> int:
        """The segment that a coordinate is in."""
        return bisect_right(self.segments[dimension], coordinate, key=lambda s: s.start) - 1

    def bound(self, dimension: int, place: int) -> Bound:
        row = self.segments[dimension]
        end = row[place + 1].start if place + 1 < len(row) else math.inf
        return (dimension, row[place].start, end)

    def slabs(self, matcher: str) -> Iterator[Bound]:
        """The segments whose region a matcher has, in any role."""
        for dimension, row in enumerate(self.segments):
            for place, segment in enumerate(row):
                if matcher in segment.holders:
                    yield self.bound(dimension, place)

    def owned(self, matcher: str, dimension: int) -> list[int]:
        row = self.segments[dimension]
        return [place for place, segment in enumerate(row) if segment.owner == matcher]


class Option(Struct, frozen=True):
    """Whom an event may be sent to, and which of its sets is to be searched."""

    matcher: str
    key: SetKey


def newest(a: SegmentTable | None, b: SegmentTable) -> SegmentTable:
    """Which of two tables holds, whoever compares them."""
    return b if a is None or b.stamp > a.stamp else a


def even_table(
    dimensions: Sequence[Dimension], rows: Sequence[Sequence[str]], *, writer: str = ""
) -> SegmentTable:
    """Segments of equal length, one for each name of a row; a row a dimension."""
    return SegmentTable(
        1,
        writer,
        tuple(dimensions),
        tuple(even_row(dimension, row) for dimension, row in zip(dimensions, rows, strict=True)),
    )


def even_row(dimension: Dimension, names: Sequence[str]) -> tuple[Segment, ...]:
    """Segments of equal length along one dimension."""
    length = (dimension.high - dimension.low) / len(names)
    starts = [-math.inf, *(dimension.low + length * place for place in range(1, len(names)))]
    return tuple(Segment(start, name) for start, name in zip(starts, names, strict=True))


def owners(names: Sequence[str], dimensions: int, stride: int = 0) -> list[list[str]]:
    """Who owns which segment: in each dimension shifted by `stride` against the one before."""
    count = len(names)
    return [
        [names[(place + stride * dimension) % count] for place in range(count)]
        for dimension in range(dimensions)
    ]


# --- regions ----------------------------------------------------------------------------------------


def overlaps_region(footprint: Footprint, region: Region) -> bool:
    """Whether somebody who has the region needs the subscription."""
    return any(
        all(_meets(one[dimension], low, high) for dimension, low, high in region)
        for one in footprint
    )


def _meets(spans: tuple[tuple[float, float], ...] | None, low: float, high: float) -> bool:
    return spans is None or any(first < high and last >= low for first, last in spans)


def in_region(point: Point, region: Region) -> bool:
    """Whether whoever has the region has all that can match an event there."""
    for dimension, low, high in region:
        coordinate = point[dimension]
        if coordinate is not None and not low <= coordinate < high:
            return False
    return True


def in_regions(points: NDArray[np.float64], regions: Sequence[Region]) -> NDArray[np.bool_]:
    """Of each event (a column of coordinates, NaN for none) whether it is in any of these."""
    found = np.zeros(points.shape[1], np.bool_)
    for region in regions:
        inside = np.ones(points.shape[1], np.bool_)
        for dimension, low, high in region:
            row = points[dimension]
            inside &= ((row >= low) & (row < high)) | np.isnan(row)
        found |= inside
    return found


def key_of(region: Region) -> SetKey:
    """The set that a region belongs to."""
    return tuple(dimension for dimension, _, _ in region)


def boxes(table: SegmentTable, matcher: str) -> list[Region]:
    """Where a matcher is the only candidate. With one dimension that is everywhere, and has no replicas."""
    live = table.live
    if len(live) == 1:
        return []
    rows = [
        _joined([table.bound(dimension, place) for place in table.owned(matcher, dimension)])
        for dimension in live
    ]
    return [tuple(box) for box in product(*rows)]


def _joined(bounds: list[Bound]) -> list[Bound]:
    """Segments that touch as one."""
    found: list[Bound] = []
    for bound in bounds:
        if found and found[-1][2] == bound[1]:
            found[-1] = (bound[0], found[-1][1], bound[2])
        else:
            found.append(bound)
    return found


def clockwise(table: SegmentTable, matcher: str) -> list[str]:
    """The next other owner on every dimension but the first; nobody twice."""
    found: dict[str, None] = {}
    for dimension in table.live[1:]:
        row = [segment.owner for segment in table.segments[dimension]]
        places = table.owned(matcher, dimension)
        if places:
            behind = row[places[-1] + 1 :] + row[: places[-1] + 1]
            other = next((name for name in behind if name not in ("", matcher)), None)
            if other is not None:
                found[other] = None
    return list(found)


def regions_of(table: SegmentTable, matcher: str) -> tuple[Region, ...]:
    """All that a matcher has to know: its segments, and the boxes of those whose neighbour it is."""
    slabs: list[Region] = [(bound,) for bound in table.slabs(matcher)]
    for other in table.matchers():
        if other != matcher and matcher in clockwise(table, other):
            slabs += boxes(table, other)
    return tuple(slabs)


# --- where things go --------------------------------------------------------------------------------


def copies(table: SegmentTable, footprint: Footprint) -> list[tuple[str, int]]:
    """(matcher, dimension): the copies of a subscription by the paper's rule, replicas apart."""
    return [
        (segment.owner, dimension)
        for dimension, row in enumerate(table.segments)
        for place, segment in enumerate(row)
        if segment.owner and overlaps_region(footprint, (table.bound(dimension, place),))
    ]


def options(table: SegmentTable, point: Point) -> list[Option]:
    """The candidates of an event: an owner a dimension, any where it lacks the attribute."""
    found: dict[Option, None] = {}
    for dimension, coordinate in enumerate(point):
        row = table.segments[dimension]
        if coordinate is not None and row:
            row = (row[table.place(dimension, coordinate)],)
        for segment in row:
            if segment.owner:
                found[Option(segment.owner, (dimension,))] = None
    return list(found)


class Finder:
    """`options` of one table, prepared: it is asked for every event."""

    def __init__(self, table: SegmentTable) -> None:
        self.dimensions = table.dimensions
        self.live = table.live
        self._rows = [
            (
                [segment.start for segment in row],
                [Option(segment.owner, (dimension,)) if segment.owner else None for segment in row],
            )
            for dimension, row in enumerate(table.segments)
        ]
        # All, by number; and by dimension where segments begin, and the number of whoever owns each. Who is
        # nobody has the number behind the last.
        numbers: dict[Option, int] = {}
        for _, owners in self._rows:
            for option in owners:
                if option is not None:
                    numbers.setdefault(option, len(numbers))
        self.all = list(numbers)
        self._arrays = [
            (
                np.array(self._rows[d][0]),
                np.array(
                    [numbers.get(o, len(numbers)) if o else len(numbers) for o in self._rows[d][1]]
                ),
            )
            for d in self.live
        ]

    def many(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """For events that have all attributes: the numbers of their candidates, by live dimension."""
        found = np.empty((len(self.live), points.shape[1]), np.int64)
        for place, (starts, owners) in enumerate(self._arrays):
            coordinates = points[self.live[place]]
            found[place] = owners[np.searchsorted(starts, coordinates, "right") - 1]
        return found

    def options(self, point: Point) -> list[Option]:
        found: list[Option | None] = []
        for (starts, owners), coordinate in zip(self._rows, point, strict=True):
            if coordinate is None:
                found += dict.fromkeys(owners)
            elif owners:
                found.append(owners[bisect_right(starts, coordinate) - 1])
        return [option for option in found if option is not None]


def spare_options(table: SegmentTable, point: Point) -> list[Option]:
    """Whom to ask when no candidate answers: who had a segment, then the replicas of a box."""
    found: dict[Option, None] = {}
    for dimension, coordinate in enumerate(point):
        if coordinate is not None and table.segments[dimension]:
            former = table.segments[dimension][table.place(dimension, coordinate)].former
            if former:
                found[Option(former, (dimension,))] = None
    first = {option.matcher: None for option in options(table, point)}
    if len(first) == 1:
        (only,) = first
        every = tuple(table.live)
        if any(in_region(point, box) for box in boxes(table, only)):
            for name in clockwise(table, only):
                found[Option(name, every)] = None
    return list(found)


def gaps(table: SegmentTable) -> list[str]:
    """What is wrong with a table, in words: nothing, if every coordinate is somebody's."""
    wrong = []
    if len(table.segments) != len(table.dimensions):
        wrong.append(f"{len(table.segments)} rows for {len(table.dimensions)} dimensions")
    for dimension, row in enumerate(table.segments):
        if row and row[0].start != -math.inf:
            wrong.append(f"dimension {dimension} does not start at -inf")
        if any(a.start >= b.start for a, b in pairwise(row)):
            wrong.append(f"dimension {dimension}: segments are out of order")
    if not any(row and all(segment.owner for segment in row) for row in table.segments):
        wrong.append("no dimension is somebody's all over")
    return wrong
