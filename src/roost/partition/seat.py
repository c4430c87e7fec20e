"""What a matcher is in one space: whom it serves there, what it knows, and its part of that space's table.

**Spaces** (004 section VI: "divide dispatchers and matchers into different subsets and let them handle
different applications"). An application has dispatchers of its own, and with them its clients, its dimensions
and its table. Its matchers are its own, or serve several spaces: then they keep what they are told of each
apart, and search for an event only what the dispatchers of its space have told. So nothing of one space
reaches another, whatever events and subscriptions say. What a matcher's spaces share is its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized

from roost.partition import notes
from roost.partition.segments import Region, SegmentTable, newest
from roost.partition.wards import Wards


class Seat:
    """Of one matcher, in one space."""

    def __init__(self, matcher: str, space: str, dispatchers: Sequence[str]) -> None:
        self._matcher = matcher
        self.space = space
        self.dispatchers = list(dispatchers)
        self.wards = Wards()
        self.table: SegmentTable | None = None

    @property
    def stamp(self) -> tuple[int, str]:
        return self.table.stamp if self.table is not None else (0, "")

    def members(self) -> list[str]:
        """The matchers of the space."""
        return self.table.matchers() if self.table is not None else []

    def adopt(self, table: SegmentTable) -> list[str] | None:
        """If it is newer: the matchers that are in it no more. None: it is not."""
        if newest(self.table, table) is not table:
            return None
        before, self.table = self.members(), table
        return sorted(set(before) - set(table.matchers()))

    def claims(self, *, leaving: bool) -> Iterator[notes.Said]:
        """What it has to say because the table does not show it yet."""
        name, table = self._matcher, self.table
        if table is None or name not in table.matchers():
            if not leaving:
                yield notes.Join()
            return
        if leaving and any(s.owner == name for row in table.segments for s in row):
            yield notes.Leave()
        inherited = self._inherits(table)
        if inherited and self.wards.is_filled(inherited, self.dispatchers):
            yield notes.Filled(*table.stamp)

    def _inherits(self, table: SegmentTable) -> list[Region]:
        return [
            (table.bound(dimension, place),)
            for dimension, row in enumerate(table.segments)
            for place, segment in enumerate(row)
            if segment.heir == self._matcher
        ]

    def has_left(self) -> bool:
        """Whether nobody needs it any more."""
        return self.table is not None and self._matcher not in self.table.matchers()


class Entries(Sized):
    """All that a matcher knows, in all its spaces."""

    def __init__(self, seats: Mapping[str, Seat]) -> None:
        self._seats = seats

    def __len__(self) -> int:
        return sum(len(seat.wards.entries) for seat in self._seats.values())
