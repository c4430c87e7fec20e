"""The benchmark of brokers: contestants take turns, medians count, and nothing that was lost is left out."""

from __future__ import annotations

from typing import Any

import pytest

from roost.bench import broker
from roost.bench.loads.base import Result, Scenario


def result(rate: float, lost: int = 0, **more: Any) -> Result:
    return Result(100, rate, rate, lost, 0, 1.0, 0.1, 0.1, **more)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Scenario]]:
    """What is run, with rates that fall from run to run."""
    seen: list[tuple[str, Scenario]] = []

    def run_scenario(name: str, load: Scenario) -> Result:
        seen.append((name, load))
        if load.rate:
            return result(load.rate, p50_us=1.0, p99_us=10.0 if name == "roost" else 5.0)
        number = sum(name == other for other, _ in seen)
        return result((2_000.0 if name == "roost" else 1_000.0) / number, lost=1)

    monkeypatch.setattr(broker, "contestant", lambda name: (name,))
    monkeypatch.setattr(broker, "run_scenario", run_scenario)
    return seen


def test_contestants_take_turns_and_medians_count(runs: list[tuple[str, Scenario]]) -> None:
    found = broker.run(["nats"], 1.0, 7, scenarios=("one_to_one", "same_rate"), chains=(), runs=3)
    names = [name for name, _ in runs]
    assert names == ["roost", "nats"] * 6
    assert {load.window for _, load in runs[:6]} == {broker.WINDOW}
    figures = found["results"]
    assert figures["roost/one_to_one/published_per_s"] == 1_000.0
    assert figures["roost/one_to_one/published_per_s_low"] == pytest.approx(2_000 / 3)
    assert figures["roost/one_to_one/published_per_s_high"] == 2_000.0
    assert figures["roost/one_to_one/lost"] == 3.0
    # One rate for both: what the slower one bears.
    assert {load.rate for _, load in runs[6:]} == {broker.SAME_SHARE * 500.0}
    assert found["ratios"] == {"one_to_one_over_nats": 2.0, "p99_same_rate_over_nats": 2.0}
    table = broker.table(found)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "(667 to 2,000)" in table.rows[0][1]
    assert any("all: 6" in note for note in table.notes)
