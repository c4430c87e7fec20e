"""`roost pipeline workload`: what it lists, writes and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roost.cli.pipeline import workload as pipeline_workload
from roost.errors import UserError
from roost.pipeline.files.tables import read_events, read_subscriptions
from roost.pipeline.lake import Lake
from roost.pipeline.workload.registry import WORKLOADS, workload_of
from tests.cli.support import Roost, make_roost


@pytest.fixture
def roost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


@pytest.fixture
def on_spark(spark: SparkSession, roost: Roost, monkeypatch: pytest.MonkeyPatch) -> Roost:
    """Commands that use the session of the tests, which is not theirs to stop."""

    @contextmanager
    def session(master: str | None, conf: Sequence[str] | None) -> Iterator[SparkSession]:
        assert master is None
        assert not conf
        yield spark

    monkeypatch.setattr(pipeline_workload, "session_of", session)
    return roost


def test_it_lists_what_there_is(roost: Roost) -> None:
    ran = roost("pipeline", "workload")
    assert ran.code == 0
    for name in ("thesis", "relocation", "overlay", "hierarchy", "bluedove", "stock", "bars"):
        assert f"{name} (" in ran.out
    assert "zero_traffic=0.25" in ran.out
    listed = roost("pipeline", "workload", "--json").json
    assert list(listed) == list(WORKLOADS)
    assert listed["bluedove"]["parameters"] == {"adverse": 0, "deviation": 250.0}


def test_every_table_has_a_description_and_every_parameter_a_kind() -> None:
    for workload in WORKLOADS.values():
        assert all(text.endswith(".") for text in workload.descriptions.values())
        assert all(parameter.kind for parameter in workload.parameters.values())
        assert not {"seed", "rows", "first", "partitions", "spark"} & workload.parameters.keys()


def test_a_folder_of_tables_is_written_and_read_back(
    on_spark: Roost, spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "a folder"
    arguments = ["pipeline", "workload", "overlay", "--seed", 5, "--set", "topics=3"]
    sizes = ["--publications", 70, "--subscriptions", 20, "--partitions", 1]
    ran = on_spark(*arguments, *sizes, "--out", out, "--json")
    assert ran.code == 0, ran.err
    result = ran.json
    assert result["workload"] == "overlay"
    assert result["seed"] == 5
    assert result["parameters"]["topics"] == 3
    assert [(t["table"], t["rows"]) for t in result["tables"]] == [
        ("publications", 70),
        ("subscriptions", 20),
    ]
    for table in result["tables"]:
        files = list((out / table["table"]).glob("*.parquet"))
        assert table["bytes"] == sum(file.stat().st_size for file in files)
        assert table["seconds"] > 0
    frames = workload_of("overlay").frames(spark, 5, {"topics": 3}, rows={"publications": 70})
    events = read_events(spark, str(out / "publications"))
    assert events.toArrow() == frames["publications"].toArrow()
    subscriptions = read_subscriptions(spark, str(out / "subscriptions")).toArrow()
    assert subscriptions == frames["subscriptions"].toArrow()[:20]
    again = on_spark(*arguments, "--out", out)
    assert again.code == 2
    assert "publications: there is something already" in again.err


def test_a_run_of_a_lake_is_written(on_spark: Roost, tmp_path: Path) -> None:
    arguments = ["pipeline", "workload", "bars", "--set", "symbols=2", "--set", "days=30"]
    ran = on_spark(*arguments, "--lake", tmp_path, "--run", "made-up")
    assert ran.code == 0, ran.err
    assert "60" in ran.out
    run = Lake(tmp_path).run("made-up")
    assert run.tables == ("bars",)
    assert run.kind == "workload"
    assert run.parts[0].config["parameters"] == {"symbols": 2, "days": 30}
    files = list((tmp_path / "bars" / "run=made-up").glob("*.parquet"))
    assert sum(pq.read_metadata(file).num_rows for file in files) == 60
    again = on_spark(*arguments, "--lake", tmp_path, "--run", "made-up")
    assert again.code == 2
    assert "the run 'made-up' has a table 'bars'" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--out", "x"], "no workload is called 'nothing'; there are thesis, "),
        (["--out", "x"], "which workload? expected a NAME"),
        (["thesis"], "where to? expected --out DIR, or --lake DIR with --run NAME"),
        (["thesis", "--lake", "x"], "where to?"),
        (["thesis", "--out", "x", "--run", "y"], "where to?"),
        (["thesis", "--out", "x", "--lake", "x", "--run", "y"], "where to?"),
        (["thesis", "--set", "speed=1", "--out", "x"], "thesis: unknown parameter 'speed'; there"),
        (["thesis", "--set", "zero_traffic=2", "--out", "x"], "zero_traffic='2' will not do"),
        (["thesis", "--set", "origin=maybe", "--out", "x"], "it takes no or yes"),
        (["thesis", "--set", "speed", "--out", "x"], "--set speed: expected KEY=VALUE"),
        (["bars", "--publications", "5", "--out", "x"], "the number of publications can't be set"),
        (["thesis", "--master", "nowhere", "--out", "x"], "'nowhere' is not a Spark master"),
    ],
)
def test_bad_input_is_refused_before_the_work(
    roost: Roost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = roost("pipeline", "workload", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_a_market_that_is_not_there_is_refused(on_spark: Roost, tmp_path: Path) -> None:
    gone = tmp_path / "gone.csv"
    ran = on_spark(
        "pipeline", "workload", "thesis", "--set", f"bars={gone}", "--out", tmp_path / "out"
    )
    assert ran.code == 2
    assert f"{gone}: No such file" in ran.err


def test_rows_of_a_table_that_is_none_are_refused() -> None:
    with pytest.raises(UserError, match="the number of matches can't be set"):
        workload_of("stock").check_rows({"matches": 1})
