"""What follows the news that brokers are gone, behind the last of their events: see `membership`.

News goes ahead of data and its trail behind, so between the two a broker knows that events may come of who
is gone. A trail has a name, which the news carries. Whoever passes the news on owes a trail of its own to
each that was told, and pays when the one that it waits for has come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from roost.broker.hops import Link, Trail


class Owed(NamedTuple):
    """A trail that a neighbour waits for, and those that we wait for first."""

    link: Link
    name: str
    waits: Sequence[Trail]


class Trails:
    """Those that are under way to here, and those that are owed to others."""

    def __init__(
        self, life: str, links: Mapping[str, Link], pay: Callable[[Link, str], None]
    ) -> None:
        self._life = life
        self._links = links
        self._pay = pay
        self._count = 0
        self._owed: list[Owed] = []

    def owe(self, link: Link, waits: Iterable[Trail] = ()) -> str:
        """The name of a new one, behind these; to be told, and then `pay_what_can_be`."""
        self._count += 1
        name = f"{self._life}/{self._count}"
        self._owed.append(Owed(link, name, tuple(waits)))
        return name

    def pay_what_can_be(self) -> None:
        """Tell those that wait for nobody any more."""
        ready = [owed for owed in self._owed if all(trail.over for trail in owed.waits)]
        if ready:
            self._owed = [owed for owed in self._owed if owed not in ready]
            for owed in ready:
                # To who is away nothing is owed: there will be a greeting, with a trail.
                if owed.link.greeted and self._links.get(owed.link.name) is owed.link:
                    self._pay(owed.link, owed.name)

    def heard(self, link: Link, name: str, gone: Collection[str], *, greeting: bool) -> Trail:
        """News from a neighbour. Behind the trail of a greeting all that there were before are over."""
        trail = Trail(frozenset(gone))
        if greeting:
            link.trails = {name: [*(t for trails in link.trails.values() for t in trails), trail]}
        else:
            link.trails[name] = [trail]
        return trail

    def passed(self, link: Link, name: str) -> None:
        """It has come."""
        self._end(link.trails.pop(name, ()))

    def ended(self, link: Link) -> None:
        """Nothing comes from there any more."""
        self._end([trail for trails in link.trails.values() for trail in trails])
        link.trails = {}

    def _end(self, trails: Iterable[Trail]) -> None:
        for trail in trails:
            trail.over = True
        self.pay_what_can_be()

    def open(self, *, but: Link) -> list[Trail]:
        """Those that have not come yet, by other links."""
        return [
            trail
            for link in self._links.values()
            if link is not but
            for trails in link.trails.values()
            for trail in trails
        ]
