"""Training and reconfiguration of all brokers (002 sections 4.1 and 6.1)."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.overlay.rewiring.demand import Demand
from roost.overlay.rewiring.flows import Flows, flows_of
from roost.overlay.rewiring.limits import Limits, edge_brokers, pair, pairs
from roost.overlay.rewiring.rounds import OcbrRule, Organisation, PaperRule, RoostRule
from roost.overlay.topologies import Topology, chain, check_tree, peer_clusters, random_tree

BROKERS, TOPICS = 40, 6


def demand(seed: int, brokers: int = BROKERS) -> Demand:
    draws = np.random.Generator(np.random.PCG64(seed))
    names = tuple(f"B{i}" for i in range(brokers))
    published = draws.integers(0, 20, (brokers, TOPICS)) * (draws.random((brokers, 1)) < 0.4)
    wanted = draws.random((brokers, TOPICS)) < 0.3
    return Demand(names, published.astype(float), wanted.astype(float))


def organised(
    seed: int,
    rule: Any,
    topology: Topology | None = None,
    limits: Limits | None = None,
    **more: Any,
) -> Organisation:
    flows = flows_of(topology or random_tree(BROKERS, seed), demand(seed))
    return Organisation(flows, rule, Random(seed), limits, **more)


def rules() -> list[Any]:
    return [
        PaperRule(),
        PaperRule(-10),
        OcbrRule(gated=False),
        OcbrRule(gated=True),
        RoostRule(),
        RoostRule(degree_max=8),
        RoostRule(price=5.0),
    ]


@given(st.integers(0, 1_000))
@settings(max_examples=10)
def test_with_three_brokers_locked_the_utilities_of_a_round_add_up(seed: int) -> None:
    """Section 4.1: the sum of U(R) over a round is the drop in traffic, in every round."""
    for rule in (PaperRule(), PaperRule(-10), RoostRule()):
        organisation = organised(seed, rule)
        for _ in range(6):
            before = organisation.flows.traffic()
            done = organisation.round()
            assert sum(each.utility for each in done) == before - organisation.flows.traffic()
            brokers = [broker for each in done for broker in each[:3]]
            assert len(brokers) == len(set(brokers))


@pytest.mark.parametrize("rule", rules())
def test_a_tree_stays_a_tree(rule: Any) -> None:
    organisation = organised(3, rule)
    for _ in range(10):
        organisation.round()
        check_tree(organisation.flows.topology())


def test_the_same_seed_gives_the_same_rounds() -> None:
    one, other = (organised(5, PaperRule(-10)) for _ in range(2))
    assert [one.round() for _ in range(8)] == [other.round() for _ in range(8)]


def test_what_is_kept_of_a_broker_is_what_it_would_be_anew() -> None:
    """Only the three brokers of a rewiring count anew; all others have the same values as before."""
    kept, anew = (organised(7, RoostRule(degree_max=9), limits=Limits(degree_max=9)) for _ in "12")
    for _ in range(15):
        anew.changed(range(BROKERS))
        assert kept.round() == anew.round()


def until_rest(organisation: Organisation, rounds: int = 400) -> int:
    for number in range(rounds):
        if not organisation.round():
            return number
    raise AssertionError("it never rests")


def test_by_topic_the_paper_stops_where_nothing_is_saved_any_more() -> None:
    organisation = organised(1, PaperRule())
    until_rest(organisation)
    flows = organisation.flows
    for broker in range(BROKERS):
        assert (PaperRule().measure(flows.sides(broker)).values <= 0).all()


def test_roosts_own_goes_on_where_the_paper_is_stuck() -> None:
    found = {}
    for name, rule in (("paper", PaperRule()), ("roost", RoostRule())):
        totals = []
        for seed in range(8):
            organisation = organised(seed, rule if name == "paper" else RoostRule())
            until_rest(organisation)
            totals.append(organisation.flows.traffic() / organisation.flows.demand.bound)
        found[name] = np.mean(totals)
    assert found["roost"] < found["paper"]


def test_who_waits_if_its_best_pair_is_locked_does_less_in_a_round() -> None:
    """Open in section 4.1: take the next best, or nothing."""
    done = {
        if_locked: sum(
            len(organised(s, PaperRule(), if_locked=if_locked).round()) for s in range(9)
        )
        for if_locked in ("next", "wait")
    }
    assert done["wait"] < done["next"]


# --- limits -------------------------------------------------------------------------------------------


@given(st.integers(0, 1_000), st.integers(3, 12))
@settings(max_examples=10)
def test_nobody_gets_more_neighbours_than_it_may(seed: int, limit: int) -> None:
    rule = RoostRule(degree_max=limit)
    organisation = organised(seed, rule, chain(BROKERS), Limits(degree_max=limit))
    for _ in range(60):
        organisation.round()
        assert max(organisation.flows.degrees()) <= limit


def test_pinned_links_stay_and_forbidden_pairs_are_not_linked() -> None:
    topology = random_tree(BROKERS, 4)
    pinned = pairs((link.a, link.b) for link in topology.links[::3])
    unlimited = organised(4, RoostRule(), topology)
    until_rest(unlimited)
    wished = links(unlimited.flows) - pairs((link.a, link.b) for link in topology.links)
    limits = Limits(pinned=pinned, forbidden=frozenset(sorted(wished)[::2]))
    organisation = organised(4, RoostRule(), topology, limits)
    until_rest(organisation)
    found = links(organisation.flows)
    assert pinned <= found
    assert not limits.forbidden & found
    assert found != pairs((link.a, link.b) for link in topology.links)


def test_edge_brokers_stay_where_they_are() -> None:
    topology = peer_clusters(10, 3)
    limits = Limits(edges=edge_brokers(topology))
    organisation = organised(2, RoostRule(), topology, limits)
    before = links(organisation.flows)
    until_rest(organisation)
    kept = {p for p in before if set(p) & limits.edges}
    assert kept <= links(organisation.flows)
    assert len(kept) == 30
    assert links(organisation.flows) != before


def links(flows: Flows) -> frozenset[tuple[str, str]]:
    return frozenset(pair(flows.brokers[a], flows.brokers[b]) for a, b in flows.links())


def test_a_price_is_not_paid_for_little() -> None:
    cheap, dear = organised(8, RoostRule()), organised(8, RoostRule(price=60.0))
    done = [[each for _ in range(100) for each in o.round()] for o in (cheap, dear)]
    assert 0 < len(done[1]) < len(done[0])
