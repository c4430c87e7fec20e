"""The pipeline benchmark, tiny: its figures, and that it fails when plans differ. No time is asserted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roost.bench import pipeline
from roost.bench.match import DisagreementError
from roost.bench.pipeline import Bench, Sizes, Writing, Written
from roost.bench.pipeline_sql import BOUNDS, FORMS, Found, duckdb_figures, write_wanted
from roost.bench.report import run_name
from roost.bench.timing import Say, silent
from roost.bench.workloads import workload_of

TINY = Sizes(subscriptions=300, publications=400, stock_subscriptions=500, stock_publications=200)
FIGURES = {
    "matches",
    "broadcast_first_s",
    *(f"{plan}_{what}_s" for plan in pipeline.PLANS for what in ("prepare", "cold", "warm")),
    *("lists_cold_s", "lists_warm_s", "broadcast_warm_one_core_s"),
    *("stock_ready_s", "stock_worker_bytes", "stock_match_s", "stock_matches"),
    *("stock_publications_per_s", "stock_sql_subscriptions"),
    *(f"stock_{by}_{form}_s" for by in ("match", "spark_sql", "duckdb") for form in FORMS),
    *(f"lists_{n}x_publications_per_s" for n in pipeline.GROWTH),
}


def test_the_result_is_as_programs_expect_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(folder: Path, cores: int, what: str, say: Say) -> dict[str, float]:
        """In the session of the tests, instead of a process with one of its own."""
        return Bench(spark, folder, TINY, cores, say).figures(what)

    monkeypatch.setattr(pipeline, "_child", here)
    monkeypatch.setattr(pipeline, "ROUNDS", 1)
    said: list[str] = []
    result = pipeline.run(TINY, 5, said.append, cores=2)
    again: dict[str, Any] = json.loads(json.dumps(result, allow_nan=False))
    assert list(again) == ["bench", "config", "results", "ratios"]
    assert again["bench"] == "pipeline"
    assert (again["config"]["subscriptions"], again["config"]["seed"]) == (300, 5)
    assert set(again["results"]) == FIGURES
    figures = (*again["results"].values(), *again["ratios"].values())
    assert all(math.isfinite(x) and x > 0 for x in figures)
    assert {"join_over_broadcast_cold", "lists_over_pairs_warm"} <= set(again["ratios"])
    assert "the same on one core" in said
    table = pipeline.table(result)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert table.key == run_name(result)
    assert len(table.notes) == 6


def test_sql_by_hand_finds_what_filters_do(tmp_path: Path) -> None:
    """In DuckDB, against matching one by one; and what finds something else is not measured."""
    load = workload_of("stock", 7, 300, 100)
    write_wanted(tmp_path, load)
    pipeline._write(tmp_path / "stock", {"publication": None, **load.columns})
    pairs = [
        (publication, subscription)
        for publication, event in enumerate(load.events())
        for subscription, filter_ in enumerate(load.filters())
        if filter_.matches(event)
    ]
    expected = Found(len(pairs), sum(31 * p + 17 * s for p, s in pairs))
    figures = duckdb_figures(tmp_path, 1, expected)
    assert set(figures) == {f"stock_duckdb_{form}_s" for form in FORMS}
    assert set(BOUNDS) == {"high", "low", "volume"}
    with pytest.raises(DisagreementError, match="DuckDB finds"):
        duckdb_figures(tmp_path, 1, expected._replace(sum=0))


def test_the_workloads_are_files(tmp_path: Path) -> None:
    pipeline.write_workloads(tmp_path, TINY, 5, grow=True)
    filters = pq.read_table(tmp_path / "stock-filters")
    assert filters.column("subscription").to_pylist() == list(range(500))
    assert "symbol = " in filters.column("filter")[0].as_py()
    for publications in (100, 400, 1_600):
        events = pq.read_table(tmp_path / f"bluedove-{publications}")
        assert events.column_names == ["publication", "d0", "d1", "d2", "d3"]
        assert events.num_rows == publications


def test_different_matches_are_no_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrote(_: Bench, plan: str, form: str | None = None) -> Writing:
        assert form in (None, "pairs", "lists")
        return Writing(0.5, Written(9, 2) if plan == "partitioned" else Written(10, 1))

    monkeypatch.setattr(Bench, "_prepared", lambda _, plan, *_rest: plan)
    monkeypatch.setattr(Bench, "_write", wrote)
    spark: Any = None
    bench = Bench(spark, tmp_path, TINY, 1, silent)
    with pytest.raises(DisagreementError, match="partitioned as pairs wrote 9 matches"):
        bench.plans()


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"sizes\.json"):
        pipeline._child(tmp_path, 1, "warm", silent)
