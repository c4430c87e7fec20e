"""The workloads that know topics only: 002 section 6.1 and 003 section V.

`overlay` (002, table 1): 500 brokers with one component each. All of them subscribe three times, to topics
drawn by Zipf's law with parameter 1; a fifth of them publishes 150 messages each, to topics drawn
uniformly. In the topic-based case a subscription is to one topic (`filter_size=1`), in the content-based
case to three different ones. Whether a subscriber's own subscriptions differ is not said: here they are
drawn independently.

`hierarchy` (003): for each broker eight machines that send 10,000 subscriptions each, and eight that
publish 2,000 times each. All machines send at the same time, so their rows take turns. How many topics
there are is not said; `topics` is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pyarrow as pa
from msgspec import Meta

from roost.errors import UserError
from roost.language import Operator, Predicate
from roost.language.literals import write_value
from roost.pipeline.schemas import PUBLICATION, SUBSCRIPTION
from roost.pipeline.workload.blocks import Block, Column, Integers, generated
from roost.pipeline.workload.quotes import Origin
from roost.pipeline.workload.texts import Part, chosen, joined
from roost.pipeline.workload.thesis import PLACED
from roost.simulation.generators.parts import Positive, Share, draws

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "topic"
ORIGIN = pa.schema([("publisher", pa.string()), ("sequence", pa.int64())])
# Composed subscriptions are drawn from a table of rows by topics.
Topics = Annotated[int, Meta(ge=1, le=10_000)]

BROKERS, TOPICS = 500, 10
PUBLICATIONS_PER_PUBLISHER, SUBSCRIPTIONS_PER_SUBSCRIBER = 150, 3
MACHINES_PER_BROKER, HIERARCHY_TOPICS = 8, 1_000
SUBSCRIPTIONS_PER_MACHINE, PUBLICATIONS_PER_MACHINE = 10_000, 2_000


# --- 002 ------------------------------------------------------------------------------------------


def overlay_subscriptions(
    spark: SparkSession,
    *,
    seed: int,
    rows: int | None = None,
    first: int = 0,
    partitions: int | None = None,
    brokers: Positive = BROKERS,
    subscribers: Share = 1.0,
    subscriptions_per_subscriber: Positive = SUBSCRIPTIONS_PER_SUBSCRIBER,
    topics: Topics = TOPICS,
    filter_size: Positive = 1,
) -> DataFrame:
    """Subscriptions to one or several topics that Zipf's law draws, broker by broker."""
    if filter_size > topics:
        raise UserError(f"filter_size={filter_size}: there are only {topics} topics to choose from")
    hosts = some_brokers(seed, "overlay subscribers", brokers, subscribers)
    make = ZipfSubscriptions(hosts, subscriptions_per_subscriber, topics, filter_size)
    return generated(
        spark,
        make,
        PLACED,
        seed=seed,
        rows=len(hosts) * subscriptions_per_subscriber if rows is None else rows,
        first=first,
        partitions=partitions,
    )


def overlay_publications(
    spark: SparkSession,
    *,
    seed: int,
    rows: int | None = None,
    first: int = 0,
    partitions: int | None = None,
    brokers: Positive = BROKERS,
    publishers: Share = 0.2,
    publications_per_publisher: Positive = PUBLICATIONS_PER_PUBLISHER,
    topics: Topics = TOPICS,
    origin: Origin = "no",
) -> DataFrame:
    """Messages to any topic; the publishers take turns."""
    hosts = some_brokers(seed, "overlay publishers", brokers, publishers)
    return topic_publications(
        spark,
        tuple(f"P{broker}" for broker in hosts),
        topics,
        seed=seed,
        rows=len(hosts) * publications_per_publisher if rows is None else rows,
        first=first,
        partitions=partitions,
        origin=origin,
    )


def some_brokers(seed: int, purpose: str, brokers: int, share: float) -> tuple[int, ...]:
    """This share of the brokers, at least one, in order."""
    n = max(1, round(share * brokers))
    return tuple(sorted(draws(seed, purpose).permutation(brokers)[:n].tolist()))


def topic_names(topics: int) -> list[str]:
    """The topics, the most popular first."""
    return [f"topic{number}" for number in range(1, topics + 1)]


@dataclass(frozen=True)
class ZipfSubscriptions:
    """Blocks of subscriptions to popular topics."""

    hosts: tuple[int, ...]
    per_subscriber: int
    topics: int
    filter_size: int

    @cached_property
    def literals(self) -> pa.Array:
        """The topics, as filters write them."""
        return pa.array(map(write_value, topic_names(self.topics)))

    def drawn(self, block: Block) -> tuple[Integers, list[Integers]]:
        """The broker of each subscription, and its topics as numbers from 0 on, a column for each."""
        rng = block.draws("overlay subscriptions")
        host = np.array(self.hosts)[block.rows // self.per_subscriber % len(self.hosts)]
        return host, zipf(rng, block.size, self.topics, self.filter_size)

    def __call__(self, block: Block) -> dict[str, Column]:
        host, columns = self.drawn(block)
        names = [chosen(self.literals, column) for column in columns]
        if self.filter_size == 1:
            filters = joined(f"{TOPIC} = ", *names)
        else:
            parts: list[Part] = [f"{TOPIC} in ("]
            for number, name in enumerate(names):
                parts += [", ", name] if number else [name]
            filters = joined(*parts, ")")
        return {
            SUBSCRIPTION: block.rows,
            "filter": filters,
            "subscriber": joined("S", host),
            "broker": joined("B", host),
        }


def zipf(rng: np.random.Generator, n: int, topics: int, size: int) -> list[Integers]:
    """n draws of `size` different topics, one after the other, with the weights 1, 1/2, 1/3, ..."""
    weights = 1 / np.arange(1, topics + 1)
    if size == 1:
        ends = weights.cumsum()
        return [np.searchsorted(ends, rng.uniform(0, ends[-1], n), "right").clip(max=topics - 1)]
    # A race: who comes first, second, ... of exponential times with these rates is drawn just so.
    times = rng.standard_exponential((n, topics)) / weights
    winners = np.argsort(times, axis=1)[:, :size]
    return [np.ascontiguousarray(column) for column in np.sort(winners, axis=1).T]


# --- 003 ------------------------------------------------------------------------------------------


def hierarchy_subscriptions(
    spark: SparkSession,
    *,
    seed: int,
    rows: int | None = None,
    first: int = 0,
    partitions: int | None = None,
    brokers: Positive = 5,
    subscriptions_per_machine: Positive = SUBSCRIPTIONS_PER_MACHINE,
    topics: Positive = HIERARCHY_TOPICS,
) -> DataFrame:
    """Subscriptions to one topic each, from eight machines a broker that take turns."""
    machines = MACHINES_PER_BROKER * brokers
    return generated(
        spark,
        TopicSubscriptions(machines, topics),
        PLACED,
        seed=seed,
        rows=machines * subscriptions_per_machine if rows is None else rows,
        first=first,
        partitions=partitions,
    )


def hierarchy_publications(
    spark: SparkSession,
    *,
    seed: int,
    rows: int | None = None,
    first: int = 0,
    partitions: int | None = None,
    brokers: Positive = 5,
    publications_per_machine: Positive = PUBLICATIONS_PER_MACHINE,
    topics: Positive = HIERARCHY_TOPICS,
    origin: Origin = "no",
) -> DataFrame:
    """Messages to any topic, from eight machines a broker that take turns."""
    machines = MACHINES_PER_BROKER * brokers
    return topic_publications(
        spark,
        tuple(f"P{machine}" for machine in range(1, machines + 1)),
        topics,
        seed=seed,
        rows=machines * publications_per_machine if rows is None else rows,
        first=first,
        partitions=partitions,
        origin=origin,
    )


@dataclass(frozen=True)
class TopicSubscriptions:
    """Blocks of subscriptions to a topic each."""

    machines: int
    topics: int

    @cached_property
    def filters(self) -> pa.Array:
        """The filter of each topic."""
        return pa.array([str(Predicate(TOPIC, Operator.EQ, n)) for n in topic_names(self.topics)])

    def __call__(self, block: Block) -> dict[str, Column]:
        rng = block.draws("hierarchy subscriptions")
        machine = block.rows % self.machines
        return {
            SUBSCRIPTION: block.rows,
            "filter": chosen(self.filters, rng.integers(self.topics, size=block.size)),
            "subscriber": joined("S", machine + 1),
            "broker": joined("B", machine // MACHINES_PER_BROKER),
        }


# --- both -----------------------------------------------------------------------------------------


def topic_publications(
    spark: SparkSession,
    publishers: tuple[str, ...],
    topics: int,
    *,
    seed: int,
    rows: int,
    first: int,
    partitions: int | None,
    origin: Origin,
) -> DataFrame:
    """Messages to any topic; the publishers take turns."""
    fields = [(TOPIC, pa.string()), *(ORIGIN if origin == "yes" else ())]
    return generated(
        spark,
        TopicPublications(publishers, topics),
        pa.schema([(PUBLICATION, pa.int64()), *fields]),
        seed=seed,
        rows=rows,
        first=first,
        partitions=partitions,
    )


@dataclass(frozen=True)
class TopicPublications:
    """Blocks of messages."""

    publishers: tuple[str, ...]
    topics: int

    def drawn(self, block: Block) -> tuple[Integers, Integers]:
        """The number of each message's publisher, and its topic, from 0 on."""
        rng = block.draws("topic publications")
        return block.rows % len(self.publishers), rng.integers(self.topics, size=block.size)

    def __call__(self, block: Block) -> dict[str, Column]:
        publisher, topic = self.drawn(block)
        return {
            PUBLICATION: block.rows,
            TOPIC: chosen(pa.array(topic_names(self.topics)), topic),
            "publisher": chosen(pa.array(self.publishers), publisher),
            "sequence": block.rows // len(self.publishers) + 1,
        }
