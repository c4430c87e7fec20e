"""The benchmark of the client library: small, with real processes, and what it makes of what went wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from roost.bench import client
from roost.bench.client import SCENARIOS, Ran, figures_of
from roost.bench.client_roles import ROUND
from roost.bench.report import Result
from roost.cli import bench


def test_a_small_one_loses_nothing() -> None:
    steps: list[str] = []
    result = client.run(2 * ROUND, 1, steps.append)
    found = result["results"]
    assert steps == ["a broker starts", *(f"run 1 of 1: {title}" for title in SCENARIOS.values())]
    assert result["config"]["events"] == 2 * ROUND
    assert client.is_clean(result)
    for scenario in SCENARIOS:
        assert found[f"{scenario}_events_per_s"] > 0
        assert found[f"{scenario}_publisher_us"] > 0
        assert found[f"{scenario}_subscriber_us"] > 0
    assert set(result["ratios"]) == {"arrow_to_single", "dicts_to_single"}
    table = client.table(result)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "0 lost, 0 doubled, 0 reordered" in table.notes[-1]


def ran(**wrong: Any) -> Ran:
    usual = {
        "events": 1_000,
        "seconds": 0.5,
        "publisher_cpu_s": 0.001,
        "broker_cpu_s": 0.002,
        "subscriber_cpu_s": 0.003,
        "received": 1_000,
        "reordered": 0,
    }
    return Ran(**{**usual, **wrong})


def test_the_figures() -> None:
    found = figures_of("arrow", [ran(), ran(seconds=1.0), ran(seconds=0.25, publisher_cpu_s=0.01)])
    assert found["arrow_events_per_s"] == 2_000
    assert found["arrow_publisher_us"] == pytest.approx(1.0)
    assert found["arrow_broker_us"] == pytest.approx(2.0)
    assert found["arrow_subscriber_us"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"received": 990, "seconds": 0.0}, "lost"),
        ({"received": 1_010}, "doubled"),
        ({"reordered": 1}, "reordered"),
    ],
)
def test_what_went_wrong_is_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], what: str
) -> None:
    figures: dict[str, float] = {}
    for scenario in SCENARIOS:
        figures |= figures_of(scenario, [ran(**wrong) if scenario == "dicts" else ran()])
    for each in ("lost", "doubled", "reordered"):
        figures[each] = sum(figures[f"{scenario}_{each}"] for scenario in SCENARIOS)
    assert figures[what] > 0
    config = {"events": 1_000, "runs": 1, "seed": 0, "commit": "none", "machine": {}}
    result: Result = {"bench": "client", "config": config, "results": figures, "ratios": {}}
    monkeypatch.setattr(client, "run", lambda *_: result)
    app = typer.Typer()
    bench.register(app)
    said = CliRunner().invoke(app, ["bench", "client", "--json"])
    assert json.loads(said.stdout)["results"][what] == figures[what]
    assert said.exit_code == 1
