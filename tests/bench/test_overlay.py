"""The benchmark of overlays: what it compares is the same thing, its figures, its table."""

from __future__ import annotations

import pytest

from roost.bench.overlay import VARIANTS, load_at, run, sizes_up_to, table
from roost.experiments.overlay.workload import tree_of
from roost.overlay.rewiring.flows import flows_of
from tests.cli.support import make_roost


def test_what_is_compared_saves_what_recounting_says() -> None:
    flows = flows_of(tree_of("scale-free", 30, 3), load_at(30, 3).demand)
    middle = max(range(30), key=lambda i: len(flows.near[i]))
    sides = flows.sides(middle)
    savings, before = sides.savings().saved, flows.traffic()
    assert len(sides.near) > 2
    for i, mover in enumerate(sides.near):
        for j, anchor in enumerate(sides.near):
            if i != j:
                flows.rewire(middle, mover, anchor)
                assert savings[i, j] == pytest.approx(before - flows.traffic())
                flows.rewire(anchor, mover, middle)
    assert flows.traffic() == before


def test_the_figures_and_the_table() -> None:
    result = run((10, 20), seed=1, rounds=2)
    rounds = [f"{v}_{what}_s" for v in VARIANTS for what in ("first", "median", "longest")]
    names = ("counted_s", "compared_us", "recounted_us", *rounds)
    assert set(result["results"]) == {f"{name}_at_{n}" for name in names for n in (10, 20)}
    assert all(figure > 0 for figure in (*result["results"].values(), *result["ratios"].values()))
    shown = table(result)
    assert shown.columns == ["brokers", "10", "20"]
    assert all(len(row) == 3 for row in shown.rows)
    assert sizes_up_to(5_000) == (100, 500, 1_000, 5_000)


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    roost = make_roost(capsys, monkeypatch)
    ran = roost("bench", "overlay", "--brokers", 12, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert list(ran.json) == ["bench", "config", "results", "ratios"]
    assert "training and reconfiguration" in roost("bench", "overlay", "--brokers", 12).out
    assert roost("bench", "overlay", "--brokers", 2).code == 2
