"""Perturbations between rounds (002 section 6.2): brokers that leave and come back, interests that change.

The paper says "varying the nodes or the subscriptions/publications between different iterations", and no
more. Here, in every round, a share of the brokers

    nodes       leaves: its neighbours link to the one among them with the most neighbours; and joins again,
                with the same clients, as the neighbour of a broker that is drawn
    interests   has new subscriptions, drawn as the first ones were
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from roost.errors import UserError
from roost.experiments.overlay.workload import FILTER_SIZES, Load
from roost.overlay.rewiring.flows import Flows
from roost.pipeline.workload.topics import TOPICS, zipf

if TYPE_CHECKING:
    from random import Random

Churn = Literal["none", "nodes", "interests", "both"]


def check_churn(churn: str) -> None:
    """Refuses what is none."""
    if churn not in get_args(Churn):
        raise UserError(f"churn {churn!r}; expected {', '.join(get_args(Churn))}")


def perturbed(
    flows: Flows, load: Load, churn: str, share: float, random: Random
) -> tuple[Flows, Load]:
    """What a round leaves of the tree and of what is wanted; at least one broker is another."""
    count = max(1, round(share * len(flows.brokers)))
    if churn in ("interests", "both"):
        load = _other_interests(load, random, count)
    links = list(flows.links())
    if churn in ("nodes", "both"):
        for broker in random.sample(range(len(flows.brokers)), count):
            links = left_and_joined(links, broker, random)
    return Flows(links, load.demand), load


def left_and_joined(
    links: list[tuple[int, int]], broker: int, random: Random
) -> list[tuple[int, int]]:
    """A tree after one of its brokers has gone and come back."""
    degrees: dict[int, int] = {}
    for link in links:
        for end in link:
            degrees[end] = degrees.get(end, 0) + 1
    near = sorted({end for link in links if broker in link for end in link} - {broker})
    heir = max(near, key=lambda other: (degrees[other], -other))
    kept = [link for link in links if broker not in link]
    kept += [(heir, other) for other in near if other != heir]
    host = random.choice([other for other in sorted(degrees) if other != broker])
    return [*kept, (host, broker)]


def _other_interests(load: Load, random: Random, count: int) -> Load:
    asked = list(load.asked)
    hosts = [broker for broker, some in enumerate(asked) if some]
    draws = np.random.Generator(np.random.PCG64(random.getrandbits(64)))
    for host in random.sample(hosts, min(count, len(hosts))):
        columns = zipf(draws, len(asked[host]), TOPICS, FILTER_SIZES[load.matching])
        asked[host] = tuple(map(tuple, np.stack(columns, 1).tolist()))
    return load._replace(asked=tuple(asked))
