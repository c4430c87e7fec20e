"""The benchmark of topologies: costs that are fitted, and a run with brokers as processes."""

from __future__ import annotations

import pytest

from roost.bench import topologies
from roost.bench.topologies import Sizes, fitted
from roost.experiments.topologies.costs import STEPS


def test_costs_are_found_from_what_brokers_did_and_took() -> None:
    costs = [7.0, 6.0, 2.0, 1.5, 25.0, 50.0, 9.0]
    counts = [
        [1000.0, 0, 0, 8000, 0, 0, 0],
        [1000.0, 0, 0, 1000, 0, 0, 0],
        [1000.0, 400, 900, 8000, 0, 0, 0],
        [500.0, 400, 100, 2000, 0, 0, 0],
        [0.0, 0, 0, 0, 3000, 0, 0],
        [0.0, 0, 0, 0, 3000, 900, 3000],
        [0.0, 0, 0, 0, 3000, 10, 6000],
    ]
    took_s = [sum(n * c for n, c in zip(row, costs, strict=True)) * 1e-6 for row in counts]
    assert fitted(counts, took_s) == pytest.approx(costs)


@pytest.mark.long
def test_live_brokers_in_both_topologies() -> None:
    result = topologies.run(1, Sizes(2, 50, 50, 0.1, 5))
    assert topologies.is_clean(result)
    figures = result["results"]
    for shape in ("tree", "cluster"):
        for brokers in (1, 2):
            for what in ("publications", "subscriptions"):
                assert figures[f"{shape}/{brokers}/{what}/per_processor_s"] > 0
    assert {f"cost_us/{step}" for step in STEPS} <= figures.keys()
    table = topologies.table(result)
    assert [row[0] for row in table.rows] == [
        "publications, 1",
        "publications, 2",
        "subscriptions, 1",
        "subscriptions, 2",
        "by WS-Eventing, 1",
        "by WS-Eventing, 2",
    ]
