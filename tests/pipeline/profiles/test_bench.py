"""The benchmark of profiles measures what it says, on traffic that profiles can be computed from."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from roost.bench.profile import RUN, measured, ratios, table, write_table
from roost.bench.report import Result
from roost.pipeline.lake import Lake
from roost.pipeline.profiles import PROFILES

ROWS = 4_000


def test_a_profile_of_made_up_traffic(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("deliveries", "links", "loads"):
        write_table(tmp_path, name, ROWS, 1)
    rows = {each.table: each.rows for each in Lake(tmp_path).tables(RUN)}
    assert rows == {"deliveries": ROWS, "links": 1_000, "loads": 1_000}
    cold, warm, count = measured(spark, tmp_path, PROFILES["hops"])
    assert count == ROWS
    assert min(cold, warm) > 0
    found = PROFILES["audiences"].of(Lake(tmp_path).read(spark, "deliveries", RUN).drop("run"))
    published = found.where("published").collect()
    assert sum((row["bits"] & (1 << 64) - 1).bit_count() for row in published) == ROWS // 4


def test_the_table_has_a_row_a_profile_and_size() -> None:
    figures = {}
    for size, seconds in ((100, 1.0), (1_000, 4.0)):
        for what, value in (("cold_s", 2 * seconds), ("warm_s", seconds), ("rows_per_s", 250.0)):
            figures[f"hops_{size}_{what}"] = value
    result: Result = {
        "bench": "profile",
        "config": {"workload": "made up", "subscriptions": 0, "rows": [100, 1_000], "cores": 2},
        "results": figures,
        "ratios": ratios(figures, ["hops"], [100, 1_000]),
    }
    assert result["ratios"] == {"rows": 10.0, "hops_time": 4.0}
    made = table(result)
    assert [row[:2] for row in made.rows] == [["hops", "100"], ["hops", "1,000"]]
    assert "10 times the rows take 4.0 times as long at most (hops)." in made.notes
