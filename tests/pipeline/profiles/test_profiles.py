"""Delays, loads, heavy hitters and quantiles, from traces that are made by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from roost.errors import UserError
from roost.pipeline.profiles import (
    PROFILES,
    delays_by_hop,
    delivery_vectors,
    heavy_hitters,
    loads_over_time,
)
from roost.pipeline.profiles.sketch import bucket_of, quantiles
from tests.pipeline.profiles.runs import rows
from tests.pipeline.test_comparison import table


def arrow(spark: SparkSession, data: Sequence[tuple[Any, ...]], names: Sequence[str]) -> DataFrame:
    """A frame that takes no Python worker."""
    columns = [[row[place] for row in data] for place in range(len(names))]
    return spark.createDataFrame(pa.table(dict(zip(names, columns, strict=True))))


def test_quantiles_are_off_by_one_percent_at_most(spark: SparkSession) -> None:
    draw = random.Random(3)
    values = [draw.lognormvariate(-5, 2) for _ in range(2_000)]
    data = [("k", value, 1 + n % 3) for n, value in enumerate(values)]
    frame = arrow(spark, data, ("k", "v", "w"))
    counts = frame.groupBy("k", bucket_of(F.col("v")).alias("bucket")).agg(
        F.sum("w").alias("weight")
    )
    (row,) = rows(quantiles(counts, ["k"], {"p1": 0.01, "p50": 0.5, "p99": 0.99}))
    weighted = sorted(v for n, v in enumerate(values) for _ in range(1 + n % 3))
    for name, share in (("p1", 0.01), ("p50", 0.5), ("p99", 0.99)):
        exact = weighted[round(share * len(weighted)) - 1]
        assert row[name] == pytest.approx(exact, rel=0.012)


def test_what_is_nothing_has_a_place(spark: SparkSession) -> None:
    frame = arrow(spark, [("k", 0.0), ("k", -1.0), ("k", 1.0)], ("k", "v"))
    counts = frame.groupBy("k", bucket_of(F.col("v")).alias("bucket")).agg(
        F.count("*").alias("weight")
    )
    (row,) = rows(quantiles(counts, ["k"], {"p50": 0.5, "p100": 1.0}))
    assert row["p50"] == 0.0
    assert row["p100"] == pytest.approx(1.0, rel=0.01)


def visit(**columns: Any) -> dict[str, Any]:
    return {"publisher": "P", "sequence": 1, "broker": "B0", "source": "P", "bytes": 100} | columns


def test_delays_by_hop(spark: SparkSession) -> None:
    here = [visit(hop=0, local_subscribers=0, age_s=0.5, queueing_s=0.1, matching_s=0.2)]
    away = [
        visit(hop=1, local_subscribers=local, age_s=age, queueing_s=0.0, matching_s=0.4)
        for local, age in ((3, 0.010), (1, 0.050), (0, 9.0))
    ]
    first, second = rows(delays_by_hop().of(table(spark, "deliveries", here + away)))
    assert (first["hop"], first["deliveries"], first["mean_s"], first["p50_s"]) == (
        0,
        0,
        None,
        None,
    )
    assert (first["queueing_s"], first["matching_s"]) == (0.1, 0.2)
    assert (second["deliveries"], second["mean_s"]) == (4, pytest.approx(0.02))
    assert second["p50_s"] == pytest.approx(0.010, rel=0.01)
    assert second["p99_s"] == pytest.approx(0.050, rel=0.01)


def test_loads_over_time(spark: SparkSession) -> None:
    samples = [
        {"time": time, "broker": "B0", "input_utilisation": load}
        for time, load in ((60.0, 0.2), (119.9, 0.4), (120.0, 0.9))
    ]
    first, second = rows(loads_over_time(60).of(table(spark, "loads", samples)))
    assert (first["since"], first["samples"]) == (60.0, 2)
    assert first["input_utilisation"] == pytest.approx(0.3)
    assert (first["input_utilisation_max"], second["input_utilisation_max"]) == (0.4, 0.9)


def test_heavy_hitters(spark: SparkSession) -> None:
    reached = [{"client": "S", "subscriptions": ["s"]}, {"client": "T", "subscriptions": ["t"]}]
    visits = [
        visit(publisher="P", hop=0, broker="B0"),
        visit(publisher="P", hop=1, broker="B1", local_subscribers=2, clients=reached),
        visit(publisher="P", hop=1, broker="B1", local_subscribers=1, clients=reached[:1]),
        visit(publisher="Q", hop=0, broker="B1", local_subscribers=1, clients=reached[:1]),
    ]
    found = rows(heavy_hitters(1).of(table(spark, "deliveries", visits)))
    by_kind = {row["kind"]: row for row in found}
    assert by_kind["broker"] == {
        "kind": "broker",
        "name": "B1",
        "events": 3,
        "bytes": 300,
        "deliveries": 4,
        "share": 0.75,
    }
    assert (by_kind["client"]["name"], by_kind["client"]["events"]) == ("S", 3)
    assert (by_kind["publisher"]["name"], by_kind["publisher"]["deliveries"]) == ("P", 3)


def test_a_profile_says_what_it_needs(spark: SparkSession) -> None:
    older = table(spark, "deliveries", [visit()]).drop("source", "life")
    with pytest.raises(UserError, match="the table 'deliveries' has no column 'source'"):
        delivery_vectors().of(older)
    assert delays_by_hop().of(older).count() == 1
    for bad, what in ((0, "a session of 0"), (2**21, "a session of 2,097,152")):
        with pytest.raises(UserError, match=what):
            delivery_vectors(bad)
    with pytest.raises(UserError, match=r"periods of 0 s"):
        loads_over_time(0)
    with pytest.raises(UserError, match="0 heavy hitters"):
        heavy_hitters(0)


def test_profiles_go_by_their_names() -> None:
    assert list(PROFILES) == [
        "vectors",
        "pop",
        "traffic",
        "loads",
        "delays",
        "hitters",
        "audiences",
        "hops",
        "press",
        "sample",
    ]
