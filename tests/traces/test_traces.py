"""Trace tables: what is written is read back, and what is none is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roost.errors import UserError
from roost.traces import SCHEMAS, About, TraceWriter, read_table
from roost.traces.rows import LinkRow
from roost.traces.run import safe_name, versions
from roost.traces.schemas import traced_tables

LINKS = [
    LinkRow(10.0, "B0", "B1", class_="control", sent=5, received=4, waiting=1),
    LinkRow(10.0, "B0", "B1", class_="data", sent=7, received=7, waiting=0),
]


def write(folder: Path, run: str = "r") -> dict[str, Path]:
    with TraceWriter(folder, run) as trace:
        for row in LINKS:
            trace.add("links", row)
    return trace.paths


def refused(path: Path) -> str:
    with pytest.raises(UserError) as error:
        read_table(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_rows_are_read_back(tmp_path: Path) -> None:
    paths = write(tmp_path)
    assert list(paths) == [*traced_tables(content=False), "runs"]
    assert list(SCHEMAS) == [*traced_tables(content=True), "runs"]
    table = read_table(paths["links"])
    assert table.schema.equals(SCHEMAS["links"])
    assert [tuple(row.values()) for row in table.to_pylist()] == LINKS
    assert read_table(paths["loads"]).num_rows == 0


def test_a_trace_of_before_a_column_was_added_is_read(tmp_path: Path) -> None:
    path = write(tmp_path)["links"]
    whole = pq.read_table(path, partitioning=None)
    for gone in (["life"], ["queueing_s", "life"]):
        pq.write_table(whole.drop_columns(gone), path)
        table = read_table(path)
        assert table.schema.equals(SCHEMAS["links"])
        rows = [row | {"life": 0} for row in table.to_pylist()]
        assert [tuple(row.values()) for row in rows] == LINKS
        assert table["life"].null_count == len(LINKS)
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["waiting"]), path)
    assert refused(path).startswith("no column 'waiting'")


def test_a_run_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    first = write(tmp_path)["links"].read_bytes()
    other = write(tmp_path, "s")["links"]
    assert write(tmp_path)["links"].read_bytes() == first == other.read_bytes()
    assert sorted(p.name for p in (tmp_path / "links").iterdir()) == ["run=r", "run=s"]


def test_many_rows_are_several_groups(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "r") as trace:
        for number in range(120_000):
            trace.add("links", LINKS[0]._replace(time=float(number)))
    path = trace.paths["links"]
    assert pq.ParquetFile(path).num_row_groups == 3
    assert read_table(path)["time"].to_pylist() == [float(n) for n in range(120_000)]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="can't be written: Not a directory"):
        TraceWriter(tmp_path / "file", "r")


def test_what_the_run_was_is_noted(tmp_path: Path) -> None:
    about = About("live", 7, {"broker": "B0", "bounds": [1, None]}, 12.5)
    with TraceWriter(tmp_path, "r", part="B0", about=about) as trace:
        pass
    (row,) = read_table(trace.paths["runs"]).to_pylist()
    assert (row["part"], row["kind"], row["seed"], row["began"]) == ("B0", "live", 7, 12.5)
    assert msgspec.json.decode(row["config"]) == {"broker": "B0", "bounds": [1, None]}
    assert msgspec.json.decode(row["versions"]) == versions()
    (row,) = read_table(write(tmp_path, "s")["runs"]).to_pylist()
    assert (row["kind"], row["seed"], row["config"], row["began"]) == ("unknown", None, "{}", None)


def test_parts_of_a_run_stand_side_by_side(tmp_path: Path) -> None:
    """Whatever the brokers are called."""
    names = ["B0", "b/0", "b-0", "b 0", "..", "ä" * 100, "ä" * 101, "x" * 300]
    for name in names:
        with TraceWriter(tmp_path, "r", part=name) as trace:
            trace.add("links", LINKS[0]._replace(broker=name))
    folder = tmp_path / "links" / "run=r"
    assert {path.parent for path in tmp_path.glob("links/**/*.parquet")} == {folder}
    found = [read_table(path)["broker"].to_pylist() for path in folder.iterdir()]
    assert sorted(found) == sorted([name] for name in names)
    assert [safe_name(name) for name in ("B0", "b-0")] == ["B0", "b-0"]


def test_a_trace_is_there_when_it_is_whole(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "r") as trace:
        trace.add("links", LINKS[0])
        assert not list(tmp_path.rglob("*.parquet"))
    assert sorted(tmp_path.rglob("*.*")) == sorted(trace.paths.values())


def test_what_is_broken_off_leaves_what_was(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        with TraceWriter(folder, "r") as trace:
            trace.add("links", LINKS[1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken(tmp_path)
    assert not list(tmp_path.iterdir())
    before = {path: path.read_bytes() for path in write(tmp_path).values()}
    with pytest.raises(KeyboardInterrupt):
        broken(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_trace_that_cannot_be_completed_is_none(tmp_path: Path) -> None:
    trace = TraceWriter(tmp_path, "r")
    trace.add("links", LINKS[0])
    # Nobody can take this name any more.
    (trace.paths["deliveries"] / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        trace.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    trace.close()


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 201, "é", "__HIVE_DEFAULT_PARTITION__"])
def test_names_that_are_none_of_a_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="a run can't be called"):
        TraceWriter(tmp_path, name)
    assert not list(tmp_path.iterdir())


def test_a_seed_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the seed 9223372036854775808 can't be noted in the table"):
        TraceWriter(tmp_path, "r", about=About("simulated", 2**63))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path)["links"]
    path.write_bytes(path.read_bytes()[:kept])
    assert refused(path) == "not a whole Parquet file; expected a trace of links"


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)["links"]
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    assert "damaged" in refused(path) or "not a whole Parquet file" in refused(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path)["links"]
    path.write_text("time,broker\n1,B0\n")
    assert refused(path) == "not a whole Parquet file; expected a trace of links"
    path.unlink()
    assert refused(path) == "No such file or directory; expected a trace of links"
    stray = tmp_path / "links.parquet"
    assert refused(stray).startswith("not in the folder of a trace table; expected TABLE/run=NAME/")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (SCHEMAS["loads"], "column 3 is 'input_utilisation' (double); expected 'neighbour' (str"),
        (pa.schema([("time", pa.int64())]), "column 1 is 'time' (int64); expected 'time' (double)"),
        (pa.schema(list(SCHEMAS["links"])[:6]), "no column 'waiting'; expected a trace of links"),
        (SCHEMAS["links"].append(pa.field("x", pa.int8())), "a column 'x' too many; expected a tr"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, schema: pa.Schema, message: str) -> None:
    path = write(tmp_path)["links"]
    pq.write_table(schema.empty_table(), path)
    assert refused(path).startswith(message)
