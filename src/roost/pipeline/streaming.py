"""Matching a stream of publications against subscriptions that change while it runs.

Each Python worker keeps an index for each log of subscriptions that it has seen, and brings it to the version
that a batch uses by what was added and removed since (`LogIndex`). Which version that is, is pinned: the
first task of a batch that asks decides it, for all tasks of the batch and for whoever runs the batch again
(`subscription_log.Pins`). So a batch that is repeated after a crash gives the same matches, which is what
makes them exactly once behind a sink that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from roost.language import Event
from roost.matching import Index, UnknownIdError
from roost.matching.batch import Columns
from roost.pipeline.arguments import arguments_checked
from roost.pipeline.matching.inputs import checked_inputs
from roost.pipeline.matching.loading import load_all
from roost.pipeline.matching.tasks import LISTS, Matching, Reading
from roost.pipeline.parsing import Batches, marking
from roost.pipeline.schemas import SUBSCRIPTION, not_an_attribute, spark_schema
from roost.pipeline.source.rows import from_json
from roost.pipeline.subscription_log import REMOVED, SUBSCRIBER, SubscriptionLog
from roost.pipeline.task_batch import batch_of_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# One row for each publication and subscriber, with the subscriptions of the subscriber that match.
DELIVERIES = "deliveries"
DELIVERIES_AT_A_TIME = 1 << 14


@arguments_checked
def match_stream(
    publications: DataFrame,
    log: SubscriptionLog | str | Path,
    *,
    form: str = "pairs",
    keep: Sequence[str] = (),
    event_column: str | None = None,
) -> DataFrame:
    """The matches of publications with the subscriptions of a log, as of when each batch begins.

    It is `match` for a stream, with the same arguments: publications have the column `publication`, a
    number, and their attributes are the other columns or, with `event_column`, those of the JSON object in
    it. `form` is pairs, lists, or deliveries: a row for each publication and subscriber, with the columns
    `subscriber` and `subscriptions`. A subscription without a subscriber is for itself, by its number. The
    columns of `keep` stand behind.

    A frame that is no stream is matched against the version that the log has now.
    """
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType  # noqa: PLC0415

    spark = publications.sparkSession
    nobody = spark.createDataFrame([], spark_schema("parsed"))
    inputs = checked_inputs(
        publications,
        nobody,
        form=LISTS if form == DELIVERIES else form,
        keep=keep,
        event_column=event_column,
    )
    frame, reading = inputs.columns(inputs.attributes)
    if event_column is not None:
        reading = JsonReading(reading.attributes, reading.keep, reading.event)
    schema = inputs.schema
    if form == DELIVERIES:
        number, _, *kept = schema
        whose = StructField(SUBSCRIBER, StringType())
        schema = StructType(
            [number, whose, StructField("subscriptions", ArrayType(LongType())), *kept]
        )
    log = log if isinstance(log, SubscriptionLog) else SubscriptionLog(log)
    work = _Work(log, reading, form, log.version(), inputs.others)
    return frame.mapInArrow(marking(work), schema)


class JsonReading(Reading):
    """Events come as JSON objects, as the source writes them: infinities and all."""

    def events(self, batch: pa.RecordBatch) -> Columns | list[Event]:
        assert self.event is not None
        return [
            from_json("null" if text is None else text, f"publication {number}")
            for number, text in zip(
                batch.column(0).to_pylist(), batch.column(self.event).to_pylist(), strict=True
            )
        ]


class _Work:
    """What a task does."""

    def __init__(
        self,
        log: SubscriptionLog,
        reading: Reading,
        form: str,
        version: int,
        others: dict[str, str],
    ) -> None:
        self._log = log
        self._reading = reading
        self._form = form
        self._version = version  # of a frame that is no stream
        self._others = others  # columns that can't be attributes, and their types

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        index = LogIndex.of(self._log)
        index.bring_to(_pinned(self._log, self._version))
        for name in sorted(index.names & self._others.keys()):
            raise not_an_attribute(name, self._others[name])
        form = LISTS if self._form == DELIVERIES else self._form
        answers = Matching(index.index, self._reading, form).answers(batches)
        return index.deliveries(answers) if self._form == DELIVERIES else answers


def _pinned(log: SubscriptionLog, otherwise: int) -> int:
    """The version that the batch of this task uses."""
    at = batch_of_task()
    return otherwise if at is None else log.pins(at.query).version(at.batch)


class LogIndex:
    """The index of a log in this process, at some version of it."""

    _known: ClassVar[dict[Path, LogIndex]] = {}

    @classmethod
    def of(cls, log: SubscriptionLog) -> LogIndex:
        """The one of this process, which lives as long as the process."""
        return cls._known.setdefault(log.folder, cls(log))

    def __init__(self, log: SubscriptionLog) -> None:
        self._log = log
        self.version: int | None = None
        self.index = Index()
        self.names: set[str] = set()  # of the attributes that have been spoken of
        self._subscribers: dict[int, str] = {}  # of those that are not for themselves

    def bring_to(self, version: int) -> None:
        """Have the subscriptions of a version."""
        if version == self.version:
            return
        changes, is_all = self._log.since(self.version, version)
        # If this fails half-way, the next one begins from nothing.
        self.version = None
        if is_all:
            self.index, self.names, self._subscribers = Index(), set(), {}
        else:
            self._remove(changes.column(SUBSCRIPTION).to_pylist())
        added = changes.filter(pc.invert(changes.column(REMOVED)))
        self.names |= load_all(self.index, added.select([SUBSCRIPTION, "filters"]).to_batches())
        named = added.filter(added.column(SUBSCRIBER).is_valid())
        ids, names = (named.column(column).to_pylist() for column in (SUBSCRIPTION, SUBSCRIBER))
        self._subscribers.update(zip(ids, names, strict=True))
        self.version = version

    def _remove(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            self._subscribers.pop(id_, None)
            with suppress(UnknownIdError):  # it is new, or was never there
                self.index.remove(id_)

    def deliveries(self, lists: Batches) -> Iterator[pa.RecordBatch]:
        """Lists of subscriptions as rows for subscribers: of a publication in the order of their names."""
        for batch in lists:
            for first in range(0, batch.num_rows, DELIVERIES_AT_A_TIME):
                yield self._by_subscriber(batch.slice(first, DELIVERIES_AT_A_TIME))

    def _by_subscriber(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows: list[int] = []
        whose: list[str] = []
        lists: list[list[int]] = []
        for row, ids in enumerate(batch.column(1).to_pylist()):
            found: dict[str, list[int]] = {}
            for id_ in sorted(ids):
                found.setdefault(self._subscribers.get(id_) or str(id_), []).append(id_)
            for subscriber in sorted(found):
                rows.append(row)
                whose.append(subscriber)
                lists.append(found[subscriber])
        taken = batch.take(pa.array(rows, pa.int64()))
        number, _, *kept = taken.columns
        columns = [
            number,
            pa.array(whose, pa.string()),
            pa.array(lists, pa.list_(pa.int64())),
            *kept,
        ]
        names = batch.schema.names
        return pa.record_batch(columns, [names[0], SUBSCRIBER, *names[1:]])
