"""The application behind a durable subscription: it deals with events in an order of its own.

Most it is done with at once, every third a little later; so it acknowledges behind gaps, and is killed in the
middle of it. What it was handed and was not done with has to come again to the next process, whatever its
broker thinks that it keeps. What it was done with may come again, if its broker had not heard so yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roost.broker.events import Handled
from roost.broker.messages import Publication

SLOW_EVERY, SLOW_S = 3, 0.4

Later = Callable[[float, Callable[[int, Publication], None], int, Publication], None]


class Dealing:
    """What it has been handed and is not done with. `later(delay, function, *arguments)` calls in time."""

    def __init__(self, handled: Callable[[Handled], None], later: Later) -> None:
        self._handled = handled
        self._later = later
        self._unhandled: dict[int, Publication] = {}  # by rising number
        self._last = 0
        self._done_with: set[str] = set()  # by the id of the event

    def has_to_come_again(self, kept: Iterable[Publication]) -> list[Publication]:
        """If it is killed now, and its broker has these for it."""
        unheard = (each for each in kept if each.id not in self._done_with)
        return [*self._unhandled.values(), *unheard]

    def begin_anew(self) -> None:
        """The broker has forgotten the session, and the application was told: numbers begin again."""
        self._unhandled = {}
        self._last = 0

    def handed(self, number: int, publication: Publication) -> None:
        self._unhandled[number] = publication
        self._last = number
        if number % SLOW_EVERY:
            self._done(number, publication)
        else:
            self._later(SLOW_S, self._done, number, publication)

    def _done(self, number: int, publication: Publication) -> None:
        if self._unhandled.get(number) is not publication:
            return  # of a session that is over
        del self._unhandled[number]
        self._done_with.add(publication.id)
        reached = min(self._unhandled) - 1 if self._unhandled else self._last
        self._handled(Handled(reached, ((number, number),) if number > reached else ()))
