"""The match benchmark: its figures, and that it fails when answers differ. No time is asserted."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from roost.bench import fresh, match
from roost.bench.churn import churn
from roost.bench.machine import commit, machine
from roost.bench.report import merged, run_name
from roost.bench.scan import Scan
from roost.bench.timing import percentile, progress, rate
from roost.bench.workloads import workload_of
from roost.language import Event
from roost.matching import Ids, Index

FIGURES = {
    *(
        f"{who}_{how}_events_per_s"
        for who in ("index", "scan", "naive")
        for how in ("single", "batch")
    ),
    *("index_add_per_s", "naive_add_per_s", "index_bulk_add_per_s", "scan_bulk_add_per_s"),
    *("index_remove_per_s", "naive_remove_per_s"),
    *("index_bytes_per_subscription", "index_resident_bytes_per_subscription"),
    *("index_match_us_p50", "index_match_us_p99"),
    *("matches_per_event", "start_up_s"),
    *("index_bytes_events_per_s", "index_spans_events_per_s", "index_parts_events_per_s"),
}
CHURN_FIGURES = {
    *("churn_events_per_s", "churn_quiet_events_per_s", "churn_replaced_per_s"),
    *("churn_stall_ms_max", "churn_quiet_stall_ms_max"),
}
RATIOS = {f"{how}_index_over_{who}" for who in ("scan", "naive") for how in ("single", "batch")}


@pytest.fixture(autouse=True)
def no_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "start_up_s", lambda: 0.5)
    monkeypatch.setattr(match, "resident_growth", lambda *_: 12_345)


@pytest.mark.parametrize(("workload", "per_s"), [("bluedove", 0), ("stock", 2000)])
def test_the_result_is_as_programs_expect_it(workload: str, per_s: int) -> None:
    said: list[str] = []
    result = match.run(workload, 300, 40, 5, per_s, said.append, budget_s=0.02)
    again: dict[str, Any] = json.loads(json.dumps(result, allow_nan=False))
    assert list(again) == ["bench", "config", "results", "ratios"]
    assert again["bench"] == "match"
    config = again["config"]
    assert (config["workload"], config["subscriptions"], config["events"]) == (workload, 300, 40)
    assert (config["seed"], config["churn"]) == (5, per_s)
    assert set(config["machine"]) == {"cpu", "cores", "python", "numpy", "numba"}
    assert set(again["results"]) == FIGURES | (CHURN_FIGURES if per_s else set())
    assert set(again["ratios"]) == RATIOS | ({"churn_over_quiet"} if per_s else set())
    assert all(math.isfinite(x) and x > 0 for x in again["results"].values())
    assert said
    table = match.table(result)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert table.key == f"match/{workload}/300" == run_name(result)


def test_several_results_become_one() -> None:
    results = [match.run(w, 50, 5, 5, budget_s=0.01) for w in ("bluedove", "stock")]
    whole = merged(results)
    assert list(whole) == ["bench", "config", "results", "ratios"]
    for result in results:
        prefix = run_name(result)
        for name, figure in result["results"].items():
            assert whole["results"][f"{prefix}/{name}"] == figure


def test_different_answers_are_no_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Scan, event: Event) -> Ids:
        return right(self, event)[1:]

    right = Scan.match
    monkeypatch.setattr(Scan, "match", forgetful)
    with pytest.raises(
        match.DisagreementError, match=r"event 0: .* scan differ in 1 subscriptions"
    ):
        match.run("stock", 300, 5, 5, budget_s=0.01)


def test_churn_replaces_and_the_index_follows() -> None:
    load, other = workload_of("stock", 1, 100, 20), workload_of("stock", 2, 30, 1)
    index = Index()
    for template in load.templates:
        index.add_columns(*template)
    live = dict(enumerate(load.filters()))
    done = churn(index, live, other.filters(), load.events(), 50_000, seconds=0.005)
    assert done.events_per_s > 0
    assert len(index) == len(done.live) == 100
    assert done.live.keys() != live.keys()
    assert max(done.live) > 99
    for event in load.events():
        expected = [id_ for id_, filter_ in done.live.items() if filter_.matches(event)]
        assert sorted(index.match(event).tolist()) == sorted(expected)


def test_without_churn_nothing_is_replaced() -> None:
    load = workload_of("bluedove", 1, 10, 5)
    index = Index()
    for template in load.templates:
        index.add_columns(*template)
    live = dict(enumerate(load.filters()))
    done = churn(index, live, load.filters(), load.events(), 0, seconds=0.001)
    assert done.live == live
    assert done.replaced_per_s == 0


def test_a_rate_counts_what_it_is_told_to() -> None:
    seen: list[int] = []
    assert rate(seen.append, [5, 5, 5], budget_s=0) > 0
    assert seen == [5], "a budget of nothing is one item"
    seen.clear()
    rate(seen.append, [1, 2, 3], budget_s=0.01)
    assert seen[-3:] == [1, 2, 3]
    assert rate(seen.append, [9], zero, budget_s=0) == 0


def zero(_: int) -> int:
    return 0


def test_percentiles() -> None:
    assert percentile(np.arange(101).tolist(), 99) == 99


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as say:
        say("working")
    assert capsys.readouterr() == ("", "")


def test_where_it_was_measured() -> None:
    assert isinstance(machine()["cores"], int)
    assert commit()


def test_a_fresh_process_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    growth = fresh.resident_growth("stock", 20_000, 7)
    assert growth is None or 20_000 < growth < 100_000_000
    monkeypatch.setattr(fresh, "STARTS", 1)
    assert fresh.start_up_s() > 0


def test_a_child_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "_FIRST_MATCH", "raise SystemExit('no luck')")
    with pytest.raises(RuntimeError, match="no luck"):
        fresh.start_up_s()
