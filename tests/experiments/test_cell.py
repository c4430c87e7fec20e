"""Cells of the experiments of 000: real runs, small ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roost.errors import UserError
from roost.experiments.relocation.cell import CELL, simulated
from roost.experiments.relocation.decision_time import answers_of
from roost.experiments.relocation.setup import Setup, prepared
from roost.pipeline.sweeps.tasks import VIOLATIONS
from roost.simulation import statements as st

SMALL: dict[str, Any] = {"brokers": 7, "publishers": 2, "until_s": 125.0}
SETUP = Setup(
    distribution="clustered",
    spread=3,
    variant="baseline",
    threshold=0,
    latencies="constant",
    arrivals="regular",
    order="market",
    brokers=7,
    publishers=2,
    subscribers=10,
    rate_per_min=60.0,
    cpu_mhz=3_000.0,
    until_s=100.0,
    bars="",
)


def test_grape_takes_publishers_to_their_only_broker_and_nothing_is_broken() -> None:
    row = simulated(1, spread=1, variant="load100", threshold=10, **SMALL)
    assert row[VIOLATIONS] == 0
    assert row["moves"]
    assert row["hops"] == 0.0
    assert row["rate_above_optimum"] == pytest.approx(0.0)
    assert row["overhead"] > 0  # type: ignore[operator]


def test_a_cell_is_pure() -> None:
    assert simulated(5, variant="pop", threshold=10, spread=4, **SMALL) == simulated(
        5, variant="pop", threshold=10, spread=4, **SMALL
    )


def test_near_saturation_the_busiest_broker_is_as_busy_as_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from roost.experiments.relocation import cell

    monkeypatch.setattr(cell, "CALIBRATION_S", 125.0)
    free = simulated(0, spread=4, **SMALL)
    busy = simulated(0, spread=4, peak=0.5, **SMALL)
    assert busy["input_utilisation_max"] == pytest.approx(50.0, rel=0.02)
    assert busy["delay_ms"] > free["delay_ms"]  # type: ignore[operator]


@pytest.mark.parametrize(("arrivals", "order"), [("random", "market"), ("regular", "shuffled")])
def test_publications_told_one_by_one_are_the_same_at_other_times(
    arrivals: str, order: str
) -> None:
    from msgspec.structs import replace

    setup = replace(SETUP, arrivals=arrivals, order=order)
    with prepared(setup, 4) as ready, prepared(SETUP, 4) as plain:
        told = [s for s in ready.workload.statements if isinstance(s, st.Publish)]
        others = [s for s in ready.workload.statements if not isinstance(s, st.Publish)]
        silent = [
            replace(s, rate_per_min=0.0) if isinstance(s, st.AddPublisher) else s
            for s in plain.workload.statements
        ]
    assert others == silent
    assert [s.at for s in told] == sorted(s.at for s in told)
    for publisher in ("P1", "P2"):
        own = [s for s in told if s.publisher == publisher]
        assert len(own) == pytest.approx(100, abs=35)
        gaps = np.diff([s.at for s in own])
        assert (gaps.std() < 1e-5) == (arrivals == "regular")
        days = [s.event.attributes["date"] for s in own]
        assert len(set(days)) == len(days)
        assert (days != days_of(plain.workload.settings.market_seed, own)) == (order == "shuffled")


def days_of(seed: int, own: list[st.Publish]) -> list[object]:
    from roost.simulation.market import SyntheticMarket

    market = SyntheticMarket(seed, 2)
    symbol = str(own[0].event.attributes["symbol"])
    return [market.quote(symbol, n).attributes["date"] for n in range(len(own))]


def test_latencies_of_a_file_are_used(tmp_path: Path) -> None:
    matrix = np.full((7, 7), 200.0)
    np.fill_diagonal(matrix, 0)
    np.savetxt(tmp_path / "rtt.csv", matrix, delimiter=",")
    parameters = CELL.read({"latencies": str(tmp_path / "rtt.csv"), "brokers": "7", "spread": "4"})
    assert list(CELL.files(parameters)) == [tmp_path / "rtt.csv"]
    row = CELL.run({**parameters, **SMALL}, 0)
    # 100 ms a link and 100 ms between a client and its broker, on both ends.
    expected = 100.0 * (float(row["hops"] or 0) + 2)
    assert row["delay_ms"] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"variant": "grape"}, "no variant is called 'grape'; expected baseline, pop"),
        ({"variant": "load101"}, "load0 to load100"),
        ({"latencies": "nowhere.csv"}, "nowhere.csv: there is no such file of latencies"),
        ({"spred": "3"}, "unknown parameter 'spred'"),
        ({"peak": "1.5"}, "peak='1.5' will not do"),
    ],
)
def test_bad_parameters_are_refused(texts: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as refused:
        CELL.read(texts)
    assert words in str(refused.value)


def test_a_choice_is_timed_with_subscribers_everywhere() -> None:
    answers, present = answers_of(0, 31)
    assert len(answers) == 31
    assert present in {answer.broker for answer in answers}
    assert sum(bool(answer.bits) for answer in answers) > 20
    row = CELL.run(CELL.read({"variant": "decision", "brokers": "31"}), 0)
    assert row["decision_ms"] > 0  # type: ignore[operator]
