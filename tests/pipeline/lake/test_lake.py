"""The lake: many runs are one table, and what is bad in any of them is told before any work."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession, functions

import roost
from roost.broker.hops import Session
from roost.broker.messages import Publication
from roost.cli.sim.run import Plan, carry_out
from roost.errors import UserError
from roost.language import Event
from roost.pipeline.lake.files import FILES_A_THREAD, TableInfo, unknown
from roost.pipeline.lake.lake import Lake, chosen
from roost.runtime.admin_client import ask
from roost.traces import SCHEMAS, About, TraceWriter
from roost.traces.rows import LinkRow
from roost.traces.run import versions
from roost.traces.segments import SegmentWriter
from roost.traces.visits import Read, Stretch, VisitLog
from tests.cli.live import HOST, live_brokers

LINK = LinkRow(10.0, "B0", "B1", class_="data", sent=7, received=7, waiting=0)
WORKLOAD = """\
0 broker add B0 1 16 10
0 broker add B1 1 16 10
0 link add B0 B1
1 subscriber add S1 B0 class = 'STOCK'
2 publisher add P1 YHOO 60 B1
20 end
"""


def trace(lake: Path, run: str, rows: int = 1, **about: object) -> None:
    with TraceWriter(lake, run, about=About("simulated", **about)) as writer:  # type: ignore[arg-type]
        for number in range(rows):
            writer.add("links", LINK._replace(time=float(number)))


def put(lake: Path, table: str, run: str, columns: pa.Table, file: str = "x.parquet") -> Path:
    path = lake / table / f"run={run}" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns, path)
    return path


def files(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    trace(tmp_path / "lake", "tree-7", 3, seed=7, config={"faults": "none"})
    trace(tmp_path / "lake", "tree-8", 5, seed=8)
    return tmp_path / "lake"


# --- what there is ----------------------------------------------------------------------------------


def test_runs_say_what_they_were(lake: Path) -> None:
    first, second = Lake(lake).runs()
    assert (first.name, first.kind, first.seed) == ("tree-7", "simulated", 7)
    assert first.tables == ("decisions", "deliveries", "interests", "links", "loads", "measures")
    (part,) = first.parts
    assert (part.part, part.config, part.began) == ("0", {"faults": "none"}, None)
    assert part.versions == versions()
    assert {"roost", "python", "numpy", "numba", "pyarrow"} <= part.versions.keys()
    assert (second.name, second.seed) == ("tree-8", 8)
    assert first.written <= second.written
    assert Lake(lake).run("tree-7") == first


def test_tables_are_counted_by_their_footers(lake: Path) -> None:
    path = lake / "links" / "run=tree-7" / "part-0.parquet"
    by_name = {info.table: info for info in Lake(lake).tables("tree-7")}
    links = SCHEMAS["links"]
    columns = {field.name: str(field.type) for field in links}
    assert by_name["links"] == TableInfo("links", 3, path.stat().st_size, 1, columns)
    assert by_name["loads"].rows == 0
    assert [info.rows for info in Lake(lake).tables() if info.table == "links"] == [8]


def test_a_file_that_is_none_is_told_and_the_rest_is_listed(lake: Path) -> None:
    broken = lake / "links" / "run=tree-7" / "part-1.parquet"
    broken.write_bytes(b"PAR1 rubbish")
    (info,) = [info for info in Lake(lake).tables("tree-7") if info.table == "links"]
    assert (info.rows, info.files) == (3, 2)
    assert info.problem == f"{broken}: not a whole Parquet file"
    (lake / "runs" / "run=tree-7" / "part-0.parquet").write_bytes(b"")
    run = Lake(lake).run("tree-7")
    assert (run.kind, run.seed, run.parts) == ("unknown", None, ())
    assert "part-0.parquet: not a whole Parquet file" in run.problem


def test_what_is_hidden_is_not_there(lake: Path) -> None:
    (lake / "links" / "run=begun").mkdir()
    (lake / "links" / "run=begun" / ".part-0.parquet.writing").touch()
    (lake / "links" / ".run=other~1").mkdir()
    (lake / "links" / "run=tree-7" / "_SUCCESS").touch()
    (lake / "notes.txt").touch()
    (lake / "drafts").mkdir()
    assert {run.name for run in Lake(lake).runs()} == {"tree-7", "tree-8"}
    assert {info.table: info.files for info in Lake(lake).tables()}["links"] == 2


def test_the_first_rows(lake: Path) -> None:
    more = pa.table({"time": [9.0], "note": ["x"]})
    put(lake, "links", "tree-8", more, "part-1.parquet")
    times = Lake(lake).sample("links", "tree-8", 3)["time"].to_pylist()
    assert times == [0.0, 1.0, 2.0]
    whole = Lake(lake).sample("links", "tree-8", 100)
    assert whole["time"].to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]
    assert whole["note"].to_pylist() == [None] * 5 + ["x"]
    assert Lake(lake).sample("loads", "tree-8", 3).schema.equals(SCHEMAS["loads"])


# --- Spark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a simulated run and one of two live brokers."""
    folder = tmp_path_factory.mktemp("a lake [1]")
    (folder / "pair.workload").write_text(WORKLOAD)
    lake = folder / "lake"
    carry_out(Plan(folder / "pair.workload", 7, None, lake, "none", True, False))
    order = {"on": True, "folder": str(lake), "run": "live-1"}
    with live_brokers() as live:
        assert {ask(url, "/trace", order)["run"] for url in live.urls} == {"live-1"}
        near, far = (f"roost://{HOST}:{server.port}" for server in live.servers)
        with roost.connect_sync(near) as subscriber, roost.connect_sync(far) as publisher:
            found = subscriber.subscribe("class = 'STOCK'")
            publisher.advertise("class = 'STOCK'")
            found.ready(10)
            publisher.publish({"class": "STOCK"})
            assert found.get(10)["class"] == "STOCK"
        for url in live.urls:
            ask(url, "/trace", {"on": False})
    return lake


def test_simulated_and_live_runs_are_one_table(spark: SparkSession, traced: Path) -> None:
    lake = Lake(traced)
    frame = lake.read(spark, "deliveries")
    assert frame.columns == [*SCHEMAS["deliveries"].names, "run"]
    counted = frame.groupBy("run").agg(
        functions.count("*").alias("rows"),
        functions.sort_array(functions.collect_set("broker")).alias("brokers"),
    )
    rows = {row["run"]: row for row in counted.collect()}
    assert rows["live-1"].asDict() == {"run": "live-1", "rows": 2, "brokers": ["B0", "B1"]}
    assert rows["pair-7"]["brokers"] == ["B0", "B1"]
    expected = {info.table: info.rows for info in lake.tables("pair-7")}
    assert rows["pair-7"]["rows"] == expected["deliveries"] > 30
    described = {
        (row["run"], row["part"]): (row["kind"], row["seed"], row["began"] is not None)
        for row in lake.read(spark, "runs").collect()
    }
    assert described == {
        ("pair-7", "0"): ("simulated", 7, False),
        ("live-1", "B0"): ("live", None, True),
        ("live-1", "B1"): ("live", None, True),
    }
    live = lake.run("live-1")
    assert {part.part: part.config["neighbours"] for part in live.parts} == {
        "B0": ["B1"],
        "B1": ["B0"],
    }
    config = lake.run("pair-7").parts[0].config
    assert (config["workload"], config["until_s"]) == ("pair.workload", 20.0)


def test_runs_are_chosen_by_name(spark: SparkSession, lake: Path) -> None:
    # Names that Spark would take for numbers, if it were left to guess.
    for run in ("007", "1e3"):
        trace(lake, run)
    read = Lake(lake).read(spark, "links", ["007", "1e3", "tree-8", "007"])
    assert {row["run"]: row["count"] for row in read.groupBy("run").count().collect()} == {
        "007": 1,
        "1e3": 1,
        "tree-8": 5,
    }
    assert read.schema["run"].dataType.simpleString() == "string"
    assert Lake(lake).read(spark, "links", "tree-7").count() == 3


def test_attributes_of_publications_may_differ(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "publications", "a", pa.table({"price": [1.5], "publication": [1]}))
    strings = pa.array(["YHOO"]).dictionary_encode()
    put(tmp_path, "publications", "b", pa.table({"publication": [2], "symbol": strings}))
    frame = Lake(f"file://{tmp_path}").read(spark, "publications")
    assert sorted(map(tuple, frame.collect())) == [
        (1, 1.5, None, "a"),
        (2, None, "YHOO", "b"),
    ]
    assert frame.columns == ["publication", "price", "symbol", "run"]


@pytest.mark.parametrize(
    ("table", "bad", "message"),
    [
        (
            "matches",
            {"publication": [1]},
            "the table 'matches' has no column 'subscription' (bigint); there are 'publication'",
        ),
        (
            "matches",
            {"publication": [1], "subscription": ["s"]},
            "the column 'subscription' of the table 'matches' is string; expected bigint",
        ),
        (
            "publications",
            {"publication": [1], "tags": [["a"]]},
            "the column 'tags' of the table 'publications' is array<string>; an attribute is one of",
        ),
        (
            "mine",
            {"run": [1]},
            "the table 'mine' has a column 'run', which is what the lake calls the name of the run",
        ),
        (
            "mine",
            {"at": pa.array([1], pa.timestamp("ns"))},
            "the column 'at' of the table 'mine' is timestamp[ns], which Spark does not read",
        ),
        (
            "mine",
            {"good": ["text"]},
            "the column 'good' of the table 'mine' is string, but bigint in",
        ),
    ],
)
def test_files_with_other_columns_are_refused(
    spark: SparkSession, tmp_path: Path, table: str, bad: dict[str, object], message: str
) -> None:
    fine = {
        "matches": {"publication": [1], "subscription": [1]},
        "publications": {"publication": [1]},
        "mine": {"good": [1]},
    }
    put(tmp_path, table, "a", pa.table(fine[table]))
    path = put(tmp_path, table, "b", pa.table(bad))
    with pytest.raises(UserError) as error:
        Lake(tmp_path).read(spark, table)
    assert str(error.value).startswith(f"{path}: {message}")
    assert Lake(tmp_path).read(spark, table, "a").count() == 1


def test_files_that_are_no_parquet_are_refused(spark: SparkSession, lake: Path) -> None:
    folder = lake / "links" / "run=tree-8"
    # Enough for threads to share them.
    rows = pq.read_table(folder / "part-0.parquet", partitioning=None)
    for number in range(3 * FILES_A_THREAD):
        put(lake, "links", "tree-8", rows, f"part-{number}.parquet")
    whole = (folder / "part-7.parquet").read_bytes()
    expected = "expected a Parquet file of the table 'links'"
    for bad in (b"", b"time,broker\n", whole[:-1], whole[: len(whole) // 2]):
        (folder / "part-7.parquet").write_bytes(bad)
        with pytest.raises(UserError) as error:
            Lake(lake).read(spark, "links")
        told = f"{folder / 'part-7.parquet'}: not a whole Parquet file; {expected}"
        assert str(error.value) == told
        with pytest.raises(UserError) as error:
            Lake(lake).sample("links", "tree-8", 1000)
        assert str(error.value) == told
    (folder / "part-7.parquet").unlink()
    (folder / "deeper").mkdir()
    with pytest.raises(UserError, match=r"run=tree-8/deeper: a folder; expected a Parquet"):
        Lake(lake).read(spark, "links")
    assert Lake(lake).read(spark, "links", "tree-7").count() == 3


def test_names_that_are_none_are_refused(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    there = Lake(lake)
    put(lake, "matches", "m", pa.table({"publication": [1], "subscription": [1]}))
    tables = "'decisions', 'deliveries', 'interests', 'loads', 'matches', 'measures', 'runs'"
    for work, message in (
        (
            lambda: there.read(spark, "link"),
            f"there is no table 'link'; there are 'links', {tables}",
        ),
        (
            lambda: there.read(spark, "links", "three-8"),
            "there is no run of the table 'links' called 'three-8'; there are 'tree-8', 'tree-7'",
        ),
        (
            lambda: there.read(spark, "matches", ["m", "tree-7"]),
            "there is no run of the table 'matches' called 'tree-7'; there is 'm'",
        ),
        (
            lambda: there.run("tree-9"),
            "there is no run 'tree-9'; there are 'tree-8', 'tree-7', 'm'",
        ),
        (lambda: there.read(spark, "links", []), "no run of 'links' was named; expected one, or"),
    ):
        with pytest.raises(UserError) as error:
            work()
        assert message in str(error.value)
    for gone in (Lake(tmp_path / "gone"), Lake(lake / "links" / "run=tree-7" / "part-0.parquet")):
        with pytest.raises(UserError, match="there is no such folder; expected a lake"):
            gone.read(spark, "links")
    assert unknown("run", "x", ()) == "there is no run 'x'; there are none"
    many = unknown("run", "r7", [f"r{n}" for n in range(25)])
    assert many.startswith("there is no run 'r7'; there are 'r7', ")
    assert many.endswith(" and 15 more")


def test_columns_that_came_later_are_null_in_older_runs(spark: SparkSession, lake: Path) -> None:
    path = lake / "links" / "run=tree-8" / "part-0.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["life"]), path)
    there = Lake(lake)
    rows = there.read(spark, "links").groupBy("run").agg(functions.max("life").alias("life"))
    assert {row["run"]: row["life"] for row in rows.collect()} == {"tree-7": 0, "tree-8": None}
    with pytest.raises(UserError) as error:
        there.read(spark, "links", needs=["life"])
    assert str(error.value).startswith(f"{path}: the table 'links' lacks 'life', which is needed")
    assert there.read(spark, "links", "tree-7", needs=["life"]).count() == 3


# --- segments ---------------------------------------------------------------------------------------


def segments(lake: Path, *times: float) -> None:
    writer = SegmentWriter(lake, "live-1", part="B0", now=0.0, about=About("live"))
    for time_ in times:
        writer.add("links", LINK._replace(time=time_))
        writer.next_segment(0.0)
    writer.close()


def test_what_a_live_broker_has_routed_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Its files are written in haste, with other encodings than those of a simulated run."""
    writer = SegmentWriter(tmp_path, "live", part="B0", now=0.0, life=3, about=About("live"))
    source, to = Session("s1", "c1", None), Session("s2", "c2", None)
    to.matched = ("a",)
    for segment in (0, 1):
        log = VisitLog()
        for number in range(1, 4):
            publication = Publication("P", 10 * segment + number, Event({"x": 1}))
            log.tap(source, publication, 0, [], [to], 0.0)
        writer.visited(Stretch(log.take(), [Read(1.0 + segment, 2.0 + segment, 3)]))
        writer.next_segment(0.0)
    writer.close()
    for joined in (False, True):
        if joined:
            Lake(tmp_path).compact()
        rows = Lake(tmp_path).read(spark, "deliveries", "live").orderBy("time").collect()
        assert [row.sequence for row in rows] == [1, 2, 3, 11, 12, 13]
        assert {(row.publisher, row.broker, row.source, row.life) for row in rows} == {
            ("P", "B0", "c1", 3)
        }
        assert rows[0].clients == [Row(client="c2", subscriptions=["a"])]


def test_segments_are_joined_and_read_as_before(spark: SparkSession, lake: Path) -> None:
    segments(lake, 1.0, 2.0, 4_000.0, 4_001.0)
    there, folder = Lake(lake), lake / "links" / "run=live-1"
    assert there.run("live-1").kind == "live"
    assert [info.files for info in there.tables("live-1") if info.table == "links"] == [4]
    before = {path: path.read_bytes() for path in folder.glob("part-*")}
    joined = there.compact()
    assert [(run.name, run.files_before - run.files) for run in joined] == [("live-1", 2)]
    assert there.compact() == []
    # As if whoever joined them had been killed before they were removed.
    for path, data in before.items():
        path.write_bytes(data)
    (info,) = [info for info in there.tables("live-1") if info.table == "links"]
    assert (info.files, info.rows) == (2, 4)
    frame = there.read(spark, "links", ["live-1", "tree-7"])
    rows = frame.groupBy("run").agg(functions.collect_list("time").alias("at")).collect()
    assert {row["run"]: sorted(row["at"]) for row in rows} == {
        "live-1": [1.0, 2.0, 4_000.0, 4_001.0],
        "tree-7": [0.0, 1.0, 2.0],
    }
    there.compact(["live-1"])
    assert len(list(folder.glob("part-*"))) == 2
    with pytest.raises(UserError, match="there is no run 'live-2'"):
        there.compact(["live-2"])


# --- writing ----------------------------------------------------------------------------------------


def test_what_is_written_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "new" / "lake {x}")
    at = datetime(2030, 1, 2, 3, 4, 5, 678, UTC)
    rows = [Row(broker="B0", at=at, best=[1, 2]), Row(broker="B1", at=at, best=None)]
    own = spark.createDataFrame(rows, "broker string, at timestamp, best array<int>").coalesce(1)
    before = time.time()
    info = lake.write(own, "own", "study-1", kind="profile", seed=3, config={"above": 0.9})
    assert info is not None
    assert (info.table, info.rows, info.files) == ("own", 2, 1)
    read = lake.read(spark, "own", "study-1")
    assert read.drop("run").schema.simpleString() == own.schema.simpleString()
    assert sorted(map(tuple, read.drop("run").collect())) == sorted(map(tuple, own.collect()))
    pairs = spark.createDataFrame([(1, 2)], "publication bigint, subscription bigint")
    lake.write(pairs.coalesce(1), "matches", "study-1", kind="matched")
    run = lake.run("study-1")
    assert run.tables == ("matches", "own")
    assert (run.kind, run.seed) == ("matched, profile", None)
    by_part = {part.part: part for part in run.parts}
    assert by_part["own"].config == {"above": 0.9}
    assert by_part["own"].seed == 3
    assert before <= (by_part["own"].began or 0) <= time.time()
    assert "pyspark" in by_part["own"].versions


def test_a_run_is_replaced_only_if_asked(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    pairs = spark.createDataFrame([(1, 2)], "publication bigint, subscription bigint").coalesce(1)
    lake.write(pairs, "matches", "r", kind="matched")
    before = files(tmp_path)
    with pytest.raises(UserError, match="that table of the run is there already; expected another"):
        lake.write(pairs, "matches", "r", kind="matched")
    assert files(tmp_path) == before
    # It may be made of what it replaces.
    more = lake.read(spark, "matches", "r").drop("run").union(pairs).coalesce(1)
    lake.write(more, "matches", "r", kind="matched", seed=1, overwrite=True)
    assert lake.read(spark, "matches", "r").count() == 2
    assert lake.run("r").seed == 1
    assert not [path for path in tmp_path.glob("matches/*") if path.name != "run=r"]


def test_what_fails_leaves_nothing(spark: SparkSession, lake: Path) -> None:
    before = files(lake)
    fails = spark.range(3).select(
        functions.col("id").alias("publication"),
        functions.when(functions.col("id") == 2, functions.raise_error(functions.lit("planted")))
        .cast("bigint")
        .alias("subscription"),
    )
    with pytest.raises(Exception, match="planted"):
        Lake(lake).write(fails, "matches", "r", kind="matched")
    assert files(lake) == before
    assert "r" not in [run.name for run in Lake(lake).runs()]


def test_what_can_be_no_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    ids = spark.range(1)
    number = ids.withColumnRenamed("id", "publication")
    for frame, table, run, message in (
        (ids, "own", "a/b", "a run can't be called 'a/b'; expected letters, digits"),
        (ids, "own", "", "a run can't be called ''"),
        (ids, "own", "__HIVE_DEFAULT_PARTITION__", "a run can't be called '__HIVE"),
        (ids, "../own", "r", "a table can't be called '../own'"),
        (ids, "runs", "r", "a table can't be called 'runs'"),
        (number, "matches", "r", "the table 'matches' has no column 'subscription' (bigint)"),
        (ids.selectExpr("id AS Run"), "own", "r", "the table 'own' has a column 'run', which is"),
        (
            number.selectExpr("*", "array(1) AS x"),
            "publications",
            "r",
            "the column 'x' of the table",
        ),
    ):
        with pytest.raises(UserError) as error:
            lake.write(frame, table, run, kind="own")
        assert str(error.value).startswith(message)
    with pytest.raises(UserError, match="the seed 9223372036854775808 can't be noted"):
        lake.write(ids, "own", "r", kind="own", seed=2**63)
    (tmp_path / "own").touch()
    with pytest.raises(UserError, match="own/run=r: can't be written: Not a directory"):
        lake.write(ids, "own", "r", kind="own")
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_lake_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake("s3a://bucket/lake/")
    assert (lake.folder, lake.address) == (None, "s3a://bucket/lake")
    for work in (lake.runs, lake.tables, lambda: lake.prune(["x"])):
        with pytest.raises(UserError, match="s3a://bucket/lake: only Spark can reach it"):
            work()
    with pytest.raises(UserError, match=r"s3a://bucket/lake/links: Spark can't read it: .*S3A"):
        lake.read(spark, "links")
    ids = spark.range(2)
    with pytest.raises(
        UserError, match=r"s3a://bucket/lake/own/run=r: Spark can't write it: .*S3A"
    ):
        lake.write(ids, "own", "r", kind="own")
    with pytest.raises(UserError, match="nothing is replaced there"):
        lake.write(ids, "own", "r", kind="own", overwrite=True)
    # Spark takes the same way to a place that is at hand.
    lake.address = f"file://{tmp_path}"
    for run in ("1", "2"):
        assert lake.write(ids, "own", run, kind="own", seed=4) is None
    read = lake.read(spark, "own", ["2"])
    assert sorted(map(tuple, read.collect())) == [(0, "2"), (1, "2")]
    assert lake.read(spark, "own").count() == 4
    with pytest.raises(UserError, match=r"own/run=3: Spark can't read it: .*PATH_NOT_FOUND"):
        lake.read(spark, "own", "3")
    with pytest.raises(UserError, match=r"own/run=1: Spark can't write it: .*ALREADY_EXISTS"):
        lake.write(ids, "own", "1", kind="own")
    assert [(run.name, run.kind, run.seed) for run in Lake(tmp_path).runs()] == [
        ("1", "own", 4),
        ("2", "own", 4),
    ]


# --- pruning ----------------------------------------------------------------------------------------


def test_runs_are_pruned_by_name(lake: Path) -> None:
    trace(lake, "tree-70")
    (lake / "links" / ".run=tree-7~left").mkdir()
    before = files(lake)
    (gone,) = Lake(lake).prune(["tree-7", "tree-7"], dry_run=True)
    assert files(lake) == before
    assert gone.bytes == sum(p.stat().st_size for p in lake.glob("*/run=tree-7/*"))
    assert Lake(lake).prune(["tree-7"]) == [gone]
    assert files(lake) == {path for path in before if "run=tree-7/" not in path}
    assert not (lake / "links" / ".run=tree-7~left").exists()
    with pytest.raises(UserError, match="there is no run 'tree-7'; there are 'tree-70', 'tree-8'"):
        Lake(lake).prune(["tree-8", "tree-7"])
    Lake(lake).prune(["tree-8", "tree-70"])
    assert not list(lake.iterdir())


def test_runs_are_pruned_by_age(lake: Path) -> None:
    for path in lake.rglob("run=tree-7/*"):
        os.utime(path, (1e9, 1e9))
    assert [run.name for run in Lake(lake).prune(older_than_s=3600, dry_run=True)] == ["tree-7"]
    assert not Lake(lake).prune(older_than_s=3600, keep_last=2)
    assert [run.name for run in Lake(lake).prune(keep_last=1)] == ["tree-7"]
    assert [run.name for run in Lake(lake).runs()] == ["tree-8"]


def test_what_to_prune_has_to_be_said(lake: Path) -> None:
    for criteria, message in (
        ({}, "nothing says which runs to prune"),
        ({"keep_last": -1}, "runs to keep: -1 is below 0"),
        ({"older_than_s": float("nan")}, "the age of runs: nan is below 0"),
        ({"runs": ["tree-7"], "keep_last": 1}, "by their names or by their age"),
    ):
        with pytest.raises(UserError, match=message):
            Lake(lake).prune(**criteria)


@given(
    runs=st.dictionaries(st.text("ab", min_size=1), st.integers(0, 20).map(float)),
    keep_last=st.none() | st.integers(0, 8),
    older_than_s=st.none() | st.integers(0, 20).map(float),
)
def test_chosen_are_the_old_that_are_not_among_the_last(
    runs: dict[str, float], keep_last: int | None, older_than_s: float | None
) -> None:
    now = 20.0
    if keep_last is None and older_than_s is None:
        return
    found = chosen(list(runs.items()), keep_last=keep_last, older_than_s=older_than_s, now=now)

    def is_kept(name: str) -> bool:
        newer = [other for other in runs if (runs[other], other) > (runs[name], name)]
        return keep_last is not None and len(newer) < keep_last

    def is_old(name: str) -> bool:
        return older_than_s is None or now - runs[name] > older_than_s

    assert sorted(found) == sorted(name for name in runs if is_old(name) and not is_kept(name))
    assert [runs[name] for name in found] == sorted(runs[name] for name in found)
