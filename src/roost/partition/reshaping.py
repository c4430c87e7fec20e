"""Dimensions come and go while events do (004 section VI: "identify these attributes and adjust").

A dimension takes the steps that a segment takes when it changes hands (`handover`), all of its segments at
once, and at each of them the other dimensions have candidates that are complete:

    step      what the table says then    when                                    who answers along it
    come      heirs, and no owners        it is worth it                          nobody
    switch    owners                      every dispatcher has filled the heir    owners, one after the other
    go        former owners only          another is there, and it is not worth   former owners, if asked
    forget    no segments                 every dispatcher has that table         nobody

What matchers are promised is bounds on a dimension's number, with what the number stands for. So a number
that stands for something else to one dispatcher than to another does no harm: a matcher judges what each has
promised by what that one said, and answers if all have promised a part with the event in it.

Pure functions from a table to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from roost.partition.dimensions import Dimension
from roost.partition.handover import next_table, phase_of
from roost.partition.segments import Segment, SegmentTable, even_row

# The dimension of a service that knows no attribute yet: no event has it, so all of its segments are
# candidates of every event, and have all subscriptions.
EVERYWHERE = Dimension("")


def come(
    table: SegmentTable, dimension: Dimension, matchers: Sequence[str], *, writer: str
) -> SegmentTable:
    """One more, in equal segments, for these matchers; nothing, if it is there or they are none."""
    there = [d.attribute for d, row in zip(table.dimensions, table.segments, strict=True) if row]
    if dimension.attribute in there or not matchers:
        return table
    row = tuple(Segment(s.start, "", heir=s.owner) for s in even_row(dimension, matchers))
    dimensions, rows = list(table.dimensions), list(table.segments)
    free = next((place for place, its in enumerate(rows) if not its), len(rows))
    dimensions[free:] = [dimension, *dimensions[free + 1 :]]
    rows[free:] = [row, *rows[free + 1 :]]
    return next_table(structs.replace(table, dimensions=tuple(dimensions)), rows, writer)


def go(table: SegmentTable, attribute: str, *, writer: str) -> SegmentTable:
    """One less, if it rests, and another is somebody's all over; else nothing."""
    rows = list(table.segments)
    for place, dimension in enumerate(table.dimensions):
        row = rows[place]
        others = [r for n, r in enumerate(rows) if n != place and r and all(s.owner for s in r)]
        rests = row and all(s.owner and phase_of(s) == "kept" for s in row)
        if dimension.attribute == attribute and rests and others:
            rows[place] = tuple(Segment(s.start, "", former=s.owner) for s in row)
    return next_table(table, rows, writer)
