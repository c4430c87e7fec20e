"""002's workloads as demands (section 6.1, table 1): the tables of `pipeline.workload.topics`, without Spark.

The draws are those of the tables, so that a demand is what the tables of the same seed say. By content a
subscription asks for three topics; a message is of one, so that a kind is a topic in both cases, and what is
different is how many brokers want it, and that subscriptions overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from roost.overlay.rewiring.demand import Amounts, Demand
from roost.overlay.topologies import chain, scale_free_tree
from roost.overlay.trees import Topology
from roost.pipeline.workload.blocks import blocks_of
from roost.pipeline.workload.topics import (
    SUBSCRIPTIONS_PER_SUBSCRIBER,
    TOPICS,
    TopicPublications,
    ZipfSubscriptions,
    some_brokers,
)

Matching = Literal["topic", "content"]
Start = Literal["scale-free", "spiral"]
FILTER_SIZES: dict[str, int] = {"topic": 1, "content": 3}


# Of each broker the subscriptions of its component; a subscription is the topics that it asks for.
Asked = tuple[tuple[tuple[int, ...], ...], ...]


class Load(NamedTuple):
    """What is published and asked for."""

    matching: Matching
    published: Amounts  # brokers by topics
    asked: Asked

    @property
    def demand(self) -> Demand:
        """As flows have it."""
        brokers = range(len(self.asked))
        wanted = np.array([self.wanted_at(broker) for broker in brokers])
        return Demand(tuple(f"B{i}" for i in brokers), self.published, wanted)

    def wanted_at(self, broker: int) -> Amounts:
        """Clients of a broker that want each topic."""
        found = np.zeros(self.published.shape[1])
        for topics in self.asked[broker]:
            found[list(topics)] += 1
        return found

    @property
    def subscriptions(self) -> Amounts | None:
        """S of the paper, each once: a column with 1 for its topics. None by topic: a topic is one."""
        if self.matching == "topic":
            return None
        different = sorted({topics for some in self.asked for topics in some})
        found = np.zeros((self.published.shape[1], len(different)))
        for column, topics in enumerate(different):
            found[list(topics), column] = 1.0
        return found


def load_of(
    seed: int,
    *,
    matching: Matching,
    brokers: int,
    subscribers: float,
    publishers: float,
    publications: int,
) -> Load:
    """The workload of a seed; of subscribers and publishers the shares, of publications how many each."""
    hosts = some_brokers(seed, "overlay subscribers", brokers, subscribers)
    asked: list[list[tuple[int, ...]]] = [[] for _ in range(brokers)]
    for host, topics in subscriptions(seed, hosts, FILTER_SIZES[matching]):
        asked[host].append(topics)
    published = np.zeros((brokers, TOPICS))
    sources = np.array(some_brokers(seed, "overlay publishers", brokers, publishers))
    make = TopicPublications(tuple(f"P{host}" for host in sources), TOPICS)
    for block, rows in blocks_of(seed, len(sources) * publications):
        publisher, topic = make.drawn(block)
        np.add.at(published, (sources[publisher[:rows]], topic[:rows]), 1.0)
    return Load(matching, published, tuple(map(tuple, asked)))


def subscriptions(
    seed: int, hosts: tuple[int, ...], filter_size: int
) -> Iterable[tuple[int, tuple[int, ...]]]:
    """The broker and the topics of each."""
    make = ZipfSubscriptions(hosts, SUBSCRIPTIONS_PER_SUBSCRIBER, TOPICS, filter_size)
    for block, rows in blocks_of(seed, len(hosts) * SUBSCRIPTIONS_PER_SUBSCRIBER):
        host, columns = make.drawn(block)
        yield from zip(
            host[:rows].tolist(), map(tuple, np.stack(columns, 1)[:rows].tolist()), strict=True
        )


def tree_of(start: Start, brokers: int, seed: int) -> Topology:
    """Where an overlay starts: scale-free, or 002's spiral, the longest there is."""
    return scale_free_tree(brokers, seed) if start == "scale-free" else chain(brokers)
