"""The benchmark of profiles measures what it says, on traffic that profiles can be computed from."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from roost.bench.profile import (
    MADE,
    RUN,
    compared,
    growing,
    profiled,
    ratios,
    rows_of,
    table,
    write_table,
)
from roost.bench.report import Result
from roost.pipeline.lake import Lake
from roost.pipeline.profiles import PROFILES

ROWS = 4_000


def test_a_profile_of_made_up_traffic(spark: SparkSession, tmp_path: Path) -> None:
    for name in MADE:
        write_table(tmp_path, name, ROWS, 1)
    rows = {each.table: each.rows for each in Lake(tmp_path).tables(RUN)}
    assert rows == {"deliveries": ROWS, "links": 1_000, "loads": 1_000, "events": 1_000}
    assert rows_of(tmp_path, "deliveries") == ROWS
    assert min(profiled(spark, tmp_path, PROFILES["hops"])) > 0
    assert min(compared(spark, tmp_path, ROWS)) > 0
    found = PROFILES["audiences"].of(Lake(tmp_path).read(spark, "deliveries", RUN).drop("run"))
    published = found.where("published").collect()
    assert sum((row["bits"] & (1 << 64) - 1).bit_count() for row in published) == ROWS // 4


def test_a_run_that_grows_is_taken_in_hour_by_hour(spark: SparkSession, tmp_path: Path) -> None:
    assert len(growing(spark, tmp_path, ROWS, 1, hours=3)) == 3
    folder = tmp_path / "profile-vectors-100" / f"run={RUN}"
    assert len(list(folder.glob("batch-*.parquet"))) == 3
    assert rows_of(tmp_path, "deliveries") == ROWS // 3 * 3


def test_the_table_has_a_row_a_profile_and_size() -> None:
    figures = {"hour_2_processor_s": 2.0, "hour_24_processor_s": 1.0}
    for size, seconds in ((100, 1.0), (1_000, 4.0)):
        took = {"cold_s": 2 * seconds, "warm_s": seconds, "processor_s": seconds}
        for what, value in {**took, "rows_per_s": 250.0}.items():
            figures[f"hops_{size}_{what}"] = value
    result: Result = {
        "bench": "profile",
        "config": {"workload": "made up", "subscriptions": 0, "rows": [100, 1_000], "cores": 2},
        "results": figures,
        "ratios": ratios(figures, ["hops"], [100, 1_000]),
    }
    assert result["ratios"] == {"hours_time": 0.5, "rows": 10.0, "hops_time": 4.0}
    made = table(result)
    assert [row[:2] for row in made.rows] == [["hops", "100"], ["hops", "1,000"]]
    assert "10 times the rows take 4.0 times as long at most (hops)." in made.notes
