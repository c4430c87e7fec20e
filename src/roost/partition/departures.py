"""Clients that leave a dispatcher for another one.

A session ends here when all that its client has published has arrived at every dispatcher, and what was on
the way to it has come. First its events are let go. Then a barrier goes behind them to every other
dispatcher, which answers when those that it held at that moment are on their way: behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from roost.broker.hops import Link, Session
from roost.partition import notes
from roost.partition.holding import Holding


class Keep(Protocol):
    """Write a record: see `Station.keep`."""

    def __call__(self, *key: str | int, value: object) -> None: ...


class Departure:
    """A client that leaves."""

    __slots__ = ("cause", "id", "number", "waits_for")

    def __init__(self, id_: str, cause: str) -> None:
        self.id = id_
        self.cause = cause
        self.number: int | None = None  # the last event that was accepted by then
        self.waits_for: dict[str, None] | None = None  # dispatchers; None: events are held here


class Departures:
    """All of one dispatcher. `over(session name, cause)`: it can end."""

    def __init__(
        self,
        holding: Holding,
        others: Sequence[str],
        links: Mapping[str, Link],
        say: Callable[[Link, notes.Said], None],
        keep: Keep,
        over: Callable[[str, str], None],
    ) -> None:
        self._holding = holding
        self._others = others
        self._links = links
        self._say = say
        self._keep = keep
        self._over = over
        self._leaving: dict[str, Departure] = {}  # by session
        self._barriers: list[tuple[str, str, int]] = []  # (who asks, id, up to which event)

    def __len__(self) -> int:
        return len(self._leaving)

    def begin(self, session: Session, cause: str) -> None:
        if not session.leaving:
            session.leaving = True
            self.restore(session.name, cause)
            self._keep("handing", session.name, value=cause)
            self.go_on()

    def restore(self, session: str, cause: str) -> None:
        """One that had begun in an earlier life begins anew."""
        self._leaving[session] = Departure(f"{self._holding.life}/{session}", cause)

    def greeted(self, link: Link) -> None:
        """A dispatcher is there again: it may not have heard."""
        for departure in self._leaving.values():
            if departure.waits_for is not None:
                self._say(link, notes.Barrier(departure.id))

    def barrier(self, link: Link, barrier: notes.Barrier) -> None:
        """It came behind all events from there; what is held here now is told of behind it."""
        self._barriers.append((link.name, barrier.id, self._holding.newest))
        self.go_on()

    def passed(self, link: Link, passed: notes.Passed) -> None:
        for departure in self._leaving.values():
            if departure.id == passed.id and departure.waits_for is not None:
                departure.waits_for.pop(link.name, None)
        self.go_on()

    def go_on(self) -> None:
        """Those whose events have been let go are told so, behind them."""
        left = []
        for name, id_, number in self._barriers:
            if not self._holding.has_passed(number):
                left.append((name, id_, number))
            elif name in self._links:
                self._say(self._links[name], notes.Passed(id_))
        self._barriers = left
        for name, departure in list(self._leaving.items()):
            if departure.number is None:
                departure.number = self._holding.newest
            if departure.waits_for is None and self._holding.has_passed(departure.number):
                departure.waits_for = dict.fromkeys(self._others)
                for other in self._others:
                    if other in self._links:
                        self._say(self._links[other], notes.Barrier(departure.id))
            if departure.waits_for is not None and not departure.waits_for:
                del self._leaving[name]
                self._keep("handing", name, value=None)
                self._over(name, departure.cause)
