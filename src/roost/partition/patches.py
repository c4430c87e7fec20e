"""What has changed from one table to the next, to be sent in place of the whole.

A table of a thousand matchers takes a hundred kilobytes, and what a step changes of it mostly a few segments.
So whoever writes one tells the others what is different from the one before (`Patch`). Who has that one has
the new one; who has not asks for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from roost.partition.dimensions import Dimension
from roost.partition.segments import Segment, SegmentTable


class Splice(Struct, frozen=True, array_like=True):
    """Of one dimension: from this segment on so many are replaced."""

    dimension: int
    first: int
    replaced: int
    segments: tuple[Segment, ...]


class Patch(Struct, frozen=True, array_like=True, tag="patch"):
    """From the table with the first stamp to that with the second."""

    base: tuple[int, str]
    version: int
    writer: str
    splices: tuple[Splice, ...]
    dimensions: tuple[Dimension, ...] | None = None  # None: the same


def patch_of(before: SegmentTable, after: SegmentTable) -> Patch:
    """What makes the second of the first."""
    splices = []
    for dimension, row in enumerate(after.segments):
        there = before.segments[dimension] if dimension < len(before.segments) else ()
        if row != there:
            first = _common(there, row)
            last = _common(there[first:][::-1], row[first:][::-1])
            new = row[first : len(row) - last]
            splices.append(Splice(dimension, first, len(there) - first - last, new))
    same = before.dimensions == after.dimensions
    return Patch(
        before.stamp,
        after.version,
        after.writer,
        tuple(splices),
        None if same else after.dimensions,
    )


def _common(a: Sequence[Segment], b: Sequence[Segment]) -> int:
    """How many at the beginning are the same."""
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def patched(table: SegmentTable | None, patch: Patch) -> SegmentTable | None:
    """The table behind a patch; None if it is not for this one."""
    if table is None or table.stamp != tuple(patch.base):
        return None
    rows = list(table.segments)
    dimensions = table.dimensions if patch.dimensions is None else patch.dimensions
    rows += [()] * (len(dimensions) - len(rows))
    for splice in patch.splices:
        row = rows[splice.dimension]
        behind = row[splice.first + splice.replaced :]
        rows[splice.dimension] = (*row[: splice.first], *splice.segments, *behind)
    return SegmentTable(patch.version, patch.writer, dimensions, tuple(rows))
