"""What plans propose: what the optimisers want, what is chosen among it, and the limits of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.cli.plan import rules_of
from roost.overlay.topologies import random_tree
from roost.pipeline.plans.applying import after
from roost.pipeline.plans.effect import Weights
from roost.pipeline.plans.model import Model, model_of
from roost.pipeline.plans.placement import placement_of
from roost.pipeline.plans.plan import Limits, Plan
from roost.pipeline.plans.planning import plan_of
from roost.pipeline.plans.proposing import OPTIMISERS, Rules, publishers
from roost.pipeline.plans.recorded import Recorded
from roost.relocation.brute_force import publisher_everywhere
from tests.pipeline.plans.small import BUSY, SECONDS, chain, recorded

LOAD = Weights()
NO_LIMITS = Limits(degree_max=16)


def planned(
    run: Recorded,
    weights: Weights = LOAD,
    limits: Limits = NO_LIMITS,
    optimisers: Sequence[str] = OPTIMISERS,
) -> Plan:
    return plan_of(run, weights, rules_of(weights, limits), limits, optimisers)


def far_apart() -> Recorded:
    """A publisher at one end of a chain, whose subscribers are at the other."""
    return recorded(
        chain(5),
        {"P": "B0", "S1": "B4", "S2": "B4", "S3": "B3"},
        {"P": [(1_000, ("S1", "S2", "S3"))]},
    )


def test_a_publisher_goes_to_its_audience() -> None:
    plan = planned(far_apart(), optimisers=["publishers"])
    assert [step.text for step in plan.steps] == ["P moves from B0 to B4"]
    assert plan.before.load_per_s == pytest.approx(4 * 1_000 / SECONDS)
    assert plan.after.load_per_s == pytest.approx(1 * 1_000 / SECONDS)
    (decision,) = plan.decisions
    assert decision.by == "publishers"
    assert "saves" in decision.why
    assert {c["broker"] for c in decision.evidence["others"]} == {"B0", "B1", "B2", "B3", "B4"}


def test_together_is_no_worse_than_any_alone() -> None:
    plan = planned(far_apart())
    costs = {one.who: one.cost for one in plan.alone}
    assert set(costs) == {*OPTIMISERS, "together"}
    assert plan.cost == pytest.approx(min(costs.values()))


def test_a_publisher_and_its_subscriber_do_not_go_past_each_other() -> None:
    run = recorded(chain(4), {"P": "B0", "S": "B3"}, {"P": [(1_000, ("S",))]})
    plan = planned(run, optimisers=["publishers", "subscribers"])
    assert len(plan.steps) == 1
    assert plan.after.load_per_s == 0.0
    (conflict,) = plan.conflicts
    (other,) = conflict.others
    assert {conflict.by, other.by} == {"publishers", "subscribers"}
    assert "one moves P, and the other some of those who hear it" in other.why


def test_links_move_to_the_traffic() -> None:
    """B0 has in the middle what B2 publishes for B3, both leaves of a star."""
    star = [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]
    run = recorded(star, {"P": "B2", "S": "B3"}, {"P": [(1_000, ("S",))]})
    plan = planned(run, optimisers=["links"])
    assert {step.kind for step in plan.steps} == {"rewire"}
    assert plan.after.load_per_s == pytest.approx(plan.before.load_per_s / 2)
    assert ("B2", "B3") in after(plan.placement, plan.steps).links


# --- limits ---------------------------------------------------------------------------------------------


def test_nothing_moves_to_an_excluded_broker_and_its_links_stay() -> None:
    plan = planned(far_apart(), limits=replace(NO_LIMITS, excluded=("B3", "B4")))
    assert not {step.target for step in plan.steps} & {"B3", "B4"}
    for step in plan.steps:
        assert not {step.middle, step.mover, step.anchor} & {"B3", "B4"}
    told = planned(
        far_apart(), limits=replace(NO_LIMITS, excluded=("B3",)), optimisers=["publishers"]
    )
    reasons = {c["outcome"] for c in told.decisions[0].evidence["others"] if c["broker"] == "B3"}
    assert reasons == {"the operator has excluded it"}


def test_a_pinned_link_stays() -> None:
    star = [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]
    run = recorded(star, {"P": "B2", "S": "B3"}, {"P": [(1_000, ("S",))]})
    pinned = (("B0", "B2"), ("B0", "B3"))
    plan = planned(run, limits=replace(NO_LIMITS, pinned=pinned), optimisers=["links"])
    assert set(pinned) <= set(after(plan.placement, plan.steps).links)


def test_a_client_that_is_kept_stays() -> None:
    plan = planned(far_apart(), limits=replace(NO_LIMITS, kept=("P", "S1")))
    assert not {step.client for step in plan.steps} & {"P", "S1"}


@pytest.mark.parametrize("moves", [0, 1, 2, 3])
def test_there_are_no_more_moves_than_that(moves: int) -> None:
    run = recorded(
        chain(6),
        {"P1": "B0", "P2": "B5", "S1": "B5", "S2": "B0", "S3": "B2"},
        {"P1": [(900, ("S1",)), (50, ("S1", "S3"))], "P2": [(800, ("S2", "S3"))]},
    )
    plan = planned(run, limits=replace(NO_LIMITS, moves=moves))
    assert len(plan.steps) <= moves
    assert plan.cost <= 1.0
    if moves == 0:
        assert any("takes 1 moves more, and 0 are left" in wish.why for wish in plan.refused)


def test_who_moves_twice_goes_straight_to_where_it_ends() -> None:
    plan = planned(far_apart())
    clients = [step.client for step in plan.steps if step.client]
    assert len(clients) == len(set(clients))
    for step in plan.steps:
        if step.client:
            assert step.source == far_apart().placement.clients[step.client]


# --- load -----------------------------------------------------------------------------------------------


def overloaded() -> Recorded:
    """All subscribers at a broker that can't keep up, beside one that has nothing to do (001 section 5.2)."""
    names = [f"S{n}" for n in range(20)]
    hot = replace(
        BUSY,
        matching_s=0.1,
        waiting_s=1.0,
        input_utilisation=0.99,
        output_utilisation=0.5,
        input_rate=9.9,
        output_rate=30.0,
        sending_s=0.01,
        subscriptions=20,
    )
    calm = replace(BUSY, input_utilisation=0.01, output_utilisation=0.01, subscriptions=1)
    return recorded(
        [("B0", "B1"), ("B0", "B2")],
        {"P": "B0", **dict.fromkeys(names, "B1")},
        {"P": [(99, (name,)) for name in names[:10]]},
        {"B0": calm, "B1": hot, "B2": calm},
        matching_grows=True,
    )


def test_load_is_taken_off_a_broker_that_has_too_much() -> None:
    weights = Weights(0.0, 0.0, 1.0)
    plan = planned(overloaded(), weights, optimisers=["load"])
    assert plan.steps
    assert {step.source for step in plan.steps} == {"B1"}
    assert plan.after.busiest < plan.before.busiest
    assert plan.before.busiest_broker == "B1"


# --- the model ------------------------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> Recorded:
    count = draw(st.integers(2, 7))
    tree = random_tree(count, draw(st.integers(0, 99)))
    brokers = list(tree.brokers)
    subscribers = [f"S{n}" for n in range(draw(st.integers(1, 6)))]
    places = {name: draw(st.sampled_from(brokers)) for name in ("P1", "P2", *subscribers)}
    kinds = st.lists(
        st.tuples(
            st.integers(1, 50),
            st.lists(st.sampled_from(subscribers), unique=True).map(lambda x: tuple(sorted(x))),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda kind: kind[1],
    )
    traffic = {name: draw(kinds) for name in ("P1", "P2")}
    run = recorded([(link.a, link.b) for link in tree.links], places, traffic)
    return replace(run, placement=placement_of(brokers, run.placement.links, places))


@given(runs())
def test_the_model_counts_what_is_sent(run: Recorded) -> None:
    """Against each publication sent over the tree, and against the flows of the tree."""
    model = model_of(run)
    answers = model.answers()
    total = 0
    for publisher in run.publishers:
        rows = {
            broker: [
                model.audience(kind.clients).get(broker, 0)
                for kind in publisher.kinds
                for _ in range(kind.times)
            ]
            for broker in run.placement.brokers
        }
        origin = model.origin(publisher)
        assert origin is not None
        outcome = publisher_everywhere(answers, rows)[origin]
        delivered = sum(kind.times for kind in publisher.kinds if kind.clients)
        total += outcome.messages - delivered  # the first broker gets it from its client
    assert model.rates.messages * run.seconds == pytest.approx(total)
    assert model.flows().traffic() == pytest.approx(total)


@given(runs())
def test_what_a_publisher_promises_is_what_the_model_finds(run: Recorded) -> None:
    model = model_of(run)
    for proposal in publishers(model, Rules()):
        moved = {**run.placement.clients, **dict.fromkeys(proposal.clients, proposal.target)}
        there = placement_of(run.placement.brokers, run.placement.links, moved)
        then = Model(run, there, model.scale, model.then)
        saved = model.rates.messages - then.rates.messages
        assert proposal.saves_per_s == pytest.approx(saved, abs=1e-6)


@given(runs(), st.sampled_from([Weights(), Weights(0.5, 0.5, 0.0), Weights(0.0, 1.0, 0.0)]))
def test_every_decision_lowers_what_was_asked_for(run: Recorded, weights: Weights) -> None:
    plan = planned(run, weights)
    costs = [1.0, *(weights.cost(each.after, plan.before) for each in plan.decisions)]
    assert all(b < a for a, b in pairwise(costs))
    assert plan.cost == pytest.approx(costs[-1])
    # The steps lead to the placement that was predicted.
    start = run.placement
    end = after(start, plan.steps)
    model = model_of(run)
    assert Model(run, end, model.scale, model.then).effect().load_per_s == pytest.approx(
        plan.after.load_per_s
    )
