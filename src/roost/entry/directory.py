"""Which brokers there are, and which of them a client is given: pure, with the time as an argument.

    turn   one after the other (003: round-robin)
    load   those with the fewest clients, by what they can bear (`weight`)
    near   as many as there are, in turn: the client takes the time to each

**By load.** What a broker says of itself is old by up to a period, and a crowd that comes within one would
all be sent to the same. So whoever is sent somewhere counts there from that moment on, until the broker has
so many clients more, or some time has passed, and it went elsewhere.

**Other entry points** send clients, too; they say how many, and not where. All have the same picture of the
brokers, so each may take it that the others do as it does: if a third of the clients that were sent lately
were sent from here, each that is sent now stands for three, and of three that have come one was.

A broker that has said nothing for three periods is not handed out.
"""

from __future__ import annotations

from collections import deque
from math import exp
from typing import Literal

from msgspec import Struct

Policy = Literal["turn", "load", "near"]
# So many of its periods may a broker be silent.
PERIODS = 3.0
# How long somebody who was sent to a broker may take to get there.
ON_THE_WAY_S = 3.0
# What is longer ago says little of how many others send.
LATELY_S = 4.0


class Known(Struct):
    """What a broker has said of itself."""

    address: str
    clients: int
    weight: float
    heard_at: float
    told: int  # so many clients it has sent to brokers, as an entry point
    sent: deque[float]  # when clients were sent there that it has not counted

    came: float = 0.0  # clients that it has got more, of which a part is not counted in `sent` yet

    def share(self, each: float) -> float:
        """How much it has to bear, of what it can, if each that is sent stands for so many."""
        return (self.clients + each * len(self.sent)) / self.weight

    def arrived(self, count: float, now: float) -> None:
        """It has so many clients more that were sent from here. Who has not come by now went elsewhere."""
        self.came += count
        while self.sent and (self.came >= 1 or self.sent[0] < now - ON_THE_WAY_S):
            self.sent.popleft()
            self.came -= 1
        # What more have come, others have sent, or nobody.
        self.came = min(max(self.came, 0.0), 1.0)


class Recent:
    """A sum over the last seconds, in which what is longer ago counts less."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._at = 0.0

    def add(self, count: float, now: float) -> None:
        self._sum = self.at(now) + count
        self._at = now

    def at(self, now: float) -> float:
        return float(self._sum * exp((self._at - now) / LATELY_S))


class Directory:
    """The brokers that are there."""

    def __init__(self, period_s: float) -> None:
        self._silence_s = PERIODS * period_s
        self._known: dict[str, Known] = {}
        self._turn = 0
        self.sent = 0  # clients, from here, to any broker
        self._own = Recent()  # the same, and those that others have sent
        self._others = Recent()

    def heard(
        self, broker: str, address: str, clients: int, weight: float, now: float, sent: int = 0
    ) -> None:
        """A broker speaks of itself; another one also of how many clients it has sent to brokers."""
        known = self._known.get(broker)
        if known is None:
            known = self._known[broker] = Known(address, clients, weight, now, sent, deque())
        self._others.add(max(0, sent - known.told), now)
        known.told = sent
        known.arrived(max(0, clients - known.clients) / self._stands_for(now), now)
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
            each = self._stands_for(now)
            there.sort(key=lambda broker: self._known[broker].share(each))
        elif there:
            first = self._turn % len(there)
            there = there[first:] + there[:first]
            self._turn += 1
        chosen = there[:most]
        if chosen:
            self.sent += 1
            self._own.add(1, now)
            self._known[chosen[0]].sent.append(now)
        return [self._known[broker].address for broker in chosen]

    def _stands_for(self, now: float) -> float:
        """So many clients are sent by all entry points for each that is sent from here."""
        own = 1 + self._own.at(now)
        return (own + self._others.at(now)) / own
