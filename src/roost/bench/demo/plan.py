"""Who publishes what in the demo, who asks for what, and where all of them are.

The quotes and the filters are those of the clustered workload of 000 section 5.1 (`pipeline.workload`): of a
publisher's 20 subscribers one wants every quote, at one broker, and the others a tenth of them, at another.
Which brokers those are, the demo says: they are neighbours, and the publisher itself is as far from them as
the tree allows.

The tables of the pipeline are made block by block (`pipeline.workload.blocks`), each by a function of its
number. Spark would give the blocks to its tasks; these are few, and nobody who wants to see something waits
for Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from roost.overlay.topologies import Topology, balanced_tree
from roost.overlay.trees import rooted
from roost.pipeline.workload.blocks import BLOCK, Block, Make, record_batch
from roost.pipeline.workload.quotes import ORIGIN, QUOTE, Publications, Source
from roost.pipeline.workload.relocation import Subscriptions, published
from roost.pipeline.workload.thesis import PLACED

BROKERS = 15
PUBLISHERS = 8
SUBSCRIBERS_PER_PUBLISHER = 20
# A leaf of the tree, and the broker above it.
SPREAD = 2
RATE_PER_S = 40.0
SEED = 1


class Publisher(Struct, frozen=True):
    """One that publishes, and where it begins."""

    name: str
    broker: str
    advertisement: str
    times_s: Sequence[float]
    events: Sequence[dict[str, Any]]


class Subscriber(Struct, frozen=True):
    """One that gets what its filter says."""

    name: str
    broker: str
    filter: str


class Plan(Struct, frozen=True):
    """All of it."""

    topology: Topology
    publishers: Sequence[Publisher]
    subscribers: Sequence[Subscriber]
    audiences: Sequence[Sequence[str]]  # the brokers of each publisher's subscribers


def plan_of(until_s: float) -> Plan:
    """The workload, with so many seconds of quotes."""
    rate_per_min = 60 * RATE_PER_S
    each = published(rate_per_min, until_s)
    source = Source.of(SEED, PUBLISHERS, bars="")
    places = tuple(f"B{place}" for place in range(SPREAD))
    quotes = Publications(source, (rate_per_min,) * PUBLISHERS, origin=True)
    filters = Subscriptions(source, "clustered", SPREAD, places, SUBSCRIBERS_PER_PUBLISHER, each)
    topology = balanced_tree(BROKERS)
    audiences = audiences_in(topology)[:PUBLISHERS]
    return Plan(
        topology,
        _publishers(
            list(_rows(quotes, pa.schema([*QUOTE, *ORIGIN]), PUBLISHERS * each)),
            topology,
            audiences,
        ),
        [
            _subscriber(row, audiences)
            for row in _rows(filters, PLACED, PUBLISHERS * SUBSCRIBERS_PER_PUBLISHER)
        ],
        audiences,
    )


def _rows(make: Make, schema: pa.Schema, count: int) -> Iterator[dict[str, Any]]:
    """The first rows of a table of the pipeline's."""
    for number in range(-(-count // BLOCK)):
        batch = record_batch(make(Block(SEED, number)), schema)
        yield from batch.slice(0, count - number * BLOCK).to_pylist()


def _publishers(
    rows: Sequence[dict[str, Any]], topology: Topology, audiences: Sequence[Sequence[str]]
) -> list[Publisher]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["sequence"])):
        by_name.setdefault(row["publisher"], []).append(row)
    publishers = []
    for number in range(PUBLISHERS):
        quotes = by_name[name := f"P{number + 1}"]
        farthest = farthest_from(topology, audiences[number])
        publishers.append(
            Publisher(
                name,
                farthest[number % len(farthest)],
                f"class = '{quotes[0]['class']}' and symbol = '{quotes[0]['symbol']}'",
                # One after the other, not all in the same moment.
                [row["time"] + number / RATE_PER_S / PUBLISHERS for row in quotes],
                [{key: row[key] for key in QUOTE.names} for row in quotes],
            )
        )
    return publishers


def _subscriber(row: dict[str, Any], audiences: Sequence[Sequence[str]]) -> Subscriber:
    """The broker of the table is the number of a place of its publisher's audience."""
    publisher = row["subscription"] // SUBSCRIBERS_PER_PUBLISHER
    place = int(row["broker"].removeprefix("B"))
    return Subscriber(row["subscriber"], audiences[publisher][place], row["filter"])


# --- places -----------------------------------------------------------------------------------------


def audiences_in(topology: Topology) -> list[tuple[str, str]]:
    """Each leaf, with the broker above it."""
    tree = rooted(topology, topology.brokers[0])
    return [
        (tree.parent[broker], broker) for broker in topology.brokers if not tree.children[broker]
    ]


def farthest_from(topology: Topology, audience: Sequence[str]) -> list[str]:
    """The brokers with the most links to all of these together."""
    depths = [rooted(topology, broker).depth for broker in audience]
    total = {broker: sum(depth[broker] for depth in depths) for broker in topology.brokers}
    most = max(total.values())
    return [broker for broker in topology.brokers if total[broker] == most]
