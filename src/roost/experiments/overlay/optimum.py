"""How close to the best tree: seven brokers, held against all 7 ** 5 = 16,807 trees.

A link parts the brokers in two, and what crosses it depends on the parts only. So the traffic of each of the
127 ways to part seven brokers is computed once, and a tree's is the sum over its six links. Which parts a
tree has is the same for all demands: the trees are those of the Prüfer sequences, and when a sequence takes
a leaf away, what has been merged into that leaf is one side of its link.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from roost.experiments.overlay.organising import VARIANTS, Terms, organised
from roost.experiments.overlay.workload import Load
from roost.overlay.rewiring.demand import Demand
from roost.overlay.topologies import random_tree
from roost.pipeline.sweeps.tasks import Row
from roost.simulation.generators.parts import draws

BROKERS, TOPICS = 7, 5
DEMANDS = 50  # of a seed
ROUNDS = 80
# Roost's own, with noise in the beginning.
NOISY, NOISE = "noisy", 0.3


@cache
def all_parts(brokers: int = BROKERS) -> NDArray[np.int64]:
    """Of each tree the parts of its links: a side, as bits."""
    trees = [_parts(brokers, sequence) for sequence in product(range(brokers), repeat=brokers - 2)]
    return np.array(trees, np.int64)


def _parts(brokers: int, sequence: tuple[int, ...]) -> list[int]:
    missing = [1 + sequence.count(i) for i in range(brokers)]
    merged = [1 << i for i in range(brokers)]
    parts = []
    for other in sequence:
        leaf = missing.index(1)
        missing[leaf] = 0
        missing[other] -= 1
        parts.append(merged[leaf])
        merged[other] |= merged[leaf]
    parts.append(merged[missing.index(1)])
    return parts


def traffic_of_parts(demand: Demand) -> NDArray[np.int64]:
    """What crosses a link with these brokers on the one side, both ways, for each set of them."""
    brokers = len(demand.brokers)
    sides = (np.arange(1 << brokers)[:, None] >> np.arange(brokers)) & 1
    others = 1 - sides
    found = np.zeros(1 << brokers)
    for one, other in ((sides, others), (others, sides)):
        found += ((one @ demand.published) * ((other @ demand.wanted) > 0)).sum(1)
    return found.astype(np.int64)


def least_traffic(demand: Demand) -> int:
    """That of the best tree of all."""
    return int(traffic_of_parts(demand)[all_parts(len(demand.brokers))].sum(1).min())


def against_all_trees(seed: int) -> Row:
    """How far each variant ends above the best tree, in %, and how often at it, from random trees."""
    above: dict[str, list[float]] = {name: [] for name in ("start", *VARIANTS, NOISY)}
    for number in range(DEMANDS):
        rng = draws(seed, f"overlay optimum {number}")
        published = rng.integers(0, 20, (BROKERS, TOPICS)) * (rng.random((BROKERS, 1)) < 0.5)
        asked = tuple(
            tuple((int(topic),) for topic in np.flatnonzero(rng.random(TOPICS) < 0.3))
            for _ in range(BROKERS)
        )
        load = Load("topic", published.astype(float), asked)
        least = least_traffic(load.demand)
        if not least:
            continue
        start = random_tree(BROKERS, seed * DEMANDS + number)
        tracks = {name: organised(start, load, name, seed, rounds=ROUNDS) for name in VARIANTS}
        tracks[NOISY] = organised(start, load, "roost", seed, Terms(noise=NOISE), rounds=ROUNDS)
        above["start"].append(_above(tracks[NOISY].states[0].traffic, least))
        for name, track in tracks.items():
            above[name].append(_above(track.end.traffic, least))
    found: dict[str, float] = {}
    for name, values in above.items():
        found[f"{name}_above_least"] = float(np.mean(values))
        found[f"{name}_at_least"] = 100 * float(np.mean(np.array(values) == 0))
    return found


def _above(traffic: int, least: int) -> float:
    return 100 * (traffic / least - 1)
