"""The overlay of a random scenario: how many brokers it has, how they are linked, and what machines they are.

All of it follows from the profile and from what is drawn (`random`), in this order: another order would be
another scenario of the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from roost.overlay.hierarchies import Hierarchy, random_hierarchy
from roost.overlay.topologies import (
    Topology,
    balanced_tree,
    chain,
    peer_clusters,
    random_tree,
    scale_free_tree,
    star,
)
from roost.simulation import statements as st
from roost.simulation.scenario_settings import (
    BALANCING,
    CLUSTERS,
    MOVES,
    OVERLAY,
    REWIRINGS,
    STANDBYS,
)

BROKERS_MIN, BROKERS_MAX = 3, 40
OVERLAY_BROKERS = (12, 30, 63)
CLUSTERED = 0.7


def shape_of(profile: str, random: Random, *, is_edgy: bool) -> Topology | Hierarchy:
    """The brokers of a scenario and their links."""
    small = is_edgy or profile in (REWIRINGS, BALANCING, STANDBYS)
    largest = [3, 5, 12] if small else [6, 15, BROKERS_MAX]
    size = random.randint(BROKERS_MIN, random.choice(largest))
    if profile == OVERLAY:
        size = random.choice(OVERLAY_BROKERS)
    topology = _tree_of(profile, size, random)
    if profile == CLUSTERS:
        return random_hierarchy(size, random.randrange(1000))
    return topology


def _tree_of(profile: str, size: int, random: Random) -> Topology:
    makers: list[Callable[[], Topology]] = [
        lambda: chain(min(size, 12)),
        lambda: star(size),
        lambda: balanced_tree(size, random.choice([2, 3])),
        lambda: random_tree(size, random.randrange(1000)),
        lambda: scale_free_tree(size, random.randrange(1000)),
    ]
    if profile == BALANCING and random.random() < CLUSTERED:
        return peer_clusters(
            random.choice([1, 1, 2, 3]), random.choice([2, 3]), random.choice(["chain", "star"])
        )
    return random.choice(makers)()


def machine_of(
    profile: str, random: Random, at: float, broker: str, *, is_edgy: bool
) -> st.AddBroker:
    """A broker begins, on a slow machine or a quick one."""
    quick = is_edgy or profile in (MOVES, REWIRINGS, OVERLAY, BALANCING, STANDBYS)
    mhz = random.choice([100.0, 1000.0] if quick else [1.0, 20.0, 1000.0])
    if profile == BALANCING:
        mhz = random.choice([20.0, 100.0, 400.0])
    mbps = random.choice([5.0, 50.0] if quick else [0.05, 0.5, 5.0, 50.0])
    return st.AddBroker(at=at, broker=broker, cpu_mhz=mhz, memory_mb=16, bandwidth_mbps=mbps)


def part_of(links: Sequence[tuple[str, str]], start: str) -> list[str]:
    """The brokers that links connect with this one, itself first."""
    part = [start]
    for broker in part:  # which grows meanwhile
        ends = [(a, b) for a, b in links if broker in (a, b)]
        part += [other for link in ends for other in link if other not in part]
    return part
