"""Joins the segments of an hour into one file, sorted by time.

A broker that records for a day leaves 1,440 files a table, each with a footer to be read. Those of a broker
that follow each other and begin in the same hour become one file, whose name has the range of their numbers
(see `segments`): it stands for them from the moment that it is there, and they are removed after. So whoever
is killed meanwhile leaves files that are passed over, and the next one removes them.

Segments follow each other in time, so that they are sorted one by one: an hour need not fit into memory. Only
where a clock was set back do several have to be sorted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roost.errors import UserError
from roost.traces.reader import read_table
from roost.traces.run import hidden, open_anew
from roost.traces.schemas import SCHEMAS
from roost.traces.segments import Span, span_of, superseded
from roost.traces.table_file import parquet_writer

HOUR_S = 3_600.0
# A file is read a group at a time, by as many tasks as it has groups.
ROWS_A_GROUP = 1_000_000
TIME = "time"


class Segment(NamedTuple):
    """A file, and the times of its rows; an empty one has those of nobody."""

    path: Path
    span: Span
    first_s: float
    last_s: float


def join_segments(folder: Path) -> tuple[int, int]:
    """Joins what can be joined of a table of a run: how many files there were, and are.

    OSError if something can't be written, and a `UserError` names a segment that is damaged.
    """
    names = {path.name for path in folder.glob("part-*.parquet")}
    before = len(names)
    gone = superseded(names)
    for name in gone:
        (folder / name).unlink()
    names -= gone
    after = len(names)
    spans = [span for name in names if (span := span_of(name)) is not None]
    found = [_segment(folder / span.name, span) for span in sorted(spans)]
    for _, group in groupby(found, key=lambda s: (s.span.part, s.first_s // HOUR_S)):
        segments = list(group)
        if len(segments) > 1:
            _join(segments)
            after -= len(segments) - 1
    return before, after


def _segment(path: Path, span: Span) -> Segment:
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        raise UserError(
            f"{path}: not a whole Parquet file; expected a segment of a trace"
        ) from None
    column = footer.schema.to_arrow_schema().get_field_index(TIME)
    if column < 0:
        raise UserError(f"{path}: no column {TIME!r}; expected a segment of a trace")
    groups = [footer.row_group(number).column(column) for number in range(footer.num_row_groups)]
    times = [group.statistics for group in groups if group.statistics is not None]
    if not times:
        return Segment(path, span, 0.0, 0.0)
    return Segment(path, span, min(each.min for each in times), max(each.max for each in times))


def _join(segments: Sequence[Segment]) -> None:
    """One file in place of several."""
    table = segments[0].path.parent.parent.name
    whole = Span(segments[0].span.part, segments[0].span.first, segments[-1].span.last)
    target = segments[0].path.with_name(whole.name)
    try:
        with (
            open_anew(hidden(target)) as file,
            parquet_writer(file, SCHEMAS[table]) as writer,
        ):
            for rows in _in_groups(_sorted(segments), SCHEMAS[table]):
                writer.write_table(rows, row_group_size=ROWS_A_GROUP)
        hidden(target).replace(target)
    finally:
        hidden(target).unlink(missing_ok=True)
    for segment in segments:
        segment.path.unlink()


def _sorted(segments: Sequence[Segment]) -> Iterator[pa.Table]:
    """All rows by time; segments that overlap are in memory together."""
    together: list[Segment] = []
    for segment in sorted(segments, key=lambda segment: (segment.first_s, segment.span)):
        if together and segment.first_s > max(each.last_s for each in together):
            yield _rows(together)
            together = []
        together.append(segment)
    yield _rows(together)


def _rows(segments: Sequence[Segment]) -> pa.Table:
    # Rows of the same time stay as they were: in the order of the segments.
    ordered = sorted(segments, key=lambda segment: segment.span)
    rows = pa.concat_tables([read_table(segment.path) for segment in ordered])
    numbered = rows.append_column("#", pa.array(np.arange(len(rows))))
    return numbered.sort_by([(TIME, "ascending"), ("#", "ascending")]).drop_columns(["#"])


def _in_groups(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in fewer tables."""
    gathered = [schema.empty_table()]
    for rows in tables:
        gathered.append(rows)
        if sum(map(len, gathered)) >= ROWS_A_GROUP:
            yield pa.concat_tables(gathered)
            gathered = [schema.empty_table()]
    yield pa.concat_tables(gathered)
