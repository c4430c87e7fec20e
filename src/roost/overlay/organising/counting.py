"""From visits of publications to the counters of a training (`roost.overlay.rewiring.counters`).

Roost's counters are kept whatever the variant is: they are cheap, and whatever is decided, they say what it
saves. The paper's are by subscription, and want each event matched once more (`Module.wants_behind`); so does
a goal that looks at delay, which counts deliveries, by the subscriptions behind each neighbour. A
subscription is known by its text: two subscribers who ask for the same are one. Those that come from the side
that a message came from are not among them, as nobody here matches them against it; by topic that makes no
difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roost.broker.module import Surroundings, Visit
from roost.overlay.rewiring.counters import LOCAL, Passages, Rewiring, Training

# Subscriptions whose text is at hand; all are forgotten at once.
TEXTS_MAX = 100_000


class Counting:
    """What has passed a broker since the training began."""

    def __init__(self, around: Surroundings, *, by_subscription: bool, by_delivery: bool) -> None:
        self._around = around
        self._by_delivery = by_delivery
        self._passages = Passages()
        # Of messages alike, that are not among the passages yet: each takes one look into this, and no more.
        self._alike: dict[tuple[str, tuple[str, ...], bool], int] = {}
        self.training = Training() if by_subscription else None
        self.messages = 0
        self._texts: dict[str, str] = {}  # by the id of a subscription

    def reset(self) -> None:
        """A new training begins."""
        self.messages = 0
        self._alike.clear()
        self._passages.reset()
        if self.training is not None:
            self.training.reset()
        if len(self._texts) > TEXTS_MAX:
            self._texts.clear()

    def passed(self, visit: Visit) -> None:
        """A publication of a client has been routed."""
        self.messages += 1
        source = LOCAL if visit.from_client else visit.source
        if self._by_delivery:
            deliveries = dict.fromkeys(visit.neighbours, 1)
            deliveries |= {name: len(behind) for name, behind in visit.behind.items()}
            deliveries |= {LOCAL: len(visit.matches)} if visit.matches else {}
            self._passages.passed(source, deliveries)
        else:
            alike = (source, tuple(visit.neighbours), bool(visit.matches))
            self._alike[alike] = self._alike.get(alike, 0) + 1
        if self.training is not None:
            sides = [*visit.neighbours, LOCAL] if visit.matches else visit.neighbours
            self.training.passed(source, sides, dict.fromkeys(self._matched(visit)))

    def passages(self) -> Passages:
        """Roost's counters. Where deliveries don't count, a side that messages go to is one."""
        for (source, neighbours, local), count in self._alike.items():
            sides = (*neighbours, LOCAL) if local else neighbours
            self._passages.passed(source, dict.fromkeys(sides, 1), count)
        self._alike.clear()
        return self._passages

    def _matched(self, visit: Visit) -> Iterator[str]:
        for client, ids in visit.matches.items():
            for id_ in ids:
                yield self._text(id_) or self._learnt(id_, self._around.clients().get(client, {}))
        for neighbour, behind in visit.behind.items():
            for id_ in behind:
                found = self._text(id_)
                yield found or self._learnt(id_, self._around.subscriptions_from(neighbour))

    def _text(self, id_: str) -> str:
        return self._texts.get(id_, "")

    def _learnt(self, id_: str, subscriptions: Mapping[str, object]) -> str:
        """What is there now; what has gone meanwhile is known by its id."""
        self._texts |= {known: str(subscription) for known, subscription in subscriptions.items()}
        return self._texts.setdefault(id_, id_)


def crossings(passages: Passages, rewiring: Rewiring) -> tuple[int, int]:
    """Of a rewiring, the messages that passed the links of its three brokers, and how often they did.

    The messages are the same ones afterwards, whichever links they take: all of them pass the anchor.
    """
    pair = {rewiring.mover, rewiring.anchor}
    messages = total = 0
    for (source, destinations), count in passages.kinds.items():
        times = (source in pair) + len(destinations & pair)
        if times:
            messages += count
            total += times * count
    return messages, total


def by_side(passages: Passages) -> tuple[dict[str, int], dict[str, int]]:
    """Messages from and to each side, by its name; the clients here are L."""
    come: dict[str, int] = {}
    gone: dict[str, int] = {}
    for (source, destinations), count in passages.kinds.items():
        come[source or "L"] = come.get(source or "L", 0) + count
        for side in sorted(destinations):
            gone[side or "L"] = gone.get(side or "L", 0) + count
    return dict(sorted(come.items())), dict(sorted(gone.items()))
