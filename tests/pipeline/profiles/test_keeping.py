"""What was computed from a segment is not computed again, and joined segments are no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roost.errors import UserError
from roost.pipeline.lake import Lake
from roost.pipeline.profiles import keep, kept, loads_over_time
from roost.pipeline.profiles.keeping import Made, pending, table_of
from roost.relocation.collecting import NO_LOAD
from roost.traces import TraceWriter
from roost.traces.rows import load_row
from roost.traces.segments import SegmentWriter
from tests.pipeline.profiles.runs import rows

PROFILE = loads_over_time(10)


def segments(lake: Path, *times: float) -> None:
    writer = SegmentWriter(lake, "live", part="B0", now=0.0)
    for time in times:
        writer.add("loads", load_row(time, "B0", NO_LOAD))
        writer.next_segment(0.0)
    writer.close()


def samples(spark: SparkSession, lake: Path) -> dict[float, int]:
    found = rows(kept(spark, Lake(lake), PROFILE, "live"))
    return {row["since"]: row["samples"] for row in found}


def test_only_new_segments_are_read(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    segments(tmp_path, 1.0, 2.0, 11.0)
    with pytest.raises(UserError, match="has not been computed"):
        kept(spark, lake, PROFILE, "live")
    # The three, and what is empty at the end.
    assert keep(spark, lake, PROFILE, "live").files == 3
    assert samples(spark, tmp_path) == {0.0: 2, 10.0: 1}
    assert keep(spark, lake, PROFILE, "live").files == 0
    segments(tmp_path, 12.0, 13.0)
    again = keep(spark, lake, PROFILE, "live")
    assert (again.files, again.batches) == (2, 2)
    assert samples(spark, tmp_path) == {0.0: 2, 10.0: 3}
    assert [part.kind for part in lake.run("live").parts if part.part == table_of(PROFILE)] == [
        "profile"
    ]
    # Joined, they are what they were; with one that is new among them, all is made anew.
    lake.compact(["live"])
    assert keep(spark, lake, PROFILE, "live").files == 0
    segments(tmp_path, 21.0)
    lake.compact(["live"])
    last = keep(spark, lake, PROFILE, "live")
    assert (last.files, last.batches) == (1, 1)
    assert samples(spark, tmp_path) == {0.0: 2, 10.0: 3, 20.0: 1}


def test_a_run_that_was_written_anew_is_computed_anew(spark: SparkSession, tmp_path: Path) -> None:
    for count in (1, 300):
        with TraceWriter(tmp_path, "live") as trace:
            for number in range(count):
                trace.add("loads", load_row(number / 100, "B0", NO_LOAD))
        assert keep(spark, Lake(tmp_path), PROFILE, "live").files == 1
        assert samples(spark, tmp_path) == {0.0: count}


def test_a_file_that_is_no_batch_is_told(spark: SparkSession, tmp_path: Path) -> None:
    segments(tmp_path, 1.0)
    keep(spark, Lake(tmp_path), PROFILE, "live")
    (batch,) = (tmp_path / table_of(PROFILE) / "run=live").iterdir()
    pq.write_table(pq.ParquetFile(batch).read().replace_schema_metadata({}), batch)
    with pytest.raises(UserError, match="not a batch of a profile"):
        keep(spark, Lake(tmp_path), PROFILE, "live")


def made(*numbers: int | tuple[int, int]) -> Made:
    spans = [n if isinstance(n, tuple) else (n, n) for n in numbers]
    return Made({}, tuple((name(*span), 1) for span in spans))


def name(first: int, last: int) -> str:
    return f"part-B0-{first:06}{'' if first == last else f'_{last:06}'}.parquet"


@pytest.mark.parametrize(
    ("files", "batches", "todo", "stale"),
    [
        ([(1, 1), (2, 2)], [], [(1, 1), (2, 2)], []),
        ([(1, 1), (2, 2)], [[1]], [(2, 2)], []),
        ([(1, 3)], [[1, 2], [3]], [], []),
        # A part of it is new.
        ([(1, 3)], [[1, 2]], [(1, 3)], [0]),
        # A batch that is not valid had another segment, too.
        ([(1, 3), (4, 4), (5, 5)], [[1, 4], [5]], [(1, 3), (4, 4)], [0]),
        # Joined again.
        ([(1, 6)], [[(1, 3)], [4, 5, 6]], [], []),
        # What is between may have been there: nobody knows.
        ([(1, 3)], [[1, 3]], [(1, 3)], [0]),
    ],
)
def test_what_is_to_do(
    tmp_path: Path,
    files: Sequence[tuple[int, int]],
    batches: Sequence[Sequence[int | tuple[int, int]]],
    todo: Sequence[tuple[int, int]],
    stale: Sequence[int],
) -> None:
    known = {str(n): made(*numbers) for n, numbers in enumerate(batches)}
    found = pending([tmp_path / name(*span) for span in files], known)
    assert [path.name for path in found[0]] == [name(*span) for span in todo]
    assert found[1] == [str(n) for n in stale]
