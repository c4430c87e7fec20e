"""The Spark data source `roost`: a federation of brokers, to read from and to publish to.

    events = (
        spark.readStream.format("roost")
        .option("url", "roost://broker.example:7411")
        .option("subscription", "class = 'STOCK' and volume > 300000")
        .option("name", "spark-volumes")
        .schema("publisher string, symbol string, volume bigint")
        .load()
    )

| option of reading | what it says |
| --- | --- |
| `name` | of the durable subscription: what comes while nobody reads waits under this name |
| `subscription` | its filter, in either syntax; `*`, which is everything, if there is none |
| `maxEventsPerBatch` | at most so many events in a batch of a stream (10,000), or of `spark.read` (all) |
| `partitions` | in at most so many parts (as many as the machine of the driver has processors) |
| `without` | the name of an attribute: events that have it are passed over |
| `failOnDataLoss` | `false`: go on with what comes if the broker has forgotten the subscription |
| `acknowledge` | `true`, of `spark.read`: what is read does not come again |
| `takeOver` | `true`, for one start: the name is this query's, whosever it was |

| option of writing | what it says |
| --- | --- |
| `name` | of the outbox, by which the broker knows which events it has taken |
| `spool` | a folder that the driver and all workers see; a stream has it inside its `checkpointLocation` |
| `takeOver` | as above |

A name belongs to one query: see `claims`.

Both have `url`, `user`, `token`, `authority`, `certificate`, `key` and `timeout` (seconds), which are as for
`roost.connect`, with the same variables of the environment.

Rows that are read: `publisher`, `sequence`, `number`, `time` and `event` (JSON), or what a schema asks for,
which may name attributes of events, `payload` and `content_type`. Rows that are written: `event` (JSON),
`payload`, `content_type`, and each other column is an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from roost.pipeline.arguments import arguments_checked
from roost.pipeline.source.options import Place, Reading, reading, writing
from roost.pipeline.source.rows import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from roost.pipeline.source.reader import BatchReader, StreamReader
    from roost.pipeline.source.writer import BatchWriter, StreamWriter

NAME = "roost"
# Whatever the durable subscription asks for: one that is about to be forgotten asks for nothing.
NOTHING = "roost.nothing present"


@arguments_checked
def register(spark: SparkSession) -> None:
    """Make the format `roost` known to a session whose Python does not have `pyspark_roost`."""
    spark.dataSource.register(RoostDataSource)


def forget(name: str, place: Place) -> None:
    """End a durable subscription for good: the broker forgets it, and what waits for it."""
    from roost.pipeline.source.claims import READER, release  # noqa: PLC0415 (as below)
    from roost.pipeline.source.feed import Feed  # noqa: PLC0415

    feed = Feed(Reading(place=place, name=name, subscription=NOTHING))
    try:
        feed.forget()
    finally:
        feed.close()
    release(place, READER, name)


class RoostDataSource(DataSource):
    """See the module. What connects is loaded by the process that needs it: Spark makes many of these."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return DEFAULT_SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        from roost.pipeline.source.reader import BatchReader  # noqa: PLC0415

        return BatchReader(reading(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        from roost.pipeline.source.reader import StreamReader  # noqa: PLC0415

        return StreamReader(reading(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from roost.pipeline.source.writer import BatchWriter  # noqa: PLC0415

        return BatchWriter(writing(self.options, stream=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: ARG002, N802
        from roost.pipeline.source.writer import StreamWriter  # noqa: PLC0415

        return StreamWriter(writing(self.options, stream=True), schema)
