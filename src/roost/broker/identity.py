"""Who a machine is, over its lives."""

from __future__ import annotations

from roost.broker.journal import Journal
from roost.broker.names import Address


class Identity:
    """A name, and which life of whoever has it this is.

    The *incarnation* is that of its memory: a machine that comes back with its store has the one that is in
    there. The *life* is new at each start. Where two nodes have one memory, so that one can go on for the
    other, the *epoch* says which of them speaks: it rises whenever that changes. 0: there is only one.
    """

    __slots__ = ("address", "beside", "boots", "epoch", "incarnation", "life", "name")

    def __init__(self, name: str, life: str) -> None:
        self.name = name
        self.incarnation = self.life = life
        self.address = Address(name)  # where clients find it, in words of the driver
        self.epoch = 0
        self.beside = ""  # where the other one of two is found, when it is its turn
        self.boots = 0  # how often it has started with the same store

    def begin(self, journal: Journal | None) -> None:
        """It starts, with what it remembers."""
        if journal is not None:
            self.boots += 1
            journal.put("incarnation", value=self.incarnation)
            journal.put("boots", value=self.boots)

    @property
    def memory(self) -> str:
        """Nobody else's: the machine, and its incarnation."""
        return f"{self.name}/{self.incarnation}"

    @property
    def in_this_life(self) -> str:
        """Numbers and names of an earlier life can't be mistaken for those under this name."""
        return f"{self.name}.{self.incarnation}.{self.boots}"
