"""The experiments of 002, at a size of seconds (002 section 6)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import inf
from pathlib import Path
from random import Random

import numpy as np
import pytest

from roost.errors import UserError
from roost.experiments import find_experiment
from roost.experiments.frame import Results, Scale
from roost.experiments.overlay.cell import STEP, organises, read
from roost.experiments.overlay.churn import ChurnTerms, leave_and_join, perturbed
from roost.experiments.overlay.common import PRICE, curve, spread
from roost.experiments.overlay.film import films
from roost.experiments.overlay.optimum import all_parts, least_traffic, traffic_of_parts
from roost.experiments.overlay.organising import Terms, organised
from roost.experiments.overlay.workload import Load, load_of, tree_of
from roost.experiments.running import grid_cells, run_experiment
from roost.language import parse_subscription
from roost.overlay.rewiring.demand import Demand
from roost.overlay.rewiring.flows import Flows, flows_of
from roost.overlay.topologies import check_tree, random_tree
from roost.pipeline.workload.blocks import Block
from roost.pipeline.workload.topics import ZipfSubscriptions, some_brokers
from tests.experiments.kit import here, result

TINY = Scale("tiny", 1, {"brokers": 14}, "14 brokers")


def load(matching: str = "topic", seed: int = 1, brokers: int = 60) -> Load:
    return load_of(
        seed,
        matching=matching,  # type: ignore[arg-type]
        brokers=brokers,
        subscribers=1.0,
        publishers=0.2,
        publications=30,
    )


# --- the workload -------------------------------------------------------------------------------------


def test_the_demand_is_that_of_table_1() -> None:
    whole = load_of(
        1, matching="content", brokers=500, subscribers=1.0, publishers=0.2, publications=150
    )
    demand = whole.demand
    assert demand.messages == 100 * 150
    assert (demand.published.any(1)).sum() == 100
    assert {len(some) for some in whole.asked} == {3}
    assert all(len(set(topics)) == 3 for some in whole.asked for topics in some)
    assert whole.subscriptions is not None
    assert whole.subscriptions.shape[1] <= len(list(combinations(range(10), 3)))
    popular = demand.wanted.sum(0)
    assert popular[0] == max(popular)  # Zipf
    uniform = demand.published.sum(0)
    assert uniform.max() < 1.2 * uniform.min()


def test_the_demand_is_that_of_the_tables() -> None:
    """The draws are shared: a subscription of the table is one of the demand."""
    hosts = some_brokers(4, "overlay subscribers", 60, 0.5)
    make = ZipfSubscriptions(hosts, 3, 10, 3)
    columns = make(Block(4, 0))
    found = load_of(
        4, matching="content", brokers=60, subscribers=0.5, publishers=0.2, publications=9
    )
    texts = [parse_subscription(text.as_py()) for text in columns["filter"][:90]]
    asked = [topics for host in hosts for topics in found.asked[host]]
    wanted = [
        str(parse_subscription(f"topic in ({', '.join(repr(f'topic{t + 1}') for t in topics)})"))
        for topics in asked
    ]
    assert wanted == [str(subscription) for subscription in texts]


@pytest.mark.parametrize("join", ["drawn", "referred"])
@pytest.mark.parametrize("degree_max", [6, inf])
def test_who_leaves_joins_again_and_the_overlay_stays_a_tree(join: str, degree_max: float) -> None:
    terms = ChurnTerms("nodes", join=join, degree_max=degree_max)
    flows = flows_of(tree_of("scale-free", 60, 2), load().demand)
    for broker in range(60):
        expected = left_and_joined(list(flows.links()), broker, terms, Random(broker))
        leave_and_join(flows, broker, terms, Random(broker))
        assert sorted(flows.links()) == sorted((min(link), max(link)) for link in expected)
        assert len(flows.near[broker]) == 1


def left_and_joined(
    links: list[tuple[int, int]], broker: int, terms: ChurnTerms, random: Random
) -> list[tuple[int, int]]:
    """The obvious way: without its links, with those of its neighbours to the heir, and with a new one."""
    most = terms.degree_max
    near = sorted({end for link in links if broker in link for end in link} - {broker})
    without = [link for link in links if broker not in link]
    trees = {heir: [*without, *((heir, n) for n in near if n != heir)] for heir in near}
    # Of those that keep the limit the largest; else the smallest.
    degrees = {heir: Counter(end for link in trees[heir] for end in link)[heir] for heir in near}
    fit = {heir: degree for heir, degree in degrees.items() if degree <= most}
    found = max(fit or degrees, key=lambda n: (degrees[n] if fit else -degrees[n], -n))
    kept = trees[found]
    ends = Counter(end for link in kept for end in link)
    host = random.choice([other for other in sorted(ends) if ends[other] < most])
    if terms.join == "referred":
        beside = {host, *(end for link in kept if host in link for end in link)}
        host = max((o for o in beside if ends[o] < most), key=lambda o: (ends[o], -o))
    return [*kept, (host, broker)]


def test_churn_keeps_the_limit_that_there_is() -> None:
    flows = flows_of(tree_of("scale-free", 60, 2), load().demand)
    most = max(flows.degrees())
    terms = ChurnTerms("nodes", share=0.1, join="referred", degree_max=most)
    random = Random(3)
    for _ in range(50):
        perturbed(flows, load(), terms, random)
        assert max(flows.degrees()) <= most


@pytest.mark.parametrize("churn", ["nodes", "interests", "both"])
def test_who_has_not_changed_counts_as_before(churn: str) -> None:
    flows = flows_of(tree_of("scale-free", 60, 2), load().demand)
    before = flows_of(tree_of("scale-free", 60, 2), load().demand)
    other, changed = perturbed(flows, load(), ChurnTerms(churn, 0.05), Random(1))
    check_tree(flows.topology())
    assert (other.asked != load().asked) == (churn != "nodes")
    assert (before.topology() != flows.topology()) == (churn != "interests")
    anew = flows_of(flows.topology(), other.demand)
    assert anew.counters() == flows.counters()
    for broker in range(60):
        now, was, as_anew = (counted(each, broker) for each in (flows, before, anew))
        assert now == as_anew
        assert broker in changed or now == was
    assert (len(changed) < 60) == (churn == "nodes")


def counted(flows: Flows, broker: int) -> tuple[list[int], list[list[float]], list[list[float]]]:
    near, published, wanted = flows.sides(broker)
    return near, published.tolist(), wanted.tolist()


# --- runs ---------------------------------------------------------------------------------------------


def test_a_track_says_what_was_when() -> None:
    track = organised(tree_of("scale-free", 60, 1), load(), "paper", 1)
    assert track.rested
    assert track.end.traffic == track.flows.traffic() >= track.end.bound
    assert track.at_round(0).rewirings == 0
    assert track.at_round(10_000) == track.end
    assert track.at_rewirings(1).rewirings >= 1
    traffic = [state.traffic for state in track.states]
    assert traffic == sorted(traffic, reverse=True)


def test_with_churn_it_goes_on() -> None:
    track = organised(tree_of("spiral", 60, 1), load(), "roost", 1, rounds=30, churn="both")
    assert len(track.states) == 31
    assert track.end.traffic / track.end.bound < track.states[0].traffic / track.states[0].bound


def test_variants_that_there_are_not() -> None:
    with pytest.raises(UserError, match="expected paper, ocbr, gated, roost"):
        organised(tree_of("spiral", 5, 1), load(brokers=5), "best", 1)
    with pytest.raises(UserError, match="variant='best' will not do"):
        read({"variant": "best"})
    with pytest.raises(UserError, match="unknown parameter 'colour'"):
        read({"colour": "red"})


def test_a_cell_has_the_figures_of_its_graphs() -> None:
    row = organises(1, variant="ocbr", brokers=60, publications=20, rounds=25)
    assert row["traffic_after_0"] == row["traffic_start"]
    assert f"traffic_after_{STEP}" in row
    assert 0 < float(str(row["paper_traffic_at_equal"])) < 1
    assert row == organises(1, variant="ocbr", brokers=60, publications=20, rounds=25)


def test_roosts_own_beats_the_paper_and_keeps_to_its_limit() -> None:
    start = tree_of("scale-free", 60, 1)
    paper, roost = (
        organised(start, load(), variant, 1, Terms(degree_max=25)) for variant in ("paper", "roost")
    )
    assert roost.end.traffic < paper.end.traffic
    assert roost.end.degree <= 25


# --- all trees ----------------------------------------------------------------------------------------


def test_all_trees_of_five_brokers() -> None:
    """125 of them, each once; the traffic by parts is that of the flows."""
    parts = all_parts(5)
    assert parts.shape == (125, 4)
    whole = 31
    assert len({frozenset(min(p, whole - p) for p in tree) for tree in parts.tolist()}) == 125
    draws = np.random.Generator(np.random.PCG64(3))
    names = tuple(f"B{i}" for i in range(5))
    published = draws.integers(0, 9, (5, 3)).astype(float)
    demand = Demand(names, published, (draws.random((5, 3)) < 0.4).astype(float))
    found = {flows_of(random_tree(5, seed), demand).traffic() for seed in range(600)}
    assert min(found) == least_traffic(demand)
    assert found <= set(traffic_of_parts(demand)[parts].sum(1).tolist())


# --- the experiments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["overlay-reference", "overlay-variations"])
def test_the_grids_have_all_cells(name: str) -> None:
    experiment = find_experiment(name)
    small, paper = (
        grid_cells(experiment, experiment.scales[scale], range(2), {})
        for scale in ("small", "paper")
    )
    assert len(small) == len(paper) > 50
    assert {cell.seed for cell in small} == {0, 1}


def test_an_experiment_from_its_cells_to_its_page(tmp_path: Path) -> None:
    """A few brokers, one seed: every claim has a figure."""
    experiment = find_experiment("overlay-variations")
    report = run_experiment(experiment, TINY, [0], tmp_path, here)
    assert not report.failed
    assert all(claim.ours is not None for claim in report.claims)
    assert all(line.points for chart in report.charts for line in chart.series)
    assert "nan" not in " ".join(report.findings)
    assert "Di Nitto et al., fig 7" in (tmp_path / "index.html").read_text("utf-8")


def test_claims_follow_from_figures() -> None:
    """Planted figures: what is worse than 002 says does not hold."""
    experiment = find_experiment("overlay-reference")
    usual = {"matching": "topic", "start": "scale-free", "variant": "ocbr"}
    figures = {
        "paper_traffic_at_stop": 0.9,
        "paper_rewirings_at_stop": 0.6,
        "paper_traffic_at_equal": 0.9,
    }
    claims = experiment.claims(Results([result(usual, 1, **figures)]))
    held = {claim.what: claim.holds for claim in claims if "002" in claim.what}
    assert held["traffic of 002 by OCBR's when 002 stops, scale-free"]
    assert not held["rewirings of 002 by OCBR's when 002 stops, scale-free"]
    assert not held["traffic of 002 by OCBR's when 002 stops, spiral"]  # no figure
    assert PRICE == pytest.approx(20)


def test_lines_go_as_far_as_all_runs() -> None:
    results = Results(
        [
            result({}, 1, traffic_after_0=10, traffic_after_50=6),
            result({}, 2, traffic_after_0=20),
        ]
    )
    assert curve("x", results).points == ((0.0, 15.0),)
    assert (
        spread(Results([result({}, s, traffic=v) for s, v in enumerate((90, 110))]), "traffic")
        == 10
    )


def test_the_film_is_a_page() -> None:
    (name, page), *_ = films().items()
    assert name == "film.html"
    assert "round 0: 0 rewirings" in page
