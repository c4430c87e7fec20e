"""Publishing from Spark: `df.writeStream.format("roost")`, exactly once, and `df.write`.

A stream: tasks spool their rows, and the driver publishes what is in the spool when Spark commits the batch,
through an outbox of the client, in which each event has a number and the broker remembers the last one that
it has taken. See `spool` for why nothing is lost or doubled when the driver is killed anywhere.

A batch is published by its tasks, as often as Spark runs them, unless it has a name and a spool: then it is
one batch of that name, which is published once however often the job is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from roost.errors import UserError
from roost.pipeline.source.claims import WRITER, claim
from roost.pipeline.source.options import Place, Writing
from roost.pipeline.source.rows import Outgoing, check_sink_schema, events_of
from roost.pipeline.source.spool import EVENTS_AT_A_TIME, Content, Part, Spool, content_of
from roost.pipeline.task_batch import batch_of_task

if TYPE_CHECKING:
    from roost.client import SyncClient
    from roost.client.sync import SyncOutbox

# However many events there are, the broker takes some all the time.
FLUSH_S = 60.0


class Written(WriterCommitMessage):
    """What a task has put into the spool."""

    def __init__(self, query: str, part: Part, total: int = 0) -> None:
        self.query = query
        self.part = part
        self.total = total  # of a named batch, over its events


def _in_pieces(
    batches: Iterable[pa.RecordBatch], kinds: Mapping[str, str]
) -> Iterator[Iterable[Outgoing]]:
    for batch in batches:
        for first in range(0, batch.num_rows, EVENTS_AT_A_TIME):
            yield events_of(batch.slice(first, EVENTS_AT_A_TIME), kinds)


def _kinds(schema: StructType) -> dict[str, str]:
    check_sink_schema(schema)
    return {field.name: field.dataType.simpleString() for field in schema}


class StreamWriter(DataSourceStreamArrowWriter):
    """Rows of a stream as events."""

    def __init__(self, options: Writing, schema: StructType) -> None:
        self._kinds = _kinds(schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        at = batch_of_task()
        if at is None:
            raise UserError("this sink is for the batches of a stream; expected df.writeStream")
        return Written(
            at.query, self._spool(at.query).write(at.batch, _in_pieces(iterator, self._kinds))
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [message for message in messages if isinstance(message, Written)]
        if written:
            spool = self._spool(written[0].query)
            publish(self._options, spool, batchId, [message.part for message in written])

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """What tasks have written goes; that of tasks which failed goes with the next batch."""
        for message in messages:
            if isinstance(message, Written) and message.part[1]:
                self._spool(message.query).remove([message.part[0]])

    def _spool(self, query: str) -> Spool:
        return Spool(Path(self._options.spool), query)


class BatchWriter(DataSourceArrowWriter):
    """Rows of a table as events."""

    def __init__(self, options: Writing, schema: StructType, overwrite: bool) -> None:
        self._kinds = _kinds(schema)
        if overwrite:
            raise UserError("events can't be taken back; expected the mode 'append'")
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if self._options.spool:
            content = Content()
            pieces = (content.of(events) for events in _in_pieces(iterator, self._kinds))
            part = self._spool().write(0, pieces)
            return Written("", part, content.total)
        with self._options.place.connect("spark") as client:
            for events in _in_pieces(iterator, self._kinds):
                for event in events:
                    client.publish(event.attributes, event.payload, content_type=event.content_type)
            client.flush(FLUSH_S)
        return Written("", ("", 0))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.spool:
            written = [message for message in messages if isinstance(message, Written)]
            content = content_of(message.total for message in written)
            publish(self._options, self._spool(), 0, [each.part for each in written], content)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.spool:
            parts = [message.part for message in messages if isinstance(message, Written)]
            self._spool().remove(name for name, count in parts if count)

    def _spool(self) -> Spool:
        # By its name, which may have characters that a folder can't have.
        key = sha256(self._options.name.encode()).hexdigest()[:16]
        return Spool(Path(self._options.spool), f"batch-{key}")


# --- on the driver ----------------------------------------------------------------------------------


def publish(
    options: Writing, spool: Spool, batch: int, parts: Sequence[Part], content: str = ""
) -> None:
    """Publish a batch, or the rest of it; when it returns, the broker has all of it."""
    outbox = _outbox(options, spool, batch)
    try:
        manifest = spool.decide(batch, parts, outbox.last + 1, content)
        for number, event in spool.events(manifest, above=outbox.last):
            outbox.publish(number, event.attributes, event.payload, content_type=event.content_type)
        outbox.flush(FLUSH_S)
    except BaseException:
        _close(options.place, options.name)
        raise
    spool.clear(batch, manifest)


# The process that commits is the same for all batches of a query, most of the time.
_open: dict[tuple[Place, str], tuple[SyncClient, SyncOutbox, int]] = {}


def _outbox(options: Writing, spool: Spool, batch: int) -> SyncOutbox:
    """The outbox of the name, which is this query's, open.

    If the broker has forgotten which event was the last, it is that which the spool knows of.
    """
    place, name, owner = options.place, options.name, spool.owner()
    there = _open.get((place, name))
    if there is not None and there[2] == owner:
        return there[1]
    claim(place, WRITER, name, owner, take_over=options.take_over)
    if there is not None:
        _close(place, name)
    after = spool.before(batch)
    client = place.connect("spark").open()
    try:
        outbox = client.outbox(name, after=after)
        outbox.open()
    except BaseException:
        client.close()
        raise
    _open[place, name] = client, outbox, owner
    return outbox


def _close(place: Place, name: str) -> None:
    client, *_ = _open.pop((place, name))
    with suppress(UserError):  # whatever it has not said, the next one says again
        client.close(timeout_s=1.0)
