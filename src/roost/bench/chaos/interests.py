"""What events of a chaos run look like, and what its subscribers ask for.

Events are numbered by their publisher from 1 on, have its class, and a *kind* that follows from the number.
So the oracle knows which numbers a filter asks for without looking at any event.
"""

from __future__ import annotations

from msgspec import Struct

from roost.language import Value

KINDS = 4


class Interest(Struct, frozen=True):
    """A filter: of one class or of any (""), and of kinds below some number.

    >>> interest = Interest("LOAD", 2)
    >>> interest.text, [n for n in range(1, 10) if interest.wants(n)], interest.count(1, 10)
    ("class = 'LOAD' and kind < 2", [1, 4, 5, 8, 9], 5)
    """

    class_: str = ""
    kinds: int = KINDS

    @property
    def text(self) -> str:
        class_ = f"class = '{self.class_}'" if self.class_ else "class present"
        return class_ if self.kinds == KINDS else f"{class_} and kind < {self.kinds}"

    def is_for(self, class_: str) -> bool:
        return self.class_ in ("", class_)

    def wants(self, number: int) -> bool:
        return number % KINDS < self.kinds

    def count(self, first: int, end: int) -> int:
        """How many numbers it wants, from the first on and before the end."""
        return self._below(end) - self._below(first) if end > first else 0

    def _below(self, number: int) -> int:
        return number // KINDS * self.kinds + min(number % KINDS, self.kinds)


def attributes_of(publisher: str, class_: str, number: int) -> dict[str, Value]:
    return {"class": class_, "publisher": publisher, "number": number, "kind": number % KINDS}
