"""`roost lake`, over runs that were simulated."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roost.pipeline.lake import Lake
from roost.traces import SCHEMAS
from roost.traces.rows import LinkRow
from roost.traces.segments import SegmentWriter
from tests.cli.support import Ran, Roost

WORKLOAD = """\
0 broker add B0 1 16 10
1 subscriber add S1 B0 class = 'STOCK'
2 publisher add P1 YHOO 60 B0
20 end
"""
TABLES = ("decisions", "deliveries", "interests", "links", "loads", "measures")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roost: Roost) -> Path:
    """With a lake of two runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOST_LAKE", raising=False)
    (tmp_path / "one.workload").write_text(WORKLOAD)
    for seed in (1, 2):
        assert roost("sim", "run", "one.workload", "--trace", "lake", "--seed", seed).code == 0
    for path in tmp_path.rglob("run=one-1/*"):
        os.utime(path, (1e9, 1e9))
    return tmp_path


def refused(ran: Ran, message: str) -> None:
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err


def test_recorded_runs_are_compacted(roost: Roost, folder: Path) -> None:
    assert roost("lake", "compact").out == "no run has files to be joined\n"
    writer = SegmentWriter(folder / "lake", "live", part="B0", now=0.0)
    for time in (1.0, 2.0, 3.0):
        row = LinkRow(time, "B0", "B1", class_="data", sent=1, received=1, waiting=0)
        writer.add("links", row)
        writer.next_segment(0.0)
    writer.close()
    ran = roost("lake", "compact", "live")
    counts = re.fullmatch(r"live: (\d+) files of (\d+)\n", ran.out)
    assert counts is not None
    assert int(counts[2]) - int(counts[1]) == 2
    assert roost("lake", "compact", "live", "--json").json["runs"] == [
        {"name": "live", "files_before": int(counts[1]), "files": int(counts[1])}
    ]
    refused(roost("lake", "compact", "life"), "there is no run 'life'; there are 'live', ")


def test_runs_are_listed(roost: Roost, folder: Path) -> None:
    ran = roost("lake", "list")
    assert (ran.code, ran.err) == (0, "")
    head, first, second = (line.split() for line in ran.out.splitlines())
    assert head == ["run", "kind", "seed", "rows", "size", "written", "tables"]
    assert first[:3] == ["one-1", "simulated", "1"]
    assert first[-12::2] == [f"{name}" for name in TABLES]
    assert second[:3] == ["one-2", "simulated", "2"]
    whole = roost("lake", "list", "--json").json
    assert whole["lake"] == str(folder / "lake")
    assert [run["run"] for run in whole["runs"]] == ["one-1", "one-2"]
    run = whole["runs"][0]
    assert (run["kind"], run["seed"], run["written"], run["problem"]) == ("simulated", 1, 1e9, "")
    infos = {info.table: info for info in Lake(folder / "lake").tables("one-1")}
    assert {table["table"]: table["rows"] for table in run["tables"]} == {
        name: info.rows for name, info in infos.items()
    }
    assert run["rows"] == sum(info.rows for info in infos.values()) > 10
    assert run["bytes"] == sum(info.bytes for info in infos.values())
    assert run["parts"][0]["config"]["workload"] == "one.workload"


def test_which_lake(roost: Roost, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "lake").rename(folder / "traces")
    refused(roost("lake", "list"), f"{folder / 'lake'}: there is no such folder; expected a lake")
    assert len(roost("lake", "list", "traces", "--json").json["runs"]) == 2
    assert len(roost("lake", "list", "--lake", "traces", "--json").json["runs"]) == 2
    monkeypatch.setenv("ROOST_LAKE", "traces")
    assert roost("lake", "show", "one-1").code == 0
    refused(roost("lake", "list", "hdfs://x/y"), "hdfs://x/y: only Spark can reach it")
    (folder / "empty").mkdir()
    assert roost("lake", "list", "empty").out == f"{folder / 'empty'} has no runs\n"


def test_a_file_that_is_none_is_told(roost: Roost, folder: Path) -> None:
    broken = folder / "lake" / "links" / "run=one-2" / "part-0.parquet"
    broken.write_bytes(b"rubbish")
    ran = roost("lake", "list")
    assert ran.code == 0
    assert f"  {broken}: not a whole Parquet file\n" in ran.out
    (run,) = [run for run in roost("lake", "list", "--json").json["runs"] if run["run"] == "one-2"]
    assert [table["problem"] for table in run["tables"] if table["table"] == "links"] == [
        f"{broken}: not a whole Parquet file"
    ]
    refused(
        roost("lake", "sample", "links", "--run", "one-2"),
        f"{broken}: not a whole Parquet file; expected a Parquet file of the table 'links'",
    )


def test_a_run_is_shown(roost: Roost) -> None:
    ran = roost("lake", "show", "one-1")
    assert (ran.code, ran.err) == (0, "")
    said = " ".join(ran.out.split())
    assert said.startswith("one-1: simulated, written 2001-09-09 ")
    assert "decisions: 0 rows, 1 file, 1.0 kB time double, broker string, module string" in said
    assert 'part 0: simulated, seed 1 config {"workload": "one.workload", "sha256": "' in said
    assert 'versions {"roost": ' in said
    whole = roost("lake", "show", "one-1", "--json").json
    by_name = {table["table"]: table for table in whole["tables"]}
    assert by_name["links"]["columns"] == {x.name: str(x.type) for x in SCHEMAS["links"]}
    assert whole["parts"][0]["seed"] == 1
    refused(roost("lake", "show", "one1"), "there is no run 'one1'; there are 'one-1', 'one-2'")


def test_rows_are_shown(roost: Roost, folder: Path) -> None:
    ran = roost("lake", "sample", "deliveries", "--rows", 7)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "deliveries of one-2"
    assert lines[1].split() == ["column", "type", "1", "2", "3", "4", "5"]
    assert lines[4].split() == ["sequence", "int64", "1", "2", "3", "4", "5"]
    assert ["sequence", "int64", "6", "7"] in [line.split() for line in lines]
    whole = roost("lake", "sample", "deliveries", "--run", "one-1", "--rows", 2, "--json").json
    path = folder / "lake" / "deliveries" / "run=one-1" / "part-0.parquet"
    expected = pq.read_table(path, partitioning=None)[:2].to_pylist()
    assert (whole["run"], whole["rows"]) == ("one-1", expected)
    refused(
        roost("lake", "sample", "delivery"), "there is no table 'delivery'; there are 'deliveri"
    )
    refused(roost("lake", "sample", "links", "--run", "x"), "there is no run of the table 'links'")


def test_any_value_is_shown(roost: Roost, folder: Path) -> None:
    path = folder / "lake" / "own" / "run=r" / "x.parquet"
    path.parent.mkdir(parents=True)
    row = {
        "n": float("nan"),
        "b": b"\1",
        "l": [{"x": 1, "y": None}],
        "t": None,
        "f": True,
        "s": "[a]",
    }
    pq.write_table(pa.Table.from_pylist([row]), path)
    (shown,) = roost("lake", "sample", "own", "--json").json["rows"]
    assert shown == {**row, "n": "nan", "b": "01"}
    lines = [line.split() for line in roost("lake", "sample", "own").out.splitlines()]
    assert ["s", "string", "[a]"] in lines
    assert ["n", "double", "nan"] in lines
    assert ["f", "bool", "true"] in lines
    assert roost("lake", "show", "r").out.startswith("r: unknown, written ")


def test_runs_are_pruned(roost: Roost, folder: Path) -> None:
    ran = roost("lake", "prune", "--older-than", "30d")
    assert (ran.code, ran.err) == (0, "")
    run, summary = ran.out.splitlines()
    assert run.startswith("one-1 (")
    assert summary.startswith("1 would be removed, ")
    assert len(Lake(folder / "lake").runs()) == 2
    assert roost("lake", "prune", "--older-than", "1w", "--keep-last", 2).out == "no run is to go\n"
    ran = roost("lake", "prune", "--keep-last", 1, "--yes", "--json")
    assert (ran.json["removed"], [run["name"] for run in ran.json["runs"]]) == (True, ["one-1"])
    assert ran.json["bytes"] > 1000
    assert [run.name for run in Lake(folder / "lake").runs()] == ["one-2"]
    assert "1 removed, " in roost("lake", "prune", "one-2", "--yes").out
    assert not Lake(folder / "lake").runs()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing says which runs to prune; expected names, how many to keep, or an age"),
        (("--older-than", "soon"), "--older-than: 'soon' is no age; expected one such as 30d"),
        (("one-1", "--keep-last", "1"), "by their names or by their age"),
        (("one-3", "--yes"), "there is no run 'one-3'; there are 'one-"),
    ],
)
def test_what_cannot_be_pruned(roost: Roost, folder: Path, words: tuple[str], message: str) -> None:
    refused(roost("lake", "prune", *words), message)
    assert len(Lake(folder / "lake").runs()) == 2
