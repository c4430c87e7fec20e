"""What a broker counts while it trains (002 section 4.1).

A message comes from one *side* and goes to others. A side is a neighbour, or the virtual neighbour L: the
clients here, source of what they publish and drain of what is delivered to them. L counts in both directions:
without it `input` and `output` of theorem 1 miss what the clients send and get, and U(R) is wrong for most
rewirings (the paper's "external destination node" would leave it out).

`Training` is the paper's: messages by (neighbour, subscription), in and out. Open there, and decided:

- A subscription counts once, whoever has subscribed, and however many: `subscription` is its text. By topic a
  message then counts once at each link, and U(R) is in messages. If every subscriber had counters of its own,
  a topic of ten subscribers would count ten times what it costs.
- A message counts for each subscription that it matches and that this broker knows of, in and out, whichever
  side that subscription is from: `m[x->y](s)` are the messages to y *that match s*. By content these are
  many.
- With covering, a broker knows only what is not covered. By topic subscriptions cover each other only if they
  are equal, so nothing changes. By content a message then counts for the covering one alone, and U(R) comes
  closer to the truth, as fewer subscriptions overlap.

`Passages` is Roost's: messages by (source, set of destinations). A training has at most as many entries as
messages, and mostly few: brokers have few neighbours, and what they get goes few ways. Besides, by (source,
destination), how many clients get them, which delay is counted in.

Sides that are not among a broker's neighbours (any more) count as others than mover and anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

# The side of the clients at a broker; nobody is called so.
LOCAL = ""


class Rewiring(NamedTuple):
    """R = <middle, mover, anchor>: of the middle's two neighbours, the mover becomes the anchor's."""

    middle: str
    mover: str
    anchor: str


# Side -> subscription -> messages.
BySubscription = Mapping[str, Mapping[str, int]]
# (Source, destinations) -> messages.
Kind = tuple[str, frozenset[str]]


class Training:
    """The paper's counters of one broker."""

    __slots__ = ("incoming", "messages", "outgoing")

    def __init__(self) -> None:
        self.incoming: dict[str, dict[str, int]] = {}
        self.outgoing: dict[str, dict[str, int]] = {}
        self.messages = 0

    def passed(
        self, source: str, destinations: Iterable[str], subscriptions: Iterable[str]
    ) -> None:
        """A message has passed that matches these subscriptions, each named once; sides may be LOCAL."""
        matched = tuple(subscriptions)
        _count(self.incoming.setdefault(source, {}), matched)
        for destination in destinations:
            _count(self.outgoing.setdefault(destination, {}), matched)
        self.messages += 1

    def reset(self) -> None:
        """A new training begins."""
        self.incoming.clear()
        self.outgoing.clear()
        self.messages = 0


def _count(counters: dict[str, int], subscriptions: Iterable[str]) -> None:
    for subscription in subscriptions:
        counters[subscription] = counters.get(subscription, 0) + 1


class Passages:
    """Roost's counters of one broker."""

    __slots__ = ("deliveries", "kinds", "messages")

    def __init__(self) -> None:
        self.kinds: dict[Kind, int] = {}
        # (Source, destination) -> deliveries to clients, at that side or behind it.
        self.deliveries: dict[tuple[str, str], int] = {}
        self.messages = 0

    def passed(self, source: str, deliveries: Mapping[str, int], times: int = 1) -> None:
        """A message has passed. `deliveries` has each of its destinations, and how many clients get it there.

        Of clients behind a neighbour a broker knows subscriptions, which are fewer where others cover them.
        Or several messages, so many times alike.
        """
        kind = (source, frozenset(deliveries))
        self.kinds[kind] = self.kinds.get(kind, 0) + times
        for destination, count in deliveries.items():
            pair = (source, destination)
            self.deliveries[pair] = self.deliveries.get(pair, 0) + count * times
        self.messages += times

    def reset(self) -> None:
        """A new training begins."""
        self.kinds.clear()
        self.deliveries.clear()
        self.messages = 0
