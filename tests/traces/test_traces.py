"""Trace tables: what is written is read back, and what is none is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roost.errors import UserError
from roost.traces import SCHEMAS, TraceWriter, read_table

LINKS = [(10.0, "B0", "B1", "control", 5, 4, 1), (10.0, "B0", "B1", "data", 7, 7, 0)]


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
    assert list(paths) == list(SCHEMAS)
    table = read_table(paths["links"])
    assert table.schema.equals(SCHEMAS["links"])
    assert [tuple(row.values()) for row in table.to_pylist()] == LINKS
    assert read_table(paths["loads"]).num_rows == 0


def test_a_run_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    first = write(tmp_path)["links"].read_bytes()
    other = write(tmp_path, "s")["links"]
    assert write(tmp_path)["links"].read_bytes() == first == other.read_bytes()
    assert sorted(p.name for p in (tmp_path / "links").iterdir()) == ["run=r", "run=s"]


def test_many_rows_are_several_groups(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "r") as trace:
        for number in range(120_000):
            trace.add("links", (float(number), *LINKS[0][1:]))
    path = trace.paths["links"]
    assert pq.ParquetFile(path).num_row_groups == 3
    assert read_table(path)["time"].to_pylist() == [float(n) for n in range(120_000)]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="can't be written: Not a directory"):
        TraceWriter(tmp_path / "file", "r")


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
