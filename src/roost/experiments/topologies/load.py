"""The workload of 003's section V, drawn by `pipeline.workload.topics`: machines that subscribe and publish.

A broker has eight machines of each kind. When subscriptions are measured, each draws its topics from all
there are, and so the same ones come again and again ("no routing cost on future subscriptions on the same
topic"). When publications are, the paper does not say who wants them, and everything depends on it; so the
**spread** of topics is a parameter: a share of them is *shared*, wanted by the clients of every broker,
and of the others each is wanted at one broker, where it is also published. A publication is to a shared topic
with the same probability, however many brokers there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from roost.pipeline.workload.blocks import blocks_of
from roost.pipeline.workload.topics import (
    MACHINES_PER_BROKER,
    TOPIC,
    TopicPublications,
    TopicSubscriptions,
    topic_names,
)

MACHINES = MACHINES_PER_BROKER


class Asked(NamedTuple):
    """A machine subscribes."""

    broker: int
    machine: int  # of all machines
    filter: str


class Said(NamedTuple):
    """A machine publishes."""

    broker: int
    machine: int
    topic: str


class Spread(NamedTuple):
    """Which topics are wanted where."""

    brokers: int
    topics: int
    shared: float

    @property
    def common(self) -> int:
        """So many, the first ones, are wanted everywhere."""
        return round(self.shared * self.topics)

    def own(self, broker: int) -> range:
        """Those that only the clients of this broker want."""
        return range(self.common + broker, self.topics, self.brokers)

    def filter_at(self, broker: int) -> str:
        """What a listener of this broker subscribes to."""
        names = topic_names(self.topics)
        wanted = [*range(self.common), *self.own(broker)]
        return f"{TOPIC} in ({', '.join(repr(names[topic]) for topic in wanted)})"

    def published_at(self, broker: int, drawn: int) -> int:
        """The topic that a publisher of this broker takes for one that was drawn from all."""
        own = self.own(broker)
        return drawn if drawn < self.common or not own else own[drawn % len(own)]


def subscriptions(seed: int, brokers: int, each: int, topics: int) -> Iterator[Asked]:
    """Of all machines, which take turns."""
    machines = brokers * MACHINES
    make = TopicSubscriptions(machines, topics)
    for block, rows in blocks_of(seed, machines * each):
        filters = make(block)["filter"]
        for row, text in zip(block.rows[:rows].tolist(), filters[:rows].tolist(), strict=True):
            machine = row % machines
            yield Asked(machine // MACHINES, machine, str(text))


def publications(seed: int, spread: Spread, each: int) -> Iterator[Said]:
    """Of all machines, which take turns."""
    machines = spread.brokers * MACHINES
    make = TopicPublications(tuple(map(str, range(machines))), spread.topics)
    names = topic_names(spread.topics)
    for block, rows in blocks_of(seed, machines * each):
        machine, topic = (np.asarray(column)[:rows].tolist() for column in make.drawn(block))
        for its, drawn in zip(machine, topic, strict=True):
            broker = its // MACHINES
            yield Said(broker, its, names[spread.published_at(broker, drawn)])
