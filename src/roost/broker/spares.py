"""What a broker hears of an id from a second side.

In an overlay without cycles an id comes from one side only, as long as the overlay stands still. When it is
rewired, a broker may hear of an id over a new link while it still has it from the old one: one of the two is
stale, and being withdrawn, and nobody can tell which. So the first stays in the table, the second is kept as
a *spare*, and takes its place when the first is withdrawn; events go to both. Two neighbours never keep a
stale entry alive between them: who has it from the other does not tell it to the other.
"""

from __future__ import annotations

from typing import Literal

from roost.broker.hops import Hop
from roost.broker.journal import Journal
from roost.language import Interest

Kind = Literal["sub", "adv"]


class Spares:
    """Spare entries of both tables. There are few, and mostly none."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._spares: dict[tuple[Kind, str], dict[Hop, tuple[Interest, int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._spares.values()))

    def keep(self, kind: Kind, id_: str, hop: Hop, interest: Interest, announcement: int) -> None:
        self._spares.setdefault((kind, id_), {})[hop] = (interest, announcement)
        if self._journal is not None:
            self._journal.put("spare", kind, id_, *hop.key, value=(interest, announcement))

    def drop(self, kind: Kind, id_: str, hop: Hop, announcement: int) -> None:
        """It is withdrawn, unless it has been announced again since."""
        spare = self._spares.get((kind, id_), {}).get(hop)
        if spare is not None and spare[1] == announcement:
            self._take(kind, id_, hop)

    def forget(self, hop: Hop) -> None:
        """All that came from a hop."""
        for kind, id_ in [key for key, spares in self._spares.items() if hop in spares]:
            self._take(kind, id_, hop)

    def next(self, kind: Kind, id_: str) -> tuple[Hop, Interest, int] | None:
        """Take out the spare that is to fill the place of this id, if there is one."""
        spares = self._spares.get((kind, id_))
        if not spares:
            return None
        hop = next(iter(spares))
        return (hop, *self._take(kind, id_, hop))

    def like(self, kind: Kind, id_: str, interest: Interest) -> tuple[Hop, int] | None:
        """Take out a spare that says the same as what is to go, if there is one."""
        for hop, (spare, announcement) in self._spares.get((kind, id_), {}).items():
            if spare == interest:
                self._take(kind, id_, hop)
                return hop, announcement
        return None

    def _take(self, kind: Kind, id_: str, hop: Hop) -> tuple[Interest, int]:
        spares = self._spares[kind, id_]
        spare = spares.pop(hop)
        if not spares:
            del self._spares[kind, id_]
        if self._journal is not None:
            self._journal.delete("spare", kind, id_, *hop.key)
        return spare
