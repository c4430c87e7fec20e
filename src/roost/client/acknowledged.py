"""Which events of a durable subscription the application is done with.

It says so in any order. The broker hears how far it is with *all* of them, because that is what an
acknowledgement says on the wire, and which others it is done with (`Done`). So exactly what was not
acknowledged comes again, to this process and to the next. A broker of an earlier version does not
understand the latter, and one may not have read it yet when the session is opened again: so what was
acknowledged beyond the first that was not is also remembered here, when the subscription is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from roost.broker.messages import Span

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
        self._unsaid: list[int] = []  # of those
        self.reached = 0

    def handed(self, number: int, id_: str) -> None:
        """The application has it, or is about to."""
        self._handed.append((number, id_))

    def done(self, number: int) -> int:
        """It is done with this one; the number up to which it is done with all."""
        if number > self.reached:
            self._done.add(number)
            self._unsaid.append(number)
            while self._handed and self._handed[0][0] in self._done:
                self.reached, _ = self._handed.popleft()
                self._done.discard(self.reached)
        return self.reached

    def unsaid(self) -> tuple[Span, ...]:
        """What it is done with beyond `reached`, and was not asked for before."""
        numbers = sorted({number for number in self._unsaid if number > self.reached})
        self._unsaid.clear()
        return spans(numbers)

    @property
    def beyond(self) -> Beyond:
        """What it is done with that the broker does not know of."""
        return {number: id_ for number, id_ in self._handed if number in self._done}


def spans(numbers: Sequence[int]) -> tuple[Span, ...]:
    """Rising numbers as spans.

    >>> spans([2, 3, 4, 7])
    ((2, 4), (7, 7))
    """
    found: list[Span] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


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
