"""What a client advertises, and what it advertises no longer and brokers still need.

An advertisement that the application withdraws goes behind the events that were published under it. Until a
broker has heard so, the client has to say it wherever it says all anew: it is *going*, under a name of its
own. While the client moves it stays, because events may come either way: it is *withheld* until the move is
over.
"""

from __future__ import annotations

from collections.abc import Mapping

from roost.language import Advertisement


class Offers:
    """The advertisements of one client, by the application's names."""

    __slots__ = ("_count", "_going", "_withheld", "current")

    def __init__(self) -> None:
        self.current: dict[str, Advertisement] = {}
        self._going: dict[str, Advertisement] = {}
        self._count = 0
        self._withheld: list[str] = []

    def add(self, name: str, advertisement: Advertisement) -> None:
        if name in self.current:
            raise ValueError(f"there is already an advertisement called {name!r}")
        self.current[name] = advertisement

    def going(self, advertisement: Advertisement) -> str:
        """The name of an advertisement that brokers need until they hear that it is withdrawn."""
        self._count += 1
        name = f"\0{self._count}"
        self._going[name] = advertisement
        return name

    def gone(self, name: str) -> Advertisement:
        """From now on nobody needs it."""
        return self._going.pop(name)

    def withhold(self, name: str) -> None:
        self._withheld.append(name)

    def withheld(self) -> list[str]:
        """Those that go now that the move is over."""
        names, self._withheld = self._withheld, []
        return names

    def announced(self) -> Mapping[str, Advertisement]:
        """What brokers have to know."""
        return self.current | self._going
