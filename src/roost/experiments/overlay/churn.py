"""Perturbations between rounds (002 section 6.2): brokers that leave and come back, interests that change.

The paper says "varying the nodes or the subscriptions/publications between different iterations", and no
more. Here, in every round, a share of the brokers

    nodes       leaves: its neighbours link to the one among them with the most neighbours that has room for
                them; and joins again, with the same clients: a contact is drawn, which has room for one more
    interests   has new subscriptions, drawn as the first ones were

Who joins is linked to its contact (`drawn`), or is `referred` by it to the largest broker beside it. Both are
rules of `overlay.placement`.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from roost.errors import UserError
from roost.experiments.overlay.workload import FILTER_SIZES, Load
from roost.overlay.placement import heir_of, referred
from roost.overlay.rewiring.flows import Flows
from roost.pipeline.workload.topics import TOPICS, zipf

if TYPE_CHECKING:
    from random import Random

Churn = Literal["none", "nodes", "interests", "both"]
Join = Literal["drawn", "referred"]


def check_churn(churn: str) -> None:
    """Refuses what is none."""
    if churn not in get_args(Churn):
        raise UserError(f"churn {churn!r}; expected {', '.join(get_args(Churn))}")


class ChurnTerms(NamedTuple):
    """How much changes in a round, and how."""

    churn: str = "none"
    share: float = 0.01  # of the brokers, though one at least
    join: str = "drawn"
    degree_max: float = inf  # the most neighbours


def perturbed(flows: Flows, load: Load, terms: ChurnTerms, random: Random) -> tuple[Load, set[int]]:
    """Changes the tree, and what is wanted of it.

    Also says which brokers have other counters than before.
    """
    churn, count = terms.churn, max(1, round(terms.share * len(flows.brokers)))
    changed: set[int] = set()
    if churn in ("interests", "both"):
        load, hosts = _other_interests(load, random, count)
        for host in hosts:
            flows.want(host, load.wanted_at(host))
        changed.update(range(len(flows.brokers)))
    if churn in ("nodes", "both"):
        for broker in random.sample(range(len(flows.brokers)), count):
            for rewiring in leave_and_join(flows, broker, terms, random):
                changed.update(rewiring)
    return load, changed


def leave_and_join(
    flows: Flows, broker: int, terms: ChurnTerms, random: Random
) -> list[tuple[int, int, int]]:
    """One of the brokers goes and comes back. What it took are rewirings, so that most sides stay.

    First its neighbours move to its heir; then, a leaf, it moves on along the way to its host.
    """
    near = sorted(flows.near[broker])
    heir = heir_of({other: len(flows.near[other]) for other in near}, terms.degree_max)
    done = [(broker, other, heir) for other in near if other != heir]
    for rewiring in done:
        flows.rewire(*rewiring)
    degrees = {other: len(some) for other, some in enumerate(flows.near) if other != broker}
    degrees[heir] -= 1  # which it is about to lose
    host = random.choice([other for other, some in degrees.items() if some < terms.degree_max])
    if terms.join == "referred":
        beside = sorted({host, *flows.near[host]} - {broker})
        host = referred({other: degrees[other] for other in beside}, terms.degree_max)
    for middle, anchor in pairwise(flows.way(heir, host)):
        done.append((middle, broker, anchor))
        flows.rewire(*done[-1])
    return done


def _other_interests(load: Load, random: Random, count: int) -> tuple[Load, list[int]]:
    asked = list(load.asked)
    hosts = [broker for broker, some in enumerate(asked) if some]
    draws = np.random.Generator(np.random.PCG64(random.getrandbits(64)))
    others = random.sample(hosts, min(count, len(hosts)))
    for host in others:
        columns = zipf(draws, len(asked[host]), TOPICS, FILTER_SIZES[load.matching])
        asked[host] = tuple(map(tuple, np.stack(columns, 1).tolist()))
    return load._replace(asked=tuple(asked)), others
