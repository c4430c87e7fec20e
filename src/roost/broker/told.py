"""What a neighbour is told, of the subscriptions (or advertisements) that concern it.

*Candidates* are all that it would have to be told if nothing covered anything. With covering on it is
told just those that no other candidate covers (001 section 2.1.3), so its table stays small, and is the
same whatever the order in which things came, up to the choice between equal ones.

A change can uncover some and cover others. The neighbour hears first what is new and then what is
withdrawn ("B2 should forward sub2's subscription to B1 before sub1's unsubscription"), and never both
of one: that is what the two lists of `change` are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from roost.language import Interest
from roost.matching import Poset


class Told:
    """The candidates for one neighbour, and which of them it is told. Ids are handles of the broker."""

    __slots__ = ("_all", "_poset")

    def __init__(self, covering: bool) -> None:
        self._poset = Poset() if covering else None
        self._all: dict[int, None] = {}

    def __contains__(self, handle: int) -> bool:
        """Whether it is a candidate."""
        return handle in self._all

    def __iter__(self) -> Iterator[int]:
        """The handles that the neighbour has been told."""
        return iter(self._all if self._poset is None else self._poset.css())

    def __len__(self) -> int:
        return len(self._all if self._poset is None else self._poset.css())

    def candidates(self) -> Iterable[int]:
        return self._all.keys()

    def change(
        self, add: Sequence[tuple[int, Interest]] = (), remove: Sequence[int] = ()
    ) -> tuple[list[int], list[int]]:
        """(what to announce, what to withdraw), after these have been added and removed."""
        announce: dict[int, None] = {}
        withdraw: dict[int, None] = {}
        poset = self._poset
        for handle, interest in add:
            self._all[handle] = None
            if poset is None:
                announce[handle] = None
                continue
            inserted = poset.insert(handle, interest)
            if not inserted.covered_by:
                announce[handle] = None
            for covered in inserted.newly_covered:
                turn(covered, withdraw, announce)
        for handle in remove:
            del self._all[handle]
            if poset is None:
                turn(handle, withdraw, announce)
                continue
            was_told = handle in poset.css()
            removed = poset.remove(handle)
            if was_told:
                turn(handle, withdraw, announce)
            for uncovered in removed.uncovered:
                turn(uncovered, announce, withdraw)
        return list(announce), list(withdraw)


def turn(handle: int, into: dict[int, None], opposite: dict[int, None]) -> None:
    """Note that `handle` goes one way, unless it was going the other: then nothing changes for it."""
    if handle in opposite:
        del opposite[handle]
    else:
        into[handle] = None
