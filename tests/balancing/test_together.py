"""Balancing and GRAPE act together: one of them at a time moves a client, and neither undoes the other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from roost.balancing import Balancing, Status
from roost.broker.arbiter import Proposal
from roost.relocation import Goal, Grape, GrapeConfig, Terms
from roost.simulation.workload_file import parse_workload
from tests.balancing.clusters import (
    HURRIED,
    SPEEDS,
    SUBSCRIBERS,
    SYMBOLS,
    Clusters,
    cluster,
    judged,
)
from tests.balancing.test_local import is_balanced

REST_S = 3.0
GRAPE = GrapeConfig(
    goal=Goal("load", 100.0),
    session=20,
    subscribers=True,
    group_period_s=4.0,
    terms=Terms(rest_s=0.0, margin=0.0, share_min=0.0),
)


@pytest.fixture(scope="module")
def both() -> Clusters:
    workload = parse_workload("\n".join(cluster()), "workload", None)
    settings = replace(workload.settings, load_period_s=1.0, rest_s=REST_S)
    world = Clusters(
        settings, workload.statements, modules=lambda _: (Balancing(HURRIED), Grape(GRAPE))
    )
    world.watch()
    world.run(120)
    return world


def test_load_is_balanced_as_by_balancing_alone(both: Clusters) -> None:
    assert is_balanced(both)
    assert both.placed()["B0"] == len(SYMBOLS)
    assert sum(both.placed()[name] for name in SPEEDS) == SUBSCRIBERS


def test_what_would_be_sent_back_at_once_is_refused_and_recorded(both: Clusters) -> None:
    """The best place for subscribers is next to their publishers: at the cluster-head, which serves none."""
    refused = [noted.decision for noted in both.of_kind("refused")]
    assert any(
        decision.module == "grape" and decision.evidence["by"] == "balancing"
        for decision in refused
    )
    assert all(decision.evidence["why"] for decision in refused)


def test_nobody_is_moved_within_its_rest(both: Clusters) -> None:
    moved: dict[str, float] = {}
    for noted in both.of_kind("carried out"):
        client = noted.decision.subject
        took_s = noted.decision.evidence["took_s"]
        began = noted.at - took_s
        assert began - moved.get(client, -REST_S) >= REST_S - 1e-6, client
        moved[client] = noted.at


def test_nothing_is_lost_doubled_or_reordered() -> None:
    workload = parse_workload("\n".join(cluster()), "workload", None)
    settings = replace(workload.settings, load_period_s=1.0)
    world = Clusters(
        settings, workload.statements, modules=lambda _: (Balancing(HURRIED), Grape(GRAPE))
    )
    world.watch()
    world.run(50)
    checks = judged(world)
    assert checks.clean, checks.violations


def test_objections() -> None:
    world = Clusters.of(cluster())
    world.run(30)
    edge, head = world.module("B1"), world.module("B0")
    subscriber = next(name for name, c in world.clients.items() if c.broker == "B1")

    def move(client: str, to: str) -> Proposal:
        return Proposal("grape", "relocation", "move", (client,), to)

    assert "is a cluster-head" in edge.objection_to(move(subscriber, "B0"), 30.0)
    assert edge.objection_to(move(subscriber, "B2"), 30.0) == ""
    assert "is an edge-broker" in head.objection_to(move("PAAA", "B1"), 30.0)

    def rewire(link: str, to: str) -> Proposal:
        return Proposal("overlay", "rewiring", "rewire", (link,), to)

    # Of B0, with its edge-brokers B1, B2 and B3, whose links are theirs by their role.
    assert head.objection_to(rewire("B0 - B1", "B9"), 30.0) == (
        "B1 is an edge-broker, and has one link"
    )
    assert head.objection_to(rewire("B0 - B9", "B2"), 30.0) == (
        "B2 is an edge-broker, and has one link"
    )
    assert head.objection_to(rewire("B0 - B8", "B9"), 30.0) == ""
    pie = replace(world.edge("B1").table._latest["B2"][0], status=Status.NOT_AVAILABLE)
    world.edge("B1").table.heard(pie, 30.0)
    assert edge.objection_to(move(subscriber, "B2"), 30.0) == "B2 is overloaded"
