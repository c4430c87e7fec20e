"""Which events of a durable subscription the application is done with.

It says so in any order. The broker hears how far it is with *all* of them, because that is what an
acknowledgement says on the wire; what was acknowledged beyond the first that was not, only this process
knows. So it is remembered here, also when the subscription is closed: when it is opened again in this
process, exactly what was not acknowledged comes again. The next process gets all from the first that was
not acknowledged on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

# By number: the id of the event. Numbers begin again when a broker has forgotten a session; ids never do.
Beyond: TypeAlias = Mapping[int, str]

# Of how many sessions, and how many events of each, it is remembered; more come again.
SESSIONS_MAX = 256
EVENTS_MAX = 100_000


class Acks:
    """Which deliveries the application is done with, in whatever order, and how far all of them are.

    >>> acks = Acks()
    >>> for number in (1, 2, 5):
    ...     acks.handed(number, f"P:{number}")
    >>> acks.done(2), acks.beyond, acks.done(1), acks.done(5)
    (0, {2: 'P:2'}, 2, 5)
    """

    def __init__(self) -> None:
        self._handed: deque[tuple[int, str]] = deque()  # by rising number
        self._done: set[int] = set()
        self.reached = 0

    def handed(self, number: int, id_: str) -> None:
        """The application has it, or is about to."""
        self._handed.append((number, id_))

    def done(self, number: int) -> int:
        """It is done with this one; the number up to which it is done with all."""
        if number > self.reached:
            self._done.add(number)
            while self._handed and self._handed[0][0] in self._done:
                self.reached, _ = self._handed.popleft()
                self._done.discard(self.reached)
        return self.reached

    @property
    def beyond(self) -> Beyond:
        """What it is done with that the broker does not know of."""
        return {number: id_ for number, id_ in self._handed if number in self._done}


class Remembered:
    """What is acknowledged beyond what brokers know, by where the session is and its name."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], Beyond] = {}

    def keep(self, session: tuple[str, str], beyond: Beyond) -> None:
        """The session is closed, for now."""
        self._sessions.pop(session, None)
        if beyond:
            if len(self._sessions) >= SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[session] = dict(list(beyond.items())[:EVENTS_MAX])

    def take(self, session: tuple[str, str]) -> Beyond:
        """It is open again."""
        return self._sessions.pop(session, {})


# Of this process, whichever of its clients opens a subscription again.
REMEMBERED = Remembered()
