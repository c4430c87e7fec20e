"""What a subscriber has got of a publisher whose events are numbered from 1 on: all, once, in order?"""

from __future__ import annotations


class Tally:
    """Counts as events come.

    >>> tally = Tally()
    >>> for number in (1, 2, 2, 5, 4):
    ...     tally.came(number)
    >>> tally.received, tally.doubled, tally.reordered, tally.lost(6)
    (4, 1, 1, 2)
    """

    def __init__(self) -> None:
        self.next = 1
        self.received = 0  # different ones
        self.doubled = 0
        self.reordered = 0
        self._missing: set[int] = set()  # skipped so far

    def came(self, number: int) -> None:
        if number == self.next:
            self.next += 1
            self.received += 1
        elif number > self.next:
            self._missing.update(range(self.next, number))
            self.next = number + 1
            self.received += 1
        elif number in self._missing:
            self._missing.remove(number)
            self.reordered += 1
            self.received += 1
        else:
            self.doubled += 1

    def lost(self, published: int) -> int:
        """How many of so many never came."""
        return published - self.received
