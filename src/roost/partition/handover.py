"""Matchers come and go: hand over, switch, forget (004 sections III.C and IV.E).

A segment changes hands in three steps, each a new version of the table. At every one of them a message
finds a candidate that is complete, whichever of the versions its dispatcher has:

    step        what the table says then       when                                       who answers
    hand over   owner, and an heir             a matcher joins, leaves, or is lost        the owner
    switch      the heir owns; a former owner  every dispatcher has filled the heir       both
    forget      the owner                      every dispatcher has the switched table    the owner
    abandon     the owner, without the heir    the heir is lost before the switch         the owner

Dimensions that come and go take the same steps: see `reshaping`.

A matcher that is lost can't answer, and what falls to it is answered by candidates on other dimensions until
the switch. One that leaves stays until all that it had is forgotten.

The paper contradicts itself on who is split. `join_one` is III.C: of one loaded matcher, half of each
segment. `join_each` is IV.E, and the default: in each dimension half of the segment that is loaded most. A
segment is split where the subscriptions on both sides are as many (`middle`), which IV.E says and III.C
leaves open.

All are pure functions from a table to the next one. Who may write one: any dispatcher. Two that write at the
same time do no harm (see `segments.newest`): the step that is lost is taken again by whoever waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import structs

from roost.errors import UserError
from roost.partition.dimensions import Dimension, Span
from roost.partition.segments import Bound, Segment, SegmentTable, even_table, owners

Phase: TypeAlias = Literal["kept", "handed over", "switched"]
Step: TypeAlias = Literal["hand over", "switch", "forget", "abandon"]

# What each step makes of a segment; a step that is not here is not taken.
STEPS: Final[Mapping[tuple[Phase, Step], Phase]] = {
    ("kept", "hand over"): "handed over",
    ("handed over", "switch"): "switched",
    ("handed over", "abandon"): "kept",
    ("switched", "forget"): "kept",
}

# (dimension, matcher) -> how much it is loaded there, in any unit.
Loads: TypeAlias = Mapping[tuple[int, str], float]
# Of some subscriptions, what they take of a part of a dimension.
SpansIn: TypeAlias = Callable[[Bound], Sequence[Span]]


def phase_of(segment: Segment) -> Phase:
    """The step that it was last taken to."""
    if segment.heir:
        return "handed over"
    return "switched" if segment.former else "kept"


def taken(segment: Segment, step: Step, heir: str = "") -> Segment:
    """A segment after a step; as it was if the step can't be taken."""
    if (phase_of(segment), step) not in STEPS:
        return segment
    match step:
        case "hand over":
            return structs.replace(segment, heir=heir) if heir != segment.owner else segment
        case "switch":
            return Segment(segment.start, segment.heir, former=segment.owner)
        case "forget" | "abandon":
            return Segment(segment.start, segment.owner)


# --- joining ----------------------------------------------------------------------------------------


def join_each(
    table: SegmentTable,
    joiner: str,
    loads: Loads,
    spans: SpansIn = lambda _: (),
    *,
    writer: str,
) -> SegmentTable:
    """IV.E: in each dimension, half of the segment of the matcher that is loaded most there."""
    rows = []
    for dimension, row in enumerate(table.segments):
        victims = _by_load(table, dimension, loads)
        place = next((p for p in victims if row[p].owner != joiner), None)
        rows.append(row if place is None else _split(table, dimension, place, joiner, spans))
    return next_table(table, rows, writer)


def join_one(
    table: SegmentTable,
    joiner: str,
    loads: Loads,
    spans: SpansIn = lambda _: (),
    *,
    writer: str,
) -> SegmentTable:
    """III.C: half of each segment of the matcher that is loaded most over all dimensions."""
    total: dict[str, float] = {}
    for dimension, row in enumerate(table.segments):
        for segment in row:
            load = loads.get((dimension, segment.owner), 0.0)
            total[segment.owner] = total.get(segment.owner, 0.0) + load
    for nobody in (joiner, ""):
        total.pop(nobody, None)
    if not total:
        return table
    victim = max(sorted(total), key=lambda name: total[name])
    rows = []
    for dimension, row in enumerate(table.segments):
        its = [p for p in _by_load(table, dimension, loads) if row[p].owner == victim]
        rows.append(_split(table, dimension, its[0], joiner, spans) if its else row)
    return next_table(table, rows, writer)


JOINS: Final = {"each": join_each, "one": join_one}


def _by_load(table: SegmentTable, dimension: int, loads: Loads) -> list[int]:
    """Segments that can be split, the most loaded first; of equal ones the longest."""
    row = table.segments[dimension]

    def order(place: int) -> tuple[float, float, int]:
        low, high = within(table.dimensions[dimension], table.bound(dimension, place))
        return (-loads.get((dimension, row[place].owner), 0.0), low - high, place)

    whole = (p for p, s in enumerate(row) if phase_of(s) == "kept" and s.owner)
    return sorted(whole, key=order)


def _split(
    table: SegmentTable, dimension: int, place: int, joiner: str, spans: SpansIn
) -> tuple[Segment, ...]:
    row = table.segments[dimension]
    segment, bound = row[place], table.bound(dimension, place)
    at = middle(table.dimensions[dimension], bound, spans(bound))
    if at is None:
        return row
    second = taken(Segment(at, segment.owner), "hand over", joiner)
    return (*row[: place + 1], second, *row[place + 1 :])


def middle(dimension: Dimension, bound: Bound, spans: Sequence[Span]) -> float | None:
    """Where to cut a segment so that the fuller half has the fewest subscriptions; None: it is a point.

    A subscription that lies on both sides counts on both. Without any, in the middle of its length.
    """
    _, start, end = bound
    low, high = within(dimension, bound)
    best, at = math.inf, (low + high) / 2
    if len(spans):
        cuts = sorted({edge for span in spans for edge in span if start < edge < end})
        for cut in [*_thinned(cuts), at]:
            left = sum(first < cut for first, _ in spans)
            right = sum(last >= cut for _, last in spans)
            # Of equal cuts, the one nearest to the middle.
            if (worst := max(left, right)) < best:
                best, at = worst, cut
    return at if start < at < end else None


def _thinned(cuts: list[float], most: int = 64) -> list[float]:
    return cuts[:: max(1, len(cuts) // most)]


def within(dimension: Dimension, bound: Bound) -> tuple[float, float]:
    """The part of a segment in the extent of its dimension; if it has none, as much as the extent is long."""
    _, start, end = bound
    length = dimension.high - dimension.low
    low, high = start, end
    if not math.isfinite(low):
        low = dimension.low if dimension.low < end else end - length
    if not math.isfinite(high):
        high = dimension.high if dimension.high > low else low + length
    return low, high


# --- leaving ----------------------------------------------------------------------------------------


def leave(
    table: SegmentTable, leaver: str, loads: Loads, *, away: Collection[str] = (), writer: str
) -> SegmentTable:
    """Its segments go to adjacent matchers, on each side the one that is loaded less; also if it is lost.

    `away`: others that can't take any. If nobody is left the table stays as it is.
    """
    rows = []
    for dimension, row in enumerate(table.segments):
        left: list[Segment] = []
        for place, segment in enumerate(row):
            now = segment
            if leaver == now.heir and not now.owner:  # its dimension comes: somebody has to have it
                heir = _adjacent(row, place, {"", leaver, *away}, dimension, loads)
                now = structs.replace(now, heir=heir or leaver)
            elif leaver == now.heir:
                now = taken(now, "abandon")
            if leaver == now.former:
                now = taken(now, "forget")
            if leaver == now.owner and now.heir in away:
                now = taken(now, "abandon")
            if leaver == now.owner and not now.heir:
                not_these = {leaver, *away}
                # Who had it until now has it still.
                back = now.former if now.former not in not_these else ""
                heir = back or _adjacent(row, place, not_these, dimension, loads)
                now = taken(taken(now, "forget"), "hand over", heir) if heir else now
            left.append(now)
        rows.append(tuple(left))
    return next_table(table, rows, writer)


def _adjacent(
    row: Sequence[Segment], place: int, not_these: set[str], dimension: int, loads: Loads
) -> str:
    def nearest(order: Sequence[Segment]) -> str:
        names = (s.owner or s.heir for s in order)
        return next((name for name in names if name and name not in not_these), "")

    sides = [nearest(row[place + 1 :]), nearest(row[:place][::-1])]
    there = [name for name in sides if name]
    return min(there, key=lambda name: loads.get((dimension, name), 0.0)) if there else ""


# --- the other steps --------------------------------------------------------------------------------


def switch(table: SegmentTable, heir: str, *, writer: str) -> SegmentTable:
    """All that is handed over to a matcher that has been filled is its own."""
    rows = [
        tuple(taken(s, "switch") if s.heir == heir else s for s in row) for row in table.segments
    ]
    return next_table(table, rows, writer)


def forget(table: SegmentTable, *, writer: str) -> SegmentTable:
    """Former owners forget; segments of one owner that touch become one."""
    rows = []
    for row in table.segments:
        found: list[Segment] = []
        for segment in (taken(s, "forget") for s in row):
            last = found[-1] if found else None
            if last is None or last != structs.replace(segment, start=last.start) or segment.heir:
                found.append(segment)
        rows.append(tuple(found))
    return next_table(table, rows, writer)


def next_table(
    table: SegmentTable, rows: Sequence[tuple[Segment, ...]], writer: str
) -> SegmentTable:
    """The table with these rows: a new version, if anything is different. A row that nobody has is empty."""
    rows = [row if any(s.holders for s in row) else () for row in rows]
    if tuple(rows) == table.segments:
        return table
    return SegmentTable(table.version + 1, writer, table.dimensions, tuple(rows))


def first_table(
    dimensions: Sequence[Dimension], matchers: Sequence[str], stride: int = 0
) -> SegmentTable:
    """What a service begins with."""
    if not dimensions or not matchers:
        raise UserError(
            f"a partition of {len(dimensions)} dimensions and {len(matchers)} matchers;"
            " expected at least one of each"
        )
    return even_table(dimensions, owners(matchers, len(dimensions), stride))
