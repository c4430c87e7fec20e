"""Spark as the matcher tier behind a federation: events in, one event for each subscriber that matches out.

    federation -> source `roost` -> match against a log of subscriptions -> sink `roost` -> federation

The subscriptions, as many as Spark can hold, are nobody's at a broker. Whoever wants the matches of a
subscriber asks any broker for `delivery.subscriber = 'S17'`. Such an event has the attributes

| attribute | what it is |
| --- | --- |
| `delivery.subscriber` | whom it is for: the subscriber of the log, or the number of the subscription |
| `delivery.subscriptions` | how many subscriptions of the subscriber match |
| `delivery.subscription` | which one, if it is one |
| `delivery.publisher`, `delivery.sequence` | of the event that matches |

and that event as payload, in JSON. Events that are such deliveries themselves are never matched, whatever the
filter asks for. Each subscriber gets each event once, and those of a publisher in order, also if the whole of
Spark is killed and started again from the checkpoint: see `source.feed`, `streaming` and `source.spool`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from roost.errors import UserError
from roost.pipeline.parsing import plain_refusals
from roost.pipeline.source.claims import WRITER, release
from roost.pipeline.source.data_source import NAME, register
from roost.pipeline.source.data_source import forget as forget_subscription
from roost.pipeline.source.options import EVENTS_A_BATCH, Place
from roost.pipeline.streaming import DELIVERIES, match_stream
from roost.pipeline.subscription_log import SubscriptionLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DELIVERY = "delivery"
SUBSCRIBER = f"{DELIVERY}.subscriber"
JSON = "application/json"
TRIGGER = "200 milliseconds"
# How often we look at what the stream has done.
LOOK_S = 0.2
# How long a broker may take to answer, before anything is begun.
REACHED_S = 3.0
# What Spark is told to count along the way.
COUNTED = "roost"


class Serving(Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    place: Place
    log: Path
    checkpoint: Path
    filter: str = "*"
    name: str = "serve"
    trigger: str = TRIGGER
    events_a_batch: int = EVENTS_A_BATCH
    once: bool = False  # handle what waits, and end


class Batch(Struct, frozen=True, kw_only=True):
    """What was done with some events."""

    number: int
    events: int
    deliveries: int
    seconds: float
    version: int | None  # of the subscriptions


class Served(Struct, frozen=True, kw_only=True):
    """What was done altogether."""

    batches: int = 0
    events: int = 0
    deliveries: int = 0
    seconds: float = 0.0
    version: int | None = None  # of the subscriptions, at last

    def with_(self, batch: Batch) -> Served:
        """This, and one batch more."""
        return Served(
            batches=self.batches + 1,
            events=self.events + batch.events,
            deliveries=self.deliveries + batch.deliveries,
            seconds=round(self.seconds + batch.seconds, 3),
            version=batch.version,
        )


def serve(
    spark: SparkSession,
    serving: Serving,
    *,
    told: Callable[[Batch], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Served:
    """Serve until it is stopped or, if it is to be done once, until nothing waits; what was done.

    `told` hears of each batch with events in it.
    """
    log = SubscriptionLog(serving.log)
    register(spark)
    with _one_message(stopped):
        query = start(spark, serving, log)
        watch = _Watch(query, log, told)
        try:
            while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]
                watch.look()
                if stopped():
                    query.stop()
        finally:
            if query.isActive:
                query.stop()
            watch.look()
    return watch.served


def check(serving: Serving) -> None:
    """Refuses to serve what can't be: before Spark is started, which takes its time."""
    with replace(serving.place, timeout_s=REACHED_S).connect("serve"):
        pass
    SubscriptionLog(serving.log).version()
    if serving.checkpoint.exists() and not serving.checkpoint.is_dir():
        raise UserError(f"{serving.checkpoint}: not a folder; expected one for checkpoints")


def forget(serving: Serving) -> None:
    """Have the broker forget what waits under the name, and what was published."""
    forget_subscription(serving.name, serving.place)
    with serving.place.connect("serve") as client:
        client.outbox(serving.name).forget()
    release(serving.place, WRITER, serving.name)


def start(spark: SparkSession, serving: Serving, log: SubscriptionLog) -> StreamingQuery:
    """Start the stream."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark is slow to load)

    place = serving.place
    where = {
        "url": place.url,
        "user": place.user,
        "token": place.token,
        "authority": place.authority,
        "certificate": place.certificate,
        "key": place.key,
        "timeout": str(place.timeout_s),
        "name": serving.name,
    }
    options = {key: value for key, value in where.items() if value}
    events = (
        spark.readStream.format(NAME)
        .options(**options)
        .option("subscription", serving.filter)
        .option("without", SUBSCRIBER)
        .option("maxEventsPerBatch", serving.events_a_batch)
        .load()
        .withColumnRenamed("number", "publication")
    )
    kept = ("publisher", "sequence", "event")
    matches = match_stream(events, log, form=DELIVERIES, keep=kept, event_column="event")
    deliveries = deliveries_of(matches).observe(COUNTED, F.count(F.lit(1)).alias("deliveries"))
    writer = (
        deliveries.writeStream.format(NAME)
        .options(**options)
        .option("checkpointLocation", str(serving.checkpoint.absolute()))
        .queryName(serving.name)
    )
    if serving.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=serving.trigger).start()


def deliveries_of(matches: DataFrame) -> DataFrame:
    """Matches in the form of deliveries, as the events that tell subscribers of them."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (as above)

    ids = F.col("subscriptions")
    return matches.select(
        F.col("subscriber").alias(SUBSCRIBER),
        F.size(ids).cast("bigint").alias(f"{DELIVERY}.subscriptions"),
        F.when(F.size(ids) == 1, ids[0]).alias(f"{DELIVERY}.subscription"),
        F.col("publisher").alias(f"{DELIVERY}.publisher"),
        F.col("sequence").alias(f"{DELIVERY}.sequence"),
        F.col("event").alias("payload"),
        F.lit(JSON).alias("content_type"),
    )


class _Watch:
    """Looks at what a stream has done."""

    def __init__(
        self, query: StreamingQuery, log: SubscriptionLog, told: Callable[[Batch], None]
    ) -> None:
        self._query = query
        self._pins = log.pins(str(query.id))
        self._told = told
        self._next = 0
        self.served = Served()

    def look(self) -> None:
        for progress in self._query.recentProgress:
            number = int(progress["batchId"])
            if number >= self._next and progress["numInputRows"]:
                self._next = number + 1
                batch = self._batch(progress, number)
                self.served = self.served.with_(batch)
                self._told(batch)

    def _batch(self, progress: Any, number: int) -> Batch:
        counted = (progress["observedMetrics"] or {}).get(COUNTED)
        return Batch(
            number=number,
            events=int(progress["numInputRows"]),
            deliveries=0 if counted is None else int(counted["deliveries"]),
            seconds=progress["durationMs"]["triggerExecution"] / 1000,
            version=self._pins.known(number),
        )


_raised = re.compile(r"^roost[\w.]*: (?P<message>.+)$", re.MULTILINE)


@contextmanager
def _one_message(stopped: Callable[[], bool]) -> Iterator[None]:
    """Makes one message of what went wrong in a process of Spark's.

    When it is to stop, Ctrl-C has reached those processes as well, and what they say is not news.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 (as above)

    try:
        with plain_refusals():
            yield
    except PySparkException as error:
        if stopped():
            return
        found = [match["message"] for match in _raised.finditer(str(error))]
        raise UserError(found[-1] if found else str(error).splitlines()[0]) from None


def interval(text: str) -> str:
    """An interval as Spark writes it, from 200ms, 2s or 1min."""
    found = re.fullmatch(r"(?P<count>\d+) *(?P<unit>ms|s|min)", text.strip())
    if found is None:
        raise UserError(f"{text!r} is no interval; expected one like 200ms, 2s or 1min")
    units = {"ms": "milliseconds", "s": "seconds", "min": "minutes"}
    return f"{found['count']} {units[found['unit']]}"
