"""The benchmark of the simulator measures worlds that all checkers are content with."""

from __future__ import annotations

import pytest

from roost.bench import sim
from roost.bench.sim import run, table


def test_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "RUNS", 1)
    result = run(5, 40, seed=1, grow=False, slice_hops=50)
    figures = result["results"]
    assert result["bench"] == "sim"
    assert (result["config"]["brokers"], result["config"]["subscriptions"]) == (5, 40)
    assert figures["hops_per_s"] > 0
    assert figures["violations"] == 0
    assert set(result["ratios"]) == {"traced_over_untraced", "one_event_over_one_a_delivery"}
    shown = table(result)
    assert [row[0] for row in shown.rows] == ["5 brokers, 40 subscribers"]
