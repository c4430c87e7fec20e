"""The table in the hands of a dispatcher: it writes the next one when a step is due (see `handover`).

Any dispatcher may. Those who ask for a step ask the first dispatcher that is there, so that mostly one
writes; if two do, the later writer's table holds, and whoever waits for the step that is lost asks again.
Whoever writes one tells all dispatchers and matchers what is new in it (`patches`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roost.broker.hops import Link
from roost.partition import handover, notes
from roost.partition.attributes import DimensionStep
from roost.partition.curator import stepped
from roost.partition.evening import even_out
from roost.partition.handover import JOINS, SpansIn
from roost.partition.patches import Patch, patch_of, patched
from roost.partition.segments import SegmentTable, newest
from roost.partition.sights import Sights

Stamp = tuple[int, str]
Say = Callable[[Link, notes.Said], None]


class Steward:
    """Of one dispatcher. `adopted(table)`: there is another one; `is_there(matcher)`: it can be asked."""

    table: SegmentTable

    def __init__(
        self,
        name: str,
        others: Sequence[str],
        links: Mapping[str, Link],
        say: Say,
        *,
        adopted: Callable[[SegmentTable], None],
        is_there: Callable[[str], bool],
        sights: Sights,
        spans: SpansIn,
        join: str,
    ) -> None:
        self._name = name
        self._others = list(others)
        self._links = links
        self._say = say
        self._adopted = adopted
        self._is_there = is_there
        self._sights = sights
        self._spans = spans
        self._join = JOINS[join]
        self._known: dict[str, Stamp] = {}  # what the others have

    def there(self) -> list[str]:
        """The matchers of the table that can be asked."""
        return [name for name in self.table.matchers() if self._is_there(name)]

    # --- what others say ------------------------------------------------------------------------------

    def greeted(self, link: Link) -> None:
        """Another dispatcher is there."""
        self._say(link, notes.Tables(self.table))
        self._say(link, notes.Known(*self.table.stamp))

    def shown(self, _: Link, tables: notes.Tables) -> None:
        self.change(tables.table)

    def knows(self, link: Link, known: notes.Known) -> None:
        """A dispatcher has that table."""
        self._known[link.name] = (known.version, known.writer)
        self._forget()

    def patched(self, link: Link, patch: Patch) -> None:
        table = patched(self.table, patch)
        if table is not None:
            self.change(table)
        elif (patch.version, patch.writer) > self.table.stamp:
            self._say(link, notes.Pull(self.table.stamp))

    def shows(self, link: Link, pull: notes.Pull) -> None:
        if self.table.stamp > tuple(pull.stamp):
            self._say(link, notes.Tables(self.table))

    def joins(self, link: Link, _: notes.Join) -> None:
        """A matcher is here, and has no segments."""
        if link.name not in self.table.matchers():
            loads, name = self._sights.loads(), self._name
            self.change(self._join(self.table, link.name, loads, self._spans, writer=name))
        self._say(link, notes.Tables(self.table))

    def filled(self, link: Link, filled: notes.Filled) -> None:
        """All dispatchers have filled it."""
        if (filled.version, filled.writer) == self.table.stamp:
            self.change(handover.switch(self.table, link.name, writer=self._name))

    def leaves(self, link: Link, _: notes.Leave) -> None:
        self._without(link.name)

    def suspected(self, _: Link, suspect: notes.Suspect) -> None:
        there = self._links.get(suspect.matcher)
        if there is None or not there.greeted:  # else it is there, and gossip does not reach it
            self._without(suspect.matcher)

    def _without(self, matcher: str) -> None:
        """It wants to go, or is gone."""
        members = self.table.matchers()
        if matcher in members:
            away = [n for n in members if n != matcher and not self._is_there(n)]
            loads, name = self._sights.loads(), self._name
            self.change(handover.leave(self.table, matcher, loads, away=away, writer=name))

    # --- the next one ---------------------------------------------------------------------------------

    def reshape(self, step: DimensionStep) -> bool:
        """A dimension comes, or goes; whether that is so."""
        before = self.table
        self.change(stepped(self.table, step, self.there(), writer=self._name))
        return self.table is not before

    def even_out(self) -> None:
        """Segments of whoever is there, if they are uneven."""
        there = self.there()
        if len(there) == len(self.table.matchers()):
            self.change(even_out(self.table, there, writer=self._name))

    def change(self, table: SegmentTable) -> None:
        """To this one, if it is newer; whoever has written it tells all."""
        if table is self.table or newest(self.table, table) is not table:
            return
        before, self.table = self.table, table
        self._adopted(table)
        for name in self._others:
            if name in self._links:
                self._say(self._links[name], notes.Known(*table.stamp))
        if table.writer == self._name:
            patch = patch_of(before, table)
            gone = [name for name in before.matchers() if name not in table.matchers()]
            for name in (*self._others, *table.matchers(), *gone):
                if name in self._links:
                    self._say(self._links[name], patch)
        self._forget()

    def _forget(self) -> None:
        """Former owners do, when all dispatchers have the table in which they are."""
        table = self.table
        switched = any(s.former for row in table.segments for s in row)
        if (
            switched
            and self._name < min(self._others, default="~")
            and all(self._known.get(other) == table.stamp for other in self._others)
        ):
            self.change(handover.forget(table, writer=self._name))
