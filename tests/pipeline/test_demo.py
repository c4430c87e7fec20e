"""`roost demo` for real: brokers and clients on sockets, a workload and a comparison by Spark."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from roost.bench.demo.plan import (
    RATE_PER_S,
    SEED,
    SPREAD,
    SUBSCRIBERS_PER_PUBLISHER,
    Plan,
    Subscriber,
    audiences_in,
    plan_of,
)
from roost.cli.console import people
from roost.cli.demo import pipeline as demo_pipeline
from roost.overlay.topologies import balanced_tree
from roost.pipeline.lake import Lake
from roost.pipeline.workload.blocks import BLOCK
from roost.pipeline.workload.relocation import relocation_publications, relocation_subscriptions
from tests.cli.support import make_roost


@pytest.mark.usefixtures("spark")
def test_a_federation_rearranges_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "shown"
    ran = make_roost(capsys, monkeypatch)("demo", "--fast", "--json", "--out", out)
    shown = ran.json
    checks = shown["checks"]
    assert checks["delivered"] > 1_000
    assert [checks[x] for x in ("lost", "doubled", "reordered", "unwanted")] == [0] * 4
    assert shown["config"]["brokers"] == 15
    # How long something takes is the machine's business; how many messages it takes is ours.
    *rates, delay = shown["claims"]
    assert [claim["holds"] for claim in rates] == [True, True]
    assert ran.code == (0 if delay["holds"] else 1)
    before, after = shown["results"]["before"], shown["results"]["after"]
    assert before["hops"] > 5
    assert after["hops"] < 2
    # Everybody went to its own audience.
    audiences = audiences_in(balanced_tree(15))
    places = {move["publisher"]: move["to"] for move in shown["moves"]}
    assert [places[f"P{n}"] in audience for n, audience in enumerate(audiences, 1)] == [True] * 8
    for words in (
        "GRAPE is off",
        "P1 would move from B11 to ",
        "P1 moves from B11 to ",
        "0 lost, 0 doubled, 0 reordered",
    ):
        assert words in ran.err
    ElementTree.parse(shown["picture"])
    assert Path(shown["picture"]).parent == out
    assert {table.table for table in Lake(out / "traces").tables("demo")} >= {"decisions", "links"}
    assert multiprocessing.active_children() == []
    # It was somebody else's session.
    assert SparkSession.getActiveSession() is not None

    again = make_roost(capsys, monkeypatch)("demo", "--fast", "--out", out)
    assert (again.code, again.out) == (2, "")
    assert (
        again.err == f"error: {out / 'before-after.svg'} is there already; choose another folder\n"
    )


def test_its_workload_is_what_spark_would_make(spark: SparkSession) -> None:
    """Row by row: nobody waits for Spark, and the tables are still the pipeline's."""
    plan = plan_of(until_s := 30.0)
    rate_per_min = 60 * RATE_PER_S
    quotes = relocation_publications(
        spark, seed=SEED, publishers=8, rate_per_min=rate_per_min, until_s=until_s, origin="yes"
    ).toArrow()
    assert sum(len(publisher.events) for publisher in plan.publishers) == len(quotes) > BLOCK
    of_third = [row for row in quotes.to_pylist() if row["publisher"] == "P3"]
    own = ("publisher", "sequence", "time", "publication")
    assert list(plan.publishers[2].events) == [
        {name: value for name, value in row.items() if name not in own} for row in of_third
    ]
    filters = relocation_subscriptions(
        spark,
        seed=SEED,
        distribution="clustered",
        spread=SPREAD,
        brokers=SPREAD,
        publishers=8,
        subscribers_per_publisher=SUBSCRIBERS_PER_PUBLISHER,
        rate_per_min=rate_per_min,
        until_s=until_s,
    ).toArrow()
    assert [each.filter for each in plan.subscribers] == filters["filter"].to_pylist()
    places = [audience.index(each.broker) for each, audience in placed(plan)]
    assert [f"B{place}" for place in places] == filters["broker"].to_pylist()


def placed(plan: Plan) -> list[tuple[Subscriber, Sequence[str]]]:
    """Each subscriber, with the brokers of its publisher's audience."""
    audiences = [a for a in plan.audiences for _ in range(SUBSCRIBERS_PER_PUBLISHER)]
    return list(zip(plan.subscribers, audiences, strict=True))


def test_it_matches_in_bulk_and_says_how(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_pipeline, "QUOTES", 500)
    monkeypatch.setattr(demo_pipeline, "SUBSCRIPTIONS", 100)
    demo_pipeline.show(people(), spark)
    out = capsys.readouterr().out
    assert "500 quotes x 100 filters" in out
    assert "most of them for" in out
