"""Numbers for the subscriptions that a matcher knows, and back: whose each is, and what it is called there.

An index says what events match as an array of numbers. Hundreds may match each, so all of a batch are told
apart by way of arrays. Of whoever asks they become its own numbers (*slots*, see `roster`), of other
dispatchers the names that these go on under. Numbers are used again.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost.matching import Ids

# Of other dispatchers where the ids of each event end, and ids.
Elsewhere: TypeAlias = dict[str, tuple[bytes, tuple[str, ...]]]
# Where the slots of each event end, the slots, and what is of other dispatchers.
Matches: TypeAlias = tuple[bytes, bytes, Elsewhere]

FIRST_SIZE = 1_024


class Names:
    """All of one matcher."""

    def __init__(self) -> None:
        self._ids: NDArray[np.object_] = np.empty(FIRST_SIZE, object)
        self._slots = np.zeros(FIRST_SIZE, np.uint32)
        self._whose = np.zeros(FIRST_SIZE, np.int32)  # a place in `_dispatchers`
        self._dispatchers: list[str] = []
        self._free: list[int] = []
        self._next = 0

    def add(self, dispatcher: str, id_: str, slot: int) -> int:
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
                self._slots = np.concatenate([self._slots, np.zeros(number, np.uint32)])
                self._whose = np.concatenate([self._whose, np.zeros(number, np.int32)])
        self._ids[number] = id_
        self._slots[number] = slot
        self._whose[number] = self._dispatchers.index(dispatcher)
        return number

    def remove(self, number: int) -> None:
        self._ids[number] = None
        self._free.append(number)

    def found(self, asker: str, offsets: Ids, numbers: Ids) -> Matches:
        """What a batch of events has matched, for the dispatcher that has asked: see `notes.Found`."""
        if self._dispatchers == [asker] or not len(numbers):
            ends = offsets[1:].astype(np.uint32)
            return ends.tobytes(), self._slots[numbers].tobytes(), {}
        whose = self._whose[numbers]
        mine = whose == (self._dispatchers.index(asker) if asker in self._dispatchers else -1)
        others = {}
        for place, name in sorted(enumerate(self._dispatchers), key=lambda pair: pair[1]):
            if name != asker:
                its = whose == place
                ids = self._ids[numbers[its]].tolist()
                if ids:
                    others[name] = (_ends(its, offsets).tobytes(), tuple(ids))
        return _ends(mine, offsets).tobytes(), self._slots[numbers[mine]].tobytes(), others


def _ends(taken: NDArray[np.bool_], offsets: Ids) -> NDArray[np.uint32]:
    """Where what is left of each event ends, if only these are taken."""
    before = np.concatenate([[0], np.cumsum(taken)])
    ends: NDArray[np.uint32] = before[offsets[1:]].astype(np.uint32)
    return ends
