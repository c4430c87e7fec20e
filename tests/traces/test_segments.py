"""Segments: what is shown stays, what is killed loses one, and names say what counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import UserError
from roost.traces import About, joining, read_table
from roost.traces.joining import join_segments
from roost.traces.rows import LinkRow
from roost.traces.run import safe_name
from roost.traces.schemas import traced_tables
from roost.traces.segments import SegmentWriter, Span, span_of, superseded

ROW = LinkRow(10.0, "B0", "B1", class_="data", sent=7, received=7, waiting=0)


def writer(folder: Path, now: float = 0.0, part: str = "B0", **settings: Any) -> SegmentWriter:
    return SegmentWriter(folder, "r", part=part, now=now, about=About("live"), **settings)


def names(folder: Path, table: str = "links") -> list[str]:
    return sorted(path.name for path in (folder / table / "run=r").glob("part-*"))


def times(folder: Path) -> list[float]:
    folder = folder / "links" / "run=r"
    there = {path.name for path in folder.glob("part-*")}
    paths = sorted(folder / name for name in there - superseded(there))
    return [time for path in paths for time in read_table(path)["time"].to_pylist()]


def record(trace: SegmentWriter, *at: float) -> None:
    for time in at:
        trace.add("links", ROW._replace(time=time))


# --- writing ----------------------------------------------------------------------------------------


def test_a_segment_is_shown_when_it_had_its_time(tmp_path: Path) -> None:
    trace = writer(tmp_path, 100.0)
    record(trace, 1.0)
    trace.look(159.9)
    assert names(tmp_path) == []
    trace.look(160.0)
    assert names(tmp_path) == ["part-B0-000001.parquet"]
    assert all(names(tmp_path, table) == names(tmp_path) for table in traced_tables(content=False))
    record(trace, 2.0)
    trace.look(219.9)
    assert times(tmp_path) == [1.0]
    trace.look(220.0)
    # Only where there are rows.
    assert names(tmp_path) == ["part-B0-000001.parquet", "part-B0-000002.parquet"]
    assert names(tmp_path, "loads") == ["part-B0-000001.parquet"]
    trace.close()
    assert times(tmp_path) == [1.0, 2.0]


def test_a_segment_is_shown_when_it_has_its_rows(tmp_path: Path) -> None:
    trace = writer(tmp_path, segment_rows=5, rows_a_group=2)
    record(trace, 1.0, 2.0, 3.0, 4.0)
    trace.look(0.0)
    assert names(tmp_path) == []
    record(trace, 5.0)
    trace.look(0.0)
    assert times(tmp_path) == [1.0, 2.0, 3.0, 4.0, 5.0]
    trace.close()


def test_who_comes_back_goes_on(tmp_path: Path) -> None:
    first = writer(tmp_path)
    record(first, 1.0)
    first.next_segment(0.0)
    record(first, 2.0)
    first.close()
    second = writer(tmp_path)
    assert second.number == 3
    record(second, 3.0)
    second.close()
    other = writer(tmp_path, part="B0-000007")
    assert other.number == 1
    other.close()
    ours = [name for name in names(tmp_path) if "000007" not in name]
    assert ours == [f"part-B0-00000{number}.parquet" for number in (1, 2, 3)]
    # What each life was: a row.
    lives = [name for name in names(tmp_path, "runs") if span_of(name).part == "B0"]  # type: ignore[union-attr]
    assert lives == ["part-B0-000001.parquet", "part-B0-000003.parquet"]


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.traces.test_segments import record, writer
trace = writer(Path(sys.argv[1]), rows_a_group=2)
record(trace, 1.0, 2.0, 3.0)
trace.next_segment(0.0)
record(trace, 4.0, 5.0, 6.0)  # of which two are in a file that has no end
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_who_is_killed_loses_the_open_segment(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ran.returncode == -9
    assert times(tmp_path) == [1.0, 2.0, 3.0]
    left = tmp_path / "links" / "run=r" / ".part-B0-000002.parquet.writing"
    assert left.exists()
    again = writer(tmp_path)
    assert not left.exists()
    record(again, 7.0)
    again.close()
    assert times(tmp_path) == [1.0, 2.0, 3.0, 7.0]


def test_two_cannot_write_the_same_part(tmp_path: Path) -> None:
    first = writer(tmp_path)
    with pytest.raises(UserError, match="another process is recording 'B0' in the run 'r'"):
        writer(tmp_path)
    writer(tmp_path, part="B1").close()
    first.close()
    writer(tmp_path).close()


def test_what_cannot_be_written_is_told_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="can't be written: Not a directory"):
        writer(tmp_path / "file")
    trace = writer(tmp_path)
    record(trace, 1.0)
    trace.next_segment(0.0)
    record(trace, 2.0)
    # Nobody can take this name any more.
    (tmp_path / "links" / "run=r" / "part-B0-000002.parquet" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        trace.close()
    assert pq.read_metadata(tmp_path / "links/run=r/part-B0-000001.parquet").num_rows == 1
    assert not list(tmp_path.rglob("*.writing"))
    trace.close()


# --- names ------------------------------------------------------------------------------------------


@given(st.text(max_size=100), st.integers(1, 10**7), st.integers(0, 10**7))
def test_names_say_what_a_file_holds(part: str, first: int, more: int) -> None:
    span = Span(safe_name(part) or "x", first, first + more)
    assert span_of(span.name) == span


def test_other_names_are_no_segments() -> None:
    for name in ("part-0.parquet", "part-00000-0a-c000.snappy.parquet", "part-B0-17.parquet", "x"):
        assert span_of(name) is None


def test_joined_segments_stand_for_theirs() -> None:
    whole, inner = "part-B0-000001_000060.parquet", "part-B0-000003_000009.parquet"
    others = ["part-B0-000061.parquet", "part-B1-000002.parquet", "part-0.parquet", "README"]
    inside = [inner, "part-B0-000001.parquet", "part-B0-000060.parquet"]
    assert superseded([*inside, whole, *others]) == set(inside)
    assert superseded(others) == set()


# --- joining ----------------------------------------------------------------------------------------


def hours(folder: Path, *segments: tuple[float, ...], part: str = "B0") -> None:
    trace = writer(folder, part=part)
    for segment in segments:
        record(trace, *segment)
        trace.next_segment(0.0)
    trace.close()


def test_segments_of_an_hour_are_joined(tmp_path: Path) -> None:
    hours(tmp_path, (10.0, 20.0), (30.0,), (3_599.0, 3_601.0), (3_700.0,), (3_800.0,))
    hours(tmp_path, (15.0,), (16.0,), part="B1")
    folder = tmp_path / "links" / "run=r"
    assert join_segments(folder) == (7, 3)
    assert names(tmp_path) == [
        "part-B0-000001_000003.parquet",
        "part-B0-000004_000005.parquet",
        "part-B1-000001_000002.parquet",
    ]
    assert times(tmp_path) == [10.0, 20.0, 30.0, 3_599.0, 3_601.0, 3_700.0, 3_800.0, 15.0, 16.0]
    assert join_segments(folder) == (3, 3)
    # What comes later joins what was joined; numbers go on.
    hours(tmp_path, (3_900.0,))
    assert join_segments(folder) == (4, 3)
    assert names(tmp_path)[1] == "part-B0-000004_000006.parquet"


def test_rows_are_sorted_also_if_a_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "ROWS_A_GROUP", 3)
    hours(tmp_path, (10.0, 50.0), (40.0, 20.0), (60.0,), (70.0, 65.0), (80.0,))
    # Another hour in between: those around it are not in one range.
    hours(tmp_path, (4_000.0,), (90.0,), (95.0,))
    join_segments(tmp_path / "links" / "run=r")
    spans = [span_of(name) for name in names(tmp_path)]
    assert [span and (span.first, span.last) for span in spans] == [(1, 5), (6, 6), (7, 8)]
    assert times(tmp_path) == [10, 20, 40, 50, 60, 65, 70, 80, 4_000, 90, 95]
    groups = pq.ParquetFile(tmp_path / "links" / "run=r" / names(tmp_path)[0]).num_row_groups
    assert groups < 5


def test_whoever_was_killed_while_joining_is_no_matter(tmp_path: Path) -> None:
    hours(tmp_path, (1.0,), (2.0,))
    folder = tmp_path / "links" / "run=r"
    before = {path: path.read_bytes() for path in folder.glob("part-*")}
    join_segments(folder)
    for path, data in before.items():
        path.write_bytes(data)
    assert times(tmp_path) == [1.0, 2.0]
    assert join_segments(folder) == (3, 1)
    assert names(tmp_path) == ["part-B0-000001_000002.parquet"]


def test_a_damaged_segment_is_told(tmp_path: Path) -> None:
    hours(tmp_path, (1.0,), (2.0,))
    folder = tmp_path / "links" / "run=r"
    (folder / "part-B0-000002.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"part-B0-000002.parquet: not a whole Parquet file"):
        join_segments(folder)
    assert len(names(tmp_path)) == 2
