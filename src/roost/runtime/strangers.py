"""Who may be connected: the slots of a broker, and who has to make room.

A connection is a *stranger* until it has greeted; then it is a *session* or a *link*. All of them have so
many slots.

    links      always fit: without them the federation falls apart
    sessions   have all slots but a reserve; administrators have that too
    strangers  have whatever is free, at least the reserve, so that somebody new can always say who it is

When all slots are taken and one more comes, a stranger is closed for it: of those who are here longest, one
from the address that has most. Whoever really wants to greet does so in a moment, and those who fill the
slots fill their own. Connections that we have hung up on, and that linger to read why, go first of all.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from roost.broker.messages import Attach

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.broker.messages import Parcel

Place: TypeAlias = Literal["stranger", "session", "link", "leaving", "gone"]

# The reserve: at least so many, or this part; but never more than a quarter.
RESERVE_MIN = 16
RESERVE_PART = 20
# So many of those who are here longest are compared.
COMPARED = 64


class Arrival:
    """Somebody who has connected: where it is from, since when it is here, and how to be rid of it."""

    __slots__ = ("address", "cut", "is_busy", "place", "since")

    def __init__(self, address: str, since: float) -> None:
        self.address = address  # without the port
        self.since = since
        self.place: Place = "gone"
        self.is_busy = False  # with something that we owe it: its token is being checked
        self.cut: Callable[[str], None] = lambda _: None


class Slots:
    """Those who are connected, by what they are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.reserve = min(max(RESERVE_MIN, most // RESERVE_PART), most // 4)
        self._by_place: dict[Place, dict[Arrival, None]] = {
            "stranger": {},
            "session": {},
            "link": {},
            "leaving": {},
        }
        self._strangers_of: Counter[str] = Counter()

    def count(self, place: Place) -> int:
        return len(self._by_place[place])

    @property
    def taken(self) -> int:
        return sum(map(len, self._by_place.values()))

    def put(self, arrival: Arrival, place: Place) -> None:
        """From now on it is this."""
        before, arrival.place = arrival.place, place
        if before == place:
            return
        if before != "gone":
            del self._by_place[before][arrival]
        if place != "gone":
            self._by_place[place][arrival] = None
        if "stranger" in (before, place):
            address = arrival.address
            self._strangers_of[address] += 1 if place == "stranger" else -1
            if not self._strangers_of[address]:
                del self._strangers_of[address]

    def make_room(self) -> bool:
        """For one more; False if nobody can be asked to make it."""
        if self.taken < self.most:
            return True
        leaving = next(iter(self._by_place["leaving"]), None)
        longest = (a for a in self._by_place["stranger"] if not a.is_busy)
        unwanted = leaving or max(
            islice(longest, COMPARED), key=lambda a: self._strangers_of[a.address], default=None
        )
        if unwanted is None:
            return False
        self.put(unwanted, "gone")
        unwanted.cut(f"all {self.most:,} connections are taken, and no greeting came on this one")
        return True

    def objection_to(self, greeting: Parcel, *, administers: bool) -> str:
        """To a stranger who greets like this; "" if there is a slot for it."""
        most = self.most if administers else self.most - self.reserve
        if type(greeting) is not Attach or self.count("session") < most:
            return ""
        return f"there are {most:,} sessions already, as many as connections_max leaves room for"
