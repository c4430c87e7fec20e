"""The table in the hands of a dispatcher: it writes the next one when a step is due (see `handover`).

Any dispatcher may. Those who ask for a step ask the first dispatcher that is there, so that mostly one
writes; if two do, the later writer's table holds, and whoever waits for the step that is lost asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from roost.partition import handover
from roost.partition.handover import Loads, SpansIn
from roost.partition.segments import SegmentTable, newest

Stamp = tuple[int, str]


class Steward:
    """Of one dispatcher. `adopted(table)`: there is another one."""

    table: SegmentTable

    def __init__(
        self, name: str, others: Sequence[str], adopted: Callable[[SegmentTable], None]
    ) -> None:
        self._name = name
        self._others = list(others)
        self._adopted = adopted
        self._known: dict[str, Stamp] = {}  # what the others have

    def adopt(self, table: SegmentTable) -> None:
        """If it is newer."""
        if newest(self.table, table) is table:
            self.table = table
            self._adopted(table)
            self._forget()

    def known(self, dispatcher: str, stamp: Stamp) -> None:
        """A dispatcher has that table."""
        self._known[dispatcher] = stamp
        self._forget()

    def join(
        self, matcher: str, join: Callable[..., SegmentTable], loads: Loads, spans: SpansIn
    ) -> None:
        if matcher not in self.table.matchers():
            self.adopt(join(self.table, matcher, loads, spans, writer=self._name))

    def leave(self, matcher: str, loads: Loads, away: Collection[str]) -> None:
        """It wants to go, or is gone."""
        if matcher in self.table.matchers():
            others = [name for name in away if name != matcher]
            self.adopt(handover.leave(self.table, matcher, loads, away=others, writer=self._name))

    def switch(self, matcher: str) -> None:
        """All dispatchers have filled it."""
        self.adopt(handover.switch(self.table, matcher, writer=self._name))

    def _forget(self) -> None:
        """Former owners do, when all dispatchers have the table in which they are."""
        table = self.table
        switched = any(s.former for row in table.segments for s in row)
        if (
            switched
            and self._name < min(self._others, default="~")
            and all(self._known.get(other) == table.stamp for other in self._others)
        ):
            self.adopt(handover.forget(table, writer=self._name))
