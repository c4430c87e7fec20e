"""An outside oracle: what was published and who asked for what, and so what must have arrived where.

It knows nothing of brokers, overlays or moves: only the language, which says whether an event matches a
filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.language import Event, Value, parse_subscription

Number = tuple[str, int]  # the publisher, and its how many-eth event


class Verdict(Struct, frozen=True):
    """What came of everything that was published."""

    published: int
    delivered: int  # wanted and arrived, each counted once
    lost: int
    doubled: int
    reordered: int
    unwanted: int

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.unwanted)


class Oracle:
    """Hears of everything that is published and that arrives.

    >>> oracle = Oracle({"S1": "volume > 5"})
    >>> oracle.published("P1", {"volume": 7})
    >>> oracle.published("P1", {"volume": 3})
    >>> oracle.published("P1", {"volume": 9})
    >>> for number in (3, 1, 3):
    ...     oracle.arrived("S1", ("P1", number))
    >>> oracle.verdict()
    Verdict(published=3, delivered=2, lost=0, doubled=1, reordered=1, unwanted=0)
    """

    def __init__(self, filters: Mapping[str, str]) -> None:
        self._filters = filters
        self._events: dict[str, list[Event]] = {}
        self._arrived: dict[str, list[Number]] = {name: [] for name in filters}

    def published(self, publisher: str, attributes: Mapping[str, Value]) -> None:
        """The next event of a publisher."""
        self._events.setdefault(publisher, []).append(Event(attributes))

    def arrived(self, subscriber: str, number: Number) -> None:
        """An event, at a subscriber."""
        self._arrived[subscriber].append(number)

    @property
    def arrivals(self) -> int:
        return sum(map(len, self._arrived.values()))

    def wanted(self) -> dict[str, set[Number]]:
        """What each subscriber has to get, by all that was published so far."""
        by_filter: dict[str, set[Number]] = {}
        for text in set(self._filters.values()):
            asked = parse_subscription(text)
            by_filter[text] = {
                (publisher, number)
                for publisher, events in self._events.items()
                for number, event in enumerate(events, 1)
                if asked.matches(event)
            }
        return {name: by_filter[text] for name, text in self._filters.items()}

    def verdict(self) -> Verdict:
        """Once everything has had time to arrive."""
        delivered = lost = doubled = reordered = unwanted = 0
        for name, wanted in self.wanted().items():
            came = self._arrived[name]
            distinct = set(came)
            delivered += len(distinct & wanted)
            lost += len(wanted - distinct)
            unwanted += len(distinct - wanted)
            doubled += len(came) - len(distinct)
            reordered += out_of_order(came)
        published = sum(map(len, self._events.values()))
        return Verdict(published, delivered, lost, doubled, reordered, unwanted)


def out_of_order(came: Sequence[Number]) -> int:
    """Events that came behind a later one of their publisher, each for the first time."""
    latest: dict[str, int] = {}
    seen: set[Number] = set()
    count = 0
    for publisher, number in came:
        if (publisher, number) not in seen:
            seen.add((publisher, number))
            count += number < latest.get(publisher, 0)
            latest[publisher] = max(number, latest.get(publisher, 0))
    return count
