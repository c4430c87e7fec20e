"""Random filters and events of few and small values, so that they cover and overlap each other often."""

from __future__ import annotations

import random
from collections.abc import Iterable

from roost.language import Advertisement, Event, Filter, Operator, Predicate, Subscription

CLASSES = ("c0", "c1")
ATTRIBUTES = ("a", "b")
VALUES = 8
TRIES = 10


class Words:
    """What the clients of a random scenario say."""

    def __init__(self, draws: random.Random) -> None:
        self._random = draws

    def event_of(self, advertisements: Iterable[Advertisement], **more: int) -> Event | None:
        """An event that one of these matches, as far as a few tries find one."""
        advertisements = list(advertisements)
        for _ in range(TRIES):
            event = Event(
                {
                    "class": self._random.choice(CLASSES),
                    **{name: self._random.randrange(VALUES) for name in ATTRIBUTES},
                    **more,
                }
            )
            if any(a.matches(event) for a in advertisements):
                return event
        return None

    def subscription(self) -> Subscription:
        filters = [self.filter(0.7)]
        if self._random.random() < 0.1:
            filters.append(self.filter(0.7))
        return Subscription(filters)

    def filter(self, narrow: float) -> Filter:
        r = self._random
        predicates = []
        if r.random() < narrow:
            predicates.append(Predicate("class", Operator.EQ, r.choice(CLASSES)))
        for name in ATTRIBUTES:
            if r.random() < narrow / 2:
                operator = r.choice([Operator.GT, Operator.LT, Operator.EQ, Operator.GE])
                predicates.append(Predicate(name, operator, r.randrange(VALUES)))
        return Filter(predicates or [Predicate("a", Operator.GE, 0)])
