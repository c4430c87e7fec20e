"""The oracle: every publication is sent over the tree for every candidate, and what happens is counted.

It knows what the statistics only summarise, which publication was delivered how often at which broker, and
nothing of bit vectors, downstream sets or re-rooting. A broker receives a publication if it lies on the
path to somebody who gets it. What the estimates of `grape` and `subscribers` promise has to come out here.
It takes O(N) for a publication and candidate: for tests and experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from roost.relocation.statistics import Answer

# Of each broker: how many clients there got publication 0, 1, ... of a session.
Deliveries = Mapping[str, Sequence[int]]


class Outcome(NamedTuple):
    """What happened in a session."""

    delay_s: float  # over all deliveries, from the publisher's broker on
    deliveries: int
    messages: int  # that brokers received

    @property
    def average_s(self) -> float:
        """Of a delivery."""
        return self.delay_s / self.deliveries if self.deliveries else 0.0


class Ways:
    """The paths from one broker to all others."""

    def __init__(self, answers: Collection[Answer], source: str) -> None:
        known = {answer.broker: answer for answer in answers}
        self.path: dict[str, tuple[str, ...]] = {source: (source,)}
        self.delay_s = {source: 0.0}
        reached = [source]
        for broker in reached:  # which grows meanwhile
            for neighbour in known[broker].neighbours:
                if neighbour.broker in known and neighbour.broker not in self.path:
                    self.path[neighbour.broker] = (*self.path[broker], neighbour.broker)
                    self.delay_s[neighbour.broker] = self.delay_s[broker] + known[broker].to_s(
                        neighbour
                    )
                    reached.append(neighbour.broker)


def sent(answers: Collection[Answer], source: str, deliveries: Deliveries) -> Outcome:
    """Publish a session at `source`."""
    ways = Ways(answers, source)
    clients_s = {answer.broker: answer.to_clients_s for answer in answers}
    delay, delivered, messages = 0.0, 0, 0
    for publication in range(max((len(row) for row in deliveries.values()), default=0)):
        receiving: set[str] = set()
        for broker, row in deliveries.items():
            clients = row[publication]
            if clients:
                receiving.update(ways.path[broker])
                delay += clients * (ways.delay_s[broker] + clients_s[broker])
                delivered += clients
        messages += len(receiving)
    return Outcome(delay, delivered, messages)


def publisher_everywhere(answers: Collection[Answer], deliveries: Deliveries) -> dict[str, Outcome]:
    """With the publisher at each broker."""
    return {answer.broker: sent(answers, answer.broker, deliveries) for answer in answers}


def group_everywhere(
    answers: Collection[Answer], source: str, others: Deliveries, group: Sequence[int]
) -> dict[str, tuple[Outcome, Outcome]]:
    """With a group of subscribers at each broker: all that is delivered, and the group's part of it.

    `group` is how many of its members got publication 0, 1, ...
    """
    nobody = [0] * len(group)
    found = {}
    for answer in answers:
        here = others.get(answer.broker, nobody)
        joined = {answer.broker: [a + b for a, b in zip(here, group, strict=True)]}
        found[answer.broker] = (
            sent(answers, source, {**others, **joined}),
            sent(answers, source, {answer.broker: group}),
        )
    return found
