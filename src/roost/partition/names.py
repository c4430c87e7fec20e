"""Numbers for the subscriptions that a matcher knows, and back: whose each is, and what it is called there.

An index says what an event matches as an array of numbers. Hundreds may match, so they become names by way
of arrays, not one by one. Numbers are used again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FIRST_SIZE = 1_024


class Names:
    """All of one matcher."""

    def __init__(self) -> None:
        self._ids: NDArray[np.object_] = np.empty(FIRST_SIZE, object)
        self._whose = np.zeros(FIRST_SIZE, np.int32)  # a place in `_dispatchers`
        self._dispatchers: list[str] = []
        self._free: list[int] = []
        self._next = 0

    def add(self, dispatcher: str, id_: str) -> int:
        """A number for it."""
        if dispatcher not in self._dispatchers:
            self._dispatchers.append(dispatcher)
        if self._free:
            number = self._free.pop()
        else:
            number = self._next
            self._next += 1
            if number == len(self._ids):
                self._ids = np.concatenate([self._ids, np.empty(number, object)])
                self._whose = np.concatenate([self._whose, np.zeros(number, np.int32)])
        self._ids[number] = id_
        self._whose[number] = self._dispatchers.index(dispatcher)
        return number

    def remove(self, number: int) -> None:
        self._ids[number] = None
        self._free.append(number)

    def of(self, numbers: NDArray[np.int64]) -> dict[str, tuple[str, ...]]:
        """By dispatcher, what those are called that have these numbers."""
        if not len(numbers):
            return {}
        ids = self._ids[numbers]
        if len(self._dispatchers) == 1:
            return {self._dispatchers[0]: tuple(ids.tolist())}
        whose = self._whose[numbers]
        found = {}
        for place, dispatcher in sorted(enumerate(self._dispatchers), key=lambda pair: pair[1]):
            its = ids[whose == place].tolist()
            if its:
                found[dispatcher] = tuple(its)
        return found
