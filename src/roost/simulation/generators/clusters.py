"""The workload of 001 section 5.2.2: four clusters in a chain, and all clients at the first.

Cluster-heads are B10, B20, B30 and B40; the edge-brokers of B10 are B11 and B12. The thesis says that
subscribers join at 10 s, and shows them joining during the first 1,000 s: they come as in its local
experiment.
"""

from __future__ import annotations

from itertools import pairwise

from roost.overlay.topologies import Link, Topology
from roost.simulation.generators.parts import (
    Count,
    Machine,
    Positive,
    Seconds,
    Share,
    draws,
    finished,
    joining_times,
    market_of,
    overlay,
)
from roost.simulation.generators.thesis import (
    LOCAL_PUBLISHERS_FROM_S,
    LOCAL_PUBLISHERS_GAP_S,
    LOCAL_SUBSCRIBERS_BY_S,
    LOCAL_SUBSCRIBERS_FROM_S,
    ThesisSubscriptions,
    doubled,
    thesis_publishers,
    thesis_subscribers,
)
from roost.simulation.statements import Statement

HEAD = Machine(cpu_mhz=3_000.0, memory_mb=128.0, bandwidth_mbps=10.0)
# 001 table 5.4, cluster by cluster.
EDGES = (
    (Machine(300.0, 128.0, 1.0), Machine(200.0, 128.0, 0.5)),
    (Machine(350.0, 64.0, 1.0), Machine(400.0, 64.0, 1.5)),
    (Machine(266.0, 64.0, 1.0), Machine(700.0, 64.0, 2.0)),
    (Machine(166.0, 64.0, 0.5), Machine(233.0, 128.0, 0.5)),
)


def clusters_in_a_chain() -> tuple[Topology, list[Machine]]:
    """The overlay of figure 5.16, and its machines in the same order."""
    heads = [f"B{10 * number}" for number in range(1, len(EDGES) + 1)]
    brokers, machines = list(heads), [HEAD] * len(heads)
    links = [Link(a, b) for a, b in pairwise(heads)]
    for head, edges in zip(heads, EDGES, strict=True):
        for number, machine in enumerate(edges, 1):
            name = f"{head[:-1]}{number}"
            brokers.append(name)
            machines.append(machine)
            links.append(Link(head, name))
    return Topology(tuple(brokers), tuple(links)), machines


def global_(
    seed: int,
    *,
    publishers: Positive = 40,
    subscribers: Count = 2_000,
    zero_traffic: Share = 0.2,
    changed: Share = 0.5,
    change_at_s: Seconds = 8_000.0,
    until_s: Seconds = 12_000.0,
    bars: str = "",
) -> list[Statement]:
    """Global load balancing (001 section 5.2.2): four clusters in a chain, all clients at the first.

    The share `changed` of the publishers doubles its rate at `change_at_s`.
    """
    market = market_of(seed, publishers, bars)
    symbols = market.symbols[:publishers]
    rng = draws(seed, "global publishers")
    quoting = thesis_publishers(
        rng, symbols, ["B10"], LOCAL_PUBLISHERS_FROM_S, LOCAL_PUBLISHERS_GAP_S
    )
    joining = draws(seed, "global subscribers")
    times = joining_times(joining, subscribers, LOCAL_SUBSCRIBERS_FROM_S, LOCAL_SUBSCRIBERS_BY_S)
    subscriptions = ThesisSubscriptions(market, symbols)
    return finished(
        [
            *overlay(*clusters_in_a_chain()),
            *quoting,
            *thesis_subscribers(joining, subscriptions, times, ["B11"], zero_traffic),
            *doubled(rng, quoting, changed, change_at_s),
        ],
        until_s,
        seed,
        bars,
    )
