"""What one subscriber has got of one publisher: what is missing, came twice, or too late.

A subscriber has several *lives*: its process is killed, and the next one takes the subscription over. What
the old one had been given comes again to the new one, unless it was acknowledged and the broker is known to
have heard of it (`confirmed`). So within a life nothing may come twice, nor anything that is confirmed.
"""

from __future__ import annotations

from roost.bench.chaos.interests import Interest
from roost.bench.chaos.ranges import Range, without


class Tally:
    """Counts as numbers come.

    >>> tally = Tally(Interest())
    >>> for number in (1, 2, 2, 5, 4):
    ...     tally.came(number)
    >>> tally.received, tally.doubled, tally.reordered, tally.missing(7)
    (4, 1, 1, [(3, 4), (6, 7)])
    >>> tally.begin_life(confirmed=4)
    >>> for number in (4, 5, 6):
    ...     tally.came(number)
    >>> tally.received, tally.doubled, tally.again
    (5, 2, 1)
    """

    __slots__ = (
        "_confirmed",
        "_gaps",
        "_interest",
        "again",
        "doubled",
        "last",
        "next",
        "received",
        "reordered",
    )

    def __init__(self, interest: Interest) -> None:
        self.next = 1  # behind the highest that has come in any life
        self.received = 0  # different ones
        self.again = 0  # in a later life, as is right
        self.doubled = 0
        self.reordered = 0
        self._interest = interest
        self._gaps: list[Range] = []  # what was skipped
        self._confirmed = 0  # up to here nothing comes again
        self.last = 0  # of this life

    def begin_life(self, confirmed: int) -> None:
        self.last, self._confirmed = 0, confirmed

    def forget_confirmed(self, confirmed: int) -> None:
        """The broker knows of no more than that: what is behind it may come, in order and once a life."""
        self._confirmed = min(self._confirmed, confirmed)

    def came(self, number: int) -> None:
        if number >= self.next:
            if self._interest.count(self.next, number):
                self._gaps.append((self.next, number))
            self.next = number + 1
            self.received += 1
        elif any(first <= number < end for first, end in self._gaps):
            self._gaps = without(self._gaps, [(number, number + 1)])
            self.reordered += 1
            self.received += 1
        elif self.last < number > self._confirmed:
            self.again += 1
        else:
            self.doubled += 1
        self.last = max(self.last, number)

    def missing(self, end: int) -> list[Range]:
        """What has not come of all before that number; also what nobody wants is in it."""
        return [*self._gaps, (self.next, end)] if self.next < end else list(self._gaps)
