"""Reading from a federation: `spark.readStream.format("roost")`, and what waits now with `spark.read`.

The stream reader lives in one process beside the driver, which has the connection. It knows the events of a
batch when the batch is planned, so they travel to the tasks within the partitions, in order: a task needs
no connection, and a task that is tried again reads the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from roost.pipeline.source.feed import Feed, Offset, offset_of
from roost.pipeline.source.options import Reading
from roost.pipeline.source.rows import Numbered, check_source_schema, rows_of

# A task costs some milliseconds, however few rows it has.
EVENTS_A_PARTITION = 500
# Behind so many unacknowledged events a broker keeps the rest in its store, by default.
WINDOW = 10_000
# So many batches are looked ahead, to say how far the query lags behind.
AHEAD = 2


class Rows(InputPartition):
    """Some of the events of a batch, as rows."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        super().__init__(sink.getvalue().to_pybytes())

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from pa.ipc.open_stream(self.value)


def partitions_of(
    events: Sequence[Numbered], schema: StructType, most: int
) -> list[InputPartition]:
    """The events in so many partitions at most, which taken one after the other are in order."""
    count = max(1, min(most, len(events) // EVENTS_A_PARTITION))
    bounds = [len(events) * i // count for i in range(count + 1)]
    return [Rows(rows_of(events[first:last], schema)) for first, last in pairwise(bounds)]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Events of a durable subscription as they come; offsets are their numbers (see `Feed`)."""

    def __init__(self, options: Reading, schema: StructType) -> None:
        check_source_schema(schema)
        self._options = options
        self._schema = schema
        self._feed = Feed(options)
        self._available_since: float | None = (
            None  # Trigger.AvailableNow: only what waits since then
        )
        self._target: Offset | None = None  # and when that is known, up to which event

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset().as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.events_a_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available_since = time.time()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far a batch may go that begins there. Spark has committed everything before."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.events_a_batch
        begin = offset_of(start)
        if self._available_since is not None and self._target is None:
            self._feed.begin(begin)
            if self._feed.pull_waiting(most, self._available_since):
                self._target = self._feed.last() or begin
        latest = self._feed.latest(begin, most, self._target)
        if self._target is not None and latest.place == begin.place:
            # That was all. Spark ends this process next, and does not wait for what it has still to say:
            # the acknowledgements of the last batch are said now.
            self._feed.close()
        return latest.as_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far one could read: up to the last event that has come, which shows the lag of the query."""
        newest = self._feed.newest(AHEAD * self._options.events_a_batch)
        return None if newest is None else newest.as_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        events = self._feed.between(offset_of(start), offset_of(end))
        return partitions_of(events, self._schema, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return partition.read()

    def commit(self, end: dict[str, Any]) -> None:
        self._feed.begin(offset_of(end))

    def stop(self) -> None:
        self._feed.close()


class BatchReader(DataSourceReader):
    """What waits for a durable subscription when the query is planned.

    Unless `acknowledge` is set it all comes again the next time, and then as much of it as the broker sends
    without an acknowledgement. With it, it is the query's from that moment on, whatever becomes of the query.
    """

    def __init__(self, options: Reading, schema: StructType) -> None:
        check_source_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        feed = Feed(self._options)
        events: list[Numbered] = []
        since = time.time()
        try:
            is_all = False
            while not is_all:
                is_all = feed.pull_waiting(WINDOW, since)
                events += feed.take(acknowledge=self._options.acknowledge)
        finally:
            feed.close()
        return partitions_of(events, self._schema, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return partition.read()
