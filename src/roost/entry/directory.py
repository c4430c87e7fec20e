"""Which brokers there are, and which of them a client is given: pure, with the time as an argument.

    turn   one after the other (003: round-robin)
    load   those with the fewest clients, by what they can bear (`weight`)
    near   as many as there are, in turn: the client takes the time to each

**By load.** What a broker says of itself is old by up to a period, and a crowd that comes within one would
all be sent to the same. So whoever is sent somewhere counts there from that moment on, until the broker has
so many clients more, or some time has passed, and it went elsewhere.

A broker that has said nothing for three periods is not handed out.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from msgspec import Struct

Policy = Literal["turn", "load", "near"]
# So many of its periods may a broker be silent.
PERIODS = 3.0
# How long somebody who was sent to a broker may take to get there.
ON_THE_WAY_S = 3.0


class Known(Struct):
    """What a broker has said of itself."""

    address: str
    clients: int
    weight: float
    heard_at: float
    sent: deque[float]  # when clients were sent there that it has not counted

    @property
    def share(self) -> float:
        """How much it has to bear, of what it can."""
        return (self.clients + len(self.sent)) / self.weight

    def arrived(self, count: int, now: float) -> None:
        """It has so many clients more: those that were sent first. Who has not come by now went elsewhere."""
        while self.sent and (count > 0 or self.sent[0] < now - ON_THE_WAY_S):
            self.sent.popleft()
            count -= 1


class Directory:
    """The brokers that are there."""

    def __init__(self, period_s: float) -> None:
        self._silence_s = PERIODS * period_s
        self._known: dict[str, Known] = {}
        self._turn = 0

    def heard(self, broker: str, address: str, clients: int, weight: float, now: float) -> None:
        """A broker speaks of itself."""
        known = self._known.get(broker)
        if known is None:
            known = self._known[broker] = Known(address, clients, weight, now, deque())
        known.arrived(clients - known.clients, now)
        known.address, known.clients, known.weight, known.heard_at = address, clients, weight, now

    def brokers(self, now: float) -> dict[str, str]:
        """Those that are there, and where, by name."""
        for broker in [b for b, k in self._known.items() if now - k.heard_at > self._silence_s]:
            del self._known[broker]
        return {broker: self._known[broker].address for broker in sorted(self._known)}

    def some(self, policy: Policy, most: int, now: float) -> list[str]:
        """Addresses for a client, the best first."""
        there = list(self.brokers(now))
        if policy == "load":
            there.sort(key=lambda broker: self._known[broker].share)
        elif there:
            first = self._turn % len(there)
            there = there[first:] + there[:first]
            self._turn += 1
        chosen = there[:most]
        if chosen:
            self._known[chosen[0]].sent.append(now)
        return [self._known[broker].address for broker in chosen]
