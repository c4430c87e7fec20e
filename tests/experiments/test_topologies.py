"""The experiments of 003: what brokers of each topology do, counted, and what is said of it (section V)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from roost.errors import UserError
from roost.experiments import find_experiment
from roost.experiments.frame import Results
from roost.experiments.report import Report
from roost.experiments.running import grid_cells
from roost.experiments.topologies import load
from roost.experiments.topologies.cell import measured, read
from roost.experiments.topologies.costs import MEASURED, STEPS, Steps
from roost.experiments.topologies.graphs import growth, nearest_spread, spread_giving
from roost.experiments.topologies.load import MACHINES, Spread
from roost.experiments.topologies.shapes import SHAPES, shape_of
from roost.language import Event, parse_subscription
from roost.pipeline.sweeps.folder import Result
from roost.pipeline.workload.blocks import Block
from roost.pipeline.workload.topics import TopicSubscriptions
from tests.experiments.kit import result

EACH = 6
SENT = MACHINES * EACH  # by the machines of a broker


# --- shapes and loads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("brokers", [1, 2, 3, 4, 5])
def test_tree_and_cluster_have_the_same_links(brokers: int) -> None:
    tree, cluster = shape_of("tree", brokers), shape_of("cluster", brokers)
    assert tree[:3] == cluster[:3]
    assert (tree.routing, cluster.routing) == ("flooding", "cluster")
    assert len(tree.links) == brokers - 1


def test_a_ladder_has_a_level_more_for_each_broker_until_there_are_four() -> None:
    three = shape_of("ladder", 3)
    assert [(link.a, link.b) for link in three.links] == [("B0", "B1"), ("B1", "B2")]
    five = shape_of("ladder", 5)
    assert [(link.a, link.b) for link in five.links] == [("B0", "B1"), ("B1", "B2"), ("B2", "B3")]
    assert [(link.a, link.b) for link in five.peers] == [("B0", "B4")]


def test_a_topology_that_there_is_not() -> None:
    with pytest.raises(UserError, match="'ring'; expected tree, cluster, ladder"):
        shape_of("ring", 3)
    with pytest.raises(UserError, match="topology"):
        read({"topology": "ring"})


@pytest.mark.parametrize("shared", [0.0, 0.1, 1.0])
def test_a_topic_is_wanted_everywhere_or_where_it_is_published(shared: float) -> None:
    spread = Spread(3, 40, shared)
    wanted = [parse_subscription(spread.filter_at(broker)) for broker in range(3)]
    hosts = Counter(
        tuple(b for b in range(3) if wanted[b].matches(Event({"topic": said.topic})))
        for said in load.publications(1, spread, 100)
    )
    everywhere = hosts.pop((0, 1, 2), 0)
    assert everywhere / (3 * MACHINES * 100) == pytest.approx(shared, abs=0.03)
    assert set(hosts) <= {(0,), (1,), (2,)}
    for said in load.publications(1, spread, 5):
        assert wanted[said.broker].matches(Event({"topic": said.topic}))


def test_subscriptions_are_those_of_the_tables() -> None:
    asked = list(load.subscriptions(3, 2, 4, 50))
    table = TopicSubscriptions(2 * MACHINES, 50)(Block(3, 0))
    assert len(asked) == 2 * MACHINES * 4
    for name, values in (
        ("filter", [a.filter for a in asked]),
        ("subscriber", [f"S{a.machine + 1}" for a in asked]),
        ("broker", [f"B{a.broker}" for a in asked]),
    ):
        assert table[name].tolist()[: len(asked)] == values


# --- what brokers do ------------------------------------------------------------------------------------


def steps(row: Mapping[str, Any], broker: str) -> Steps:
    return Steps(**{name: row[f"{name}_{broker}"] for name in STEPS})


def test_in_a_tree_publications_go_where_they_are_wanted() -> None:
    """IV.B: at a share of 0 nowhere else, at 1 everywhere; and each is delivered to all who want it."""
    alone = measured(1, topology="tree", brokers=3, shared=0.0, each=EACH)
    for broker in ("B0", "B1", "B2"):
        assert steps(alone, broker) == Steps(from_clients=SENT, delivered=SENT * MACHINES)
    every = measured(1, topology="tree", brokers=3, shared=1.0, each=EACH)
    assert steps(every, "B1") == Steps(
        from_clients=SENT, from_brokers=2 * SENT, forwarded=SENT, delivered=3 * SENT * MACHINES
    )
    assert (
        steps(every, "B0").forwarded == 2 * SENT + 2 * SENT
    )  # its own, and from each to the other
    for row in (alone, every):
        assert row["violations"] == 0


@pytest.mark.parametrize("topology", ["cluster", "ladder"])
def test_in_a_cluster_publications_go_up_regardless(topology: str) -> None:
    """IV.A: nobody else wants them, and the top has them all."""
    row = measured(1, topology=topology, brokers=3, shared=0.0, each=EACH)  # type: ignore[arg-type]
    assert steps(row, "B0") == Steps(
        from_clients=SENT, from_brokers=2 * SENT, delivered=SENT * MACHINES
    )
    below = steps(row, "B2")
    assert (below.from_brokers, below.forwarded) == (0, SENT)


def test_a_subscription_to_the_same_topic_goes_nowhere_and_in_a_cluster_never_down() -> None:
    """One topic: the first at each broker that has no covering one goes on, and all others stop there."""
    tree = measured(
        1, what="subscriptions", topology="tree", brokers=3, topics=1, each=EACH, shared=0.0
    )
    cluster = measured(
        1, what="subscriptions", topology="cluster", brokers=3, topics=1, each=EACH, shared=0.0
    )
    for row in (tree, cluster):
        assert all(steps(row, b).subscriptions == SENT for b in ("B0", "B1", "B2"))
        assert row["violations"] == 0
        assert row["answered"] == 3 * SENT
    assert [steps(cluster, b).compared for b in ("B0", "B1", "B2")] == [0, SENT, SENT]
    # In the middle of the tree each is compared twice, and each of two that come with the other side.
    assert [steps(tree, b).compared for b in ("B0", "B1", "B2")] == [2 * SENT + 2, SENT, SENT]
    assert [steps(cluster, b).broker_subscriptions for b in ("B0", "B1", "B2")] == [2, 0, 0]
    assert [steps(tree, b).broker_subscriptions for b in ("B0", "B1", "B2")] == [2, 1, 1]


def test_throughput_is_that_of_the_busiest_or_of_each() -> None:
    """From the steps and what they cost, by hand."""
    row = measured(1, topology="cluster", brokers=2, shared=0.0, each=EACH)
    top_s = SENT * (MEASURED.from_clients + MEASURED.from_brokers + MACHINES * MEASURED.delivered)
    below_s = SENT * (MEASURED.from_clients + MEASURED.forwarded + MACHINES * MEASURED.delivered)
    assert row["bears_per_s"] == pytest.approx(2 * SENT / (top_s * 1e-6))
    assert row["per_processor_s"] == pytest.approx(2 * SENT / ((top_s + below_s) * 1e-6))
    row = measured(1, what="subscriptions", topology="cluster", brokers=2, topics=1, each=EACH)
    own_s = SENT * MEASURED.subscriptions
    top_s = own_s + MEASURED.broker_subscriptions
    below_s = (
        own_s + SENT * MEASURED.compared
    )  # with what the top was told, which itself tells nobody
    assert row["bears_per_s"] == pytest.approx(SENT / (below_s * 1e-6) + SENT / (top_s * 1e-6))


def test_an_answer_waits_for_the_store_and_not_for_routing() -> None:
    """V.C: 5 ms of the store and the broker's own time, however far the subscription goes."""
    rows = [
        measured(1, what="subscriptions", topology="tree", brokers=n, topics=500, each=EACH)
        for n in (1, 3)
    ]
    assert rows[0]["answer_ms"] == pytest.approx(5.0, abs=0.5)
    assert rows[1]["answer_ms"] == pytest.approx(float(rows[0]["answer_ms"] or 0), rel=0.05)
    # A hop is a link, a commit, and the time of the next broker.
    assert float(rows[1]["effect_ms"] or 0) > float(rows[0]["effect_ms"] or 0) + 5.0


# --- what is said of it ---------------------------------------------------------------------------------

TOPOLOGIES = find_experiment("topologies")
Made = Callable[[Mapping[str, Any]], Mapping[str, float]]


def made_up(make: Made) -> list[Result]:
    """A result for each cell of the small scale."""
    cells = grid_cells(TOPOLOGIES, TOPOLOGIES.scales["small"], [1], {})
    return [result(cell.parameters, 1, **make(cell.parameters)) for cell in cells]


def as_in_the_paper(cell: Mapping[str, Any]) -> dict[str, float]:
    """Curves of the shapes that 003 describes."""
    n, topology = int(cell["brokers"]), str(cell["topology"])
    below = {"tree": 1.0, "cluster": 0.97, "ladder": 0.95}[topology] if n > 1 else 1.0
    if cell["what"] == "publications":
        return {
            "bears_per_s": 1e4 * n / (1 + 1.5 * float(cell["shared"]) * (n - 1)) * below,
            "delivered_ms": n * below,
        }
    return {
        "bears_per_s": 1e4 * n**0.8 / below,
        "answer_ms": 5.0,
        "effect_ms": n * {"tree": 1.0, "cluster": 0.9, "ladder": 1.2}[topology],
    }


def test_curves_as_in_the_paper_hold() -> None:
    report = Report(TOPOLOGIES, TOPOLOGIES.scales["small"], [1], made_up(as_in_the_paper))
    assert [claim.what for claim in report.claims if not claim.holds] == []
    assert report.holds
    assert {claim.id for claim in report.claims} == {f"003 graph {n}" for n in range(1, 6)}
    found = Results(made_up(as_in_the_paper))
    assert nearest_spread(found) == 0.02
    assert 0.0 < spread_giving(found, "tree", 70.0) < 0.05
    assert "75 %" in report.findings[0]


@pytest.mark.parametrize(
    ("wrong", "claims"),
    [
        ({"what": "publications", "figure": "bears_per_s", "by": lambda n: 1 / n}, "publications"),
        ({"what": "subscriptions", "figure": "bears_per_s", "by": lambda n: n**-0.8}, "subscr"),
        ({"what": "subscriptions", "figure": "answer_ms", "by": lambda n: n}, "an answer"),
    ],
)
def test_curves_that_are_otherwise_do_not_hold(wrong: Mapping[str, Any], claims: str) -> None:
    """Nothing grows, or an answer takes longer with each broker."""

    def spoilt(cell: Mapping[str, Any]) -> dict[str, float]:
        figures = as_in_the_paper(cell)
        if cell["what"] == wrong["what"]:
            figures[wrong["figure"]] *= wrong["by"](int(cell["brokers"]))
        return figures

    report = Report(TOPOLOGIES, TOPOLOGIES.scales["small"], [1], made_up(spoilt))
    failed = [claim.what for claim in report.claims if not claim.holds]
    assert failed
    assert all(what.startswith(claims) for what in failed)


def test_a_cluster_above_a_tree_is_said() -> None:
    def swapped(cell: Mapping[str, Any]) -> dict[str, float]:
        names: dict[str, str] = dict(zip(SHAPES, ("ladder", "cluster", "tree"), strict=True))
        return as_in_the_paper({**cell, "topology": names[str(cell["topology"])]})

    report = Report(TOPOLOGIES, TOPOLOGIES.scales["small"], [1], made_up(swapped))
    failed = {claim.id for claim in report.claims if not claim.holds}
    assert failed >= {"003 graph 1", "003 graph 2", "003 graph 4", "003 graph 5"}


def test_cells_that_failed_are_no_verdict() -> None:
    report = Report(TOPOLOGIES, TOPOLOGIES.scales["small"], [1], [])
    assert not any(claim.holds for claim in report.claims)
    assert all(claim.ours is None for claim in report.claims)


def test_growth_is_the_mean_of_what_each_broker_brings() -> None:
    assert growth({1: 100.0, 2: 190.0, 3: 285.0}, (1, 2, 3)) == pytest.approx(70.0)
