"""The choice of a plan, as the pure function that it is; and what it knows about the machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from roost.bench.workloads import workload_of
from roost.errors import UserError
from roost.language import Filter, parse_subscription
from roost.matching import Index
from roost.pipeline.matching import Estimate, Statistics, choose
from roost.pipeline.matching.choosing import BYTES_A_WEIGHT_MAX
from roost.pipeline.matching.loading import WEIGHED, load
from roost.pipeline.matching.statistics import (
    default_memory_limit,
    estimate_of,
    setting_bytes,
)
from roost.pipeline.memory import available_memory
from roost.pipeline.parsed import to_arrow

MB, GB = 10**6, 10**9
MILLION = Statistics(subscriptions=10**6, weight=40 * 10**6, tasks=2)
SAMPLED = replace(MILLION, estimate=Estimate(fixed=MB, index=10.0, pickled=5.0, packed=2.0))


def test_what_fits_at_worst_is_broadcast_without_a_sample() -> None:
    choice = choose(MILLION, 30 * GB)
    assert choice.plan == "broadcast"
    assert "takes at most 21.0 GB, which every task has (limit 30.0 GB)" in choice.reason
    assert choice.figures["subscriptions"] == 10**6
    assert choice.figures["index_bytes"] >= 40 * MB * BYTES_A_WEIGHT_MAX


def test_a_sample_knows_better() -> None:
    assert choose(MILLION, 2 * GB).plan == "partitioned"
    choice = choose(SAMPLED, 2 * GB)
    assert choice.plan == "broadcast"
    assert "about 401.0 MB" in choice.reason


@pytest.mark.parametrize(("limit", "plan"), [(402 * MB, "broadcast"), (400 * MB, "partitioned")])
def test_both_sides_of_the_limit(limit: int, plan: str) -> None:
    choice = choose(SAMPLED, limit)
    assert choice.plan == plan
    assert "1,000,000 subscriptions" in choice.reason


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            {"result_limit": 50 * MB},
            "collect about 96.0 MB, and spark.driver.maxResultSize is 50.0 MB",
        ),
        ({"driver_limit": 100 * MB}, "the driver needs about 794.0 MB, and has 100.0 MB"),
        ({"carry_limit": 96 * MB}, "a message of Spark Connect takes 96.0 MB"),
    ],
)
def test_the_index_must_get_there(known: dict[str, Any], words: str) -> None:
    choice = choose(replace(SAMPLED, **known), 2 * GB)
    assert choice.plan == "partitioned"
    assert words in choice.reason


def test_a_plan_that_is_asked_for_is_taken() -> None:
    for plan in ("join", "partitioned", "broadcast"):
        choice = choose(SAMPLED, 2 * GB, plan=plan)
        assert choice.plan == plan
        assert choice.reason.startswith("asked for")


def test_a_broadcast_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        choose(SAMPLED, 100 * MB, plan="broadcast")
    assert str(caught.value) == (
        "the plan 'broadcast' does not fit: an index of 1,000,000 subscriptions takes about 401.0 MB, and"
        " the limit of a task is 100.0 MB. Use the plan 'partitioned' (or 'auto'), or give tasks more memory"
    )


# --- what a sample says ---------------------------------------------------------------------------


def weighed_of(filters: list[Any]) -> pa.Table:
    weights = [len(str(filter_)) for filter_ in filters]
    return pa.table([pa.array(range(len(filters))), to_arrow(filters), weights], WEIGHED)


def odd_filters(n: int) -> list[Any]:
    texts = (f"a = {k} or a = {k + n} or b prefix '{k}'" for k in range(n))
    return [parse_subscription(text) for text in texts]


@pytest.mark.parametrize("kind", ["stock", "bluedove", "odd"])
def test_a_sample_does_not_underestimate(kind: str) -> None:
    n = 6_000
    filters: list[Any] = odd_filters(n) if kind == "odd" else workload_of(kind, 5, n, 1).filters()
    whole = weighed_of(filters)
    estimate = estimate_of(whole.slice(0, n // 5))
    index = Index()
    load(index, whole)
    weight = sum(whole.column("weight").to_pylist())
    said = Statistics(n, weight, estimate=estimate)
    assert 2 * index.memory_bytes() <= said.index_bytes <= 12 * index.memory_bytes()
    assert said.index_bytes <= Statistics(n, weight).index_bytes
    assert said.packed_bytes >= whole.nbytes * 0.9


def test_an_empty_sample_says_little() -> None:
    estimate = estimate_of(weighed_of([]))
    assert estimate.index == 0
    assert estimate_of(weighed_of([Filter()])).fixed > 0


# --- the machine ----------------------------------------------------------------------------------


class Conf(dict[str, str]):
    """Stands for the settings of a session on a cluster, which tests don't have."""

    @property
    def conf(self) -> Conf:
        return self

    @property
    def sparkContext(self) -> Conf:  # noqa: N802
        return self

    defaultParallelism = 8  # noqa: N815


def test_the_default_limit_of_this_machine(spark: Any) -> None:
    limit = default_memory_limit(spark)
    assert 0 < limit < available_memory()


@pytest.mark.parametrize(
    ("settings", "mb"),
    [
        ({}, 192),
        ({"spark.executor.memory": "8g"}, 0.05 * 8 * 1024),
        ({"spark.executor.memoryOverhead": "2048", "spark.executor.cores": "4"}, 256),
        ({"spark.executor.pyspark.memory": "4g"}, 2048),
    ],
)
def test_the_default_limit_of_a_cluster(settings: dict[str, str], mb: float) -> None:
    session: Any = Conf({"spark.master": "spark://host:7077", **settings})
    assert default_memory_limit(session) == pytest.approx(mb * (1 << 20), rel=1e-6)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1g", 1 << 30),
        ("512m", 512 << 20),
        ("67108864b", 1 << 26),
        ("7", 7),
        ("x", 0),
        ("2GB", 2 << 30),
    ],
)
def test_sizes_as_spark_writes_them(text: str, size: int) -> None:
    session: Any = Conf({"key": text})
    assert setting_bytes(session, "key", "0") == size
