"""Which brokers there are, and which of them a client is given: pure, with the time as an argument.

    turn   one after the other (003: round-robin)
    load   those with the fewest clients, by what they can bear (`weight`)
    near   as many as there are, in turn: the client takes the time to each

**By load.** What a broker says of itself is old by up to a period, and a crowd that comes within one would
all be sent to the same. So whoever is sent somewhere counts there from that moment on, until the broker has
had the time to count it itself.

A broker that has said nothing for three periods is not handed out.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from msgspec import Struct

Policy = Literal["turn", "load", "near"]
# So many of its periods may a broker be silent.
PERIODS = 3.0
# How long somebody who was sent to a broker takes to get there, and to be counted.
ON_THE_WAY_S = 1.0


class Known(Struct):
    """What a broker has said of itself."""

    address: str
    clients: int
    weight: float
    heard_at: float
    sent: deque[float]  # when clients were sent there that it may not have counted

    def share(self) -> float:
        """How much it has to bear, of what it can."""
        while self.sent and self.sent[0] < self.heard_at - ON_THE_WAY_S:
            self.sent.popleft()
        return (self.clients + len(self.sent)) / self.weight


class Directory:
    """The brokers that are there."""

    def __init__(self, period_s: float) -> None:
        self._silence_s = PERIODS * period_s
        self._known: dict[str, Known] = {}
        self._turn = 0

    def heard(self, broker: str, address: str, clients: int, weight: float, now: float) -> None:
        """A broker speaks of itself."""
        known = self._known.get(broker)
        sent = deque() if known is None else known.sent
        self._known[broker] = Known(address, clients, weight, now, sent)

    def brokers(self, now: float) -> dict[str, str]:
        """Those that are there, and where, by name."""
        for broker in [b for b, k in self._known.items() if now - k.heard_at > self._silence_s]:
            del self._known[broker]
        return {broker: self._known[broker].address for broker in sorted(self._known)}

    def some(self, policy: Policy, most: int, now: float) -> list[str]:
        """Addresses for a client, the best first."""
        there = list(self.brokers(now))
        if policy == "load":
            there.sort(key=lambda broker: self._known[broker].share())
        elif there:
            first = self._turn % len(there)
            there = there[first:] + there[:first]
            self._turn += 1
        chosen = there[:most]
        if chosen:
            self._known[chosen[0]].sent.append(now)
        return [self._known[broker].address for broker in chosen]
