"""Reading from a federation: `spark.readStream.format("roost")`, and what waits now with `spark.read`.

The stream reader lives in one process beside the driver, which has the connection. It knows the events of a
batch when the batch is planned, so they travel to the tasks within the partitions, in order: a task needs
no connection, and a task that is tried again reads the same.

A name belongs to one query (`claims`). The number that a query claims it with is in its offsets, and those
are in its checkpoint: a new query begins with a batch without events, by which the number gets there before
anything is claimed. However soon it is killed, it is the same query when it is started again.
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

from roost.errors import UserError
from roost.pipeline.source.claims import ONE_READ, READER, claim, new_claim
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
        self._query = 0  # for which the name is claimed
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
        if not begin.query:
            return begin.of(new_claim()).as_dict()
        self._claim(begin.query)
        if self._available_since is not None and self._target is None:
            self._feed.begin(begin)
            if self._feed.pull_waiting(most, self._available_since):
                self._target = self._feed.last() or begin
        latest = self._feed.latest(begin, most, self._target)
        if self._target is not None and latest.place == begin.place:
            # That was all. Spark ends this process next, and does not wait for what it has still to say:
            # the acknowledgements of the last batch are said now.
            self._feed.close()
        return latest.of(begin.query).as_dict()

    def _claim(self, query: int) -> None:
        if self._query != query:
            options = self._options
            claim(options.place, READER, options.name, query, take_over=options.take_over)
            self._query = query

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far one could read: up to the last event that has come, which shows the lag of the query."""
        newest = self._feed.newest(AHEAD * self._options.events_a_batch)
        return None if newest is None else newest.of(self._query).as_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._claim(offset_of(end).query)
        events = self._feed.between(offset_of(start), offset_of(end))
        return partitions_of(events, self._schema, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return partition.read()

    def commit(self, end: dict[str, Any]) -> None:
        self._claim(offset_of(end).query)
        self._feed.begin(offset_of(end))

    def stop(self) -> None:
        self._feed.close()


class BatchReader(DataSourceReader):
    """What waits for a durable subscription when the query is planned.

    Unless `acknowledge` is set it all comes again the next time. A broker sends only so much without an
    acknowledgement: if that is not all, it is refused, unless no more was asked for (`maxEventsPerBatch`).
    With `acknowledge`, it is the query's from that moment on, whatever becomes of the query.
    """

    def __init__(self, options: Reading, schema: StructType) -> None:
        check_source_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        if options.acknowledge:
            claim(options.place, READER, options.name, ONE_READ, take_over=options.take_over)
        feed = Feed(options)
        try:
            events = self._all(feed) if options.acknowledge else self._first(feed)
        finally:
            feed.close()
        return partitions_of(events, self._schema, self._options.partitions)

    def _all(self, feed: Feed) -> list[Numbered]:
        since, most = time.time(), self._options.events_max
        events: list[Numbered] = []
        is_all = False
        while not is_all and (most is None or len(events) < most):
            room = WINDOW if most is None else min(WINDOW, most - len(events))
            is_all = feed.pull_waiting(room, since)
            events += feed.take(acknowledge=True)
        return events

    def _first(self, feed: Feed) -> list[Numbered]:
        most = self._options.events_max
        if most is not None and most <= WINDOW:
            feed.pull_waiting(most, time.time())
        elif not feed.pull_waiting(WINDOW, time.time()):
            raise UserError(
                f"{WINDOW:,} events came for {self._options.name!r}, which is all that a broker sends without"
                " an acknowledgement, and others may wait; expected the option acknowledge, set to true, for"
                f" all of them, or maxEventsPerBatch, up to {WINDOW}, for the first ones"
            )
        return feed.take(acknowledge=False)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return partition.read()
