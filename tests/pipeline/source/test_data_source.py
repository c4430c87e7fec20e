"""The data source `roost` in Spark: a live broker to read from and to publish to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from roost.client import SyncClient, connect_sync
from roost.pipeline.source.data_source import forget, register
from roost.pipeline.source.options import Place
from tests.pipeline.brokers import LiveBroker, live_broker

COUNT = 1_200  # more than one partition of them


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with live_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[SyncClient]:
    with connect_sync(broker.url) as client:
        yield client


def subscribed(client: SyncClient, filter_: str, name: str) -> None:
    """Have the broker keep what comes for a durable subscription."""
    with client.subscribe(filter_, durable=name):
        pass


def test_what_waits_is_a_table(
    source: SparkSession, broker: LiveBroker, client: SyncClient
) -> None:
    subscribed(client, "x present", "table")
    for n in range(COUNT):
        client.publish({"x": n, "y": "a"} if n % 2 else {"x": float(n)})
    client.flush()
    reader = source.read.format("roost").option("url", broker.url).option("name", "table")
    reader = reader.option("subscription", "x present").option("partitions", 2)
    rows = reader.load().collect()
    assert [row.number for row in rows] == list(range(1, COUNT + 1))
    assert {row.publisher for row in rows} == {client.name}
    assert [row.sequence for row in rows] == list(range(1, COUNT + 1))
    assert rows[1].event == '{"x":1,"y":"a"}'
    # The same once more, this time for good, and with columns for attributes.
    frame = reader.option("acknowledge", "true").schema("x bigint, y string, number bigint").load()
    assert [tuple(row) for row in frame.collect()] == [
        (n, "a" if n % 2 else None, n + 1) for n in range(COUNT)
    ]
    broker.wait_until_waiting("table", 0)
    forget("table", Place(url=broker.url))
    assert broker.waiting("table") is None


def test_spark_finds_it_by_itself(
    spark: SparkSession, broker: LiveBroker, client: SyncClient
) -> None:
    """In a session that nobody has told of it, from SQL; and its time is one for watermarks."""
    subscribed(client, "found present", "found")
    client.publish({"found": 7})
    client.flush()
    fresh = spark.newSession()
    fresh.sql(
        "create temporary view events using roost"
        f" options (url '{broker.url}', name 'found', subscription 'found present')"
    )
    query = "select event, abs(unix_seconds(time) - unix_seconds(now())) < 600 from events"
    assert list(map(tuple, fresh.sql(query).collect())) == [('{"found":7}', True)]
    waiting = fresh.readStream.format("roost").option("url", broker.url).option("name", "found")
    assert waiting.load().withWatermark("time", "10 seconds").isStreaming


def run(frame: DataFrame, broker: LiveBroker, checkpoint: Path) -> None:
    query = (
        frame.writeStream.format("roost")
        .option("url", broker.url)
        .option("name", "copies")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_from_and_to_a_federation(
    source: SparkSession, broker: LiveBroker, client: SyncClient, tmp_path: Path
) -> None:
    subscribed(client, "n present", "stream")
    copies = client.subscribe("copy present")
    copies.ready()
    frame = (
        source.readStream.format("roost")
        .option("url", broker.url)
        .option("name", "stream")
        .option("subscription", "n present")
        .option("maxEventsPerBatch", 500)
        .schema("n bigint, event string")
        .load()
        .selectExpr("n as copy", "n % 2 = 0 as even", "event as payload", "'t' as content_type")
    )
    for n in range(COUNT):
        client.publish({"n": n})
    client.flush()
    run(frame, broker, tmp_path)
    got = [copies.get(30) for _ in range(COUNT)]
    assert [event["copy"] for event in got] == list(range(COUNT))
    assert got[3].attributes == {"copy": 3, "even": False}
    assert (got[3].payload, got[3].content_type) == (b'{"n":3}', "t")
    assert len({event.id for event in got}) == COUNT
    assert len(list((tmp_path / "commits").glob("[0-9]*"))) > 2
    broker.wait_until_waiting("stream", 0)
    # It goes on from there: with what came since, and under the same name.
    client.publish({"n": COUNT})
    client.flush()
    run(frame, broker, tmp_path)
    more = copies.get(30)
    assert (more["copy"], more.publisher) == (COUNT, got[0].publisher)
    client.publish({"copy": -1})
    assert copies.get(30)["copy"] == -1


def test_a_table_is_published(
    source: SparkSession, broker: LiveBroker, client: SyncClient, tmp_path: Path
) -> None:
    table = client.subscribe("row present")
    table.ready()
    frame = source.range(0, 20, 1, 2).selectExpr("id as row", "if(id = 3, null, 'x') as word")
    writer = frame.write.format("roost").mode("append").option("url", broker.url)
    writer.save()
    got = sorted((table.get(30).attributes for _ in range(20)), key=lambda event: event["row"])
    assert got == [{"row": n, "word": "x"} if n != 3 else {"row": n} for n in range(20)]
    # With a name it is published once, however often it is run, and in the order of its rows.
    named = writer.option("name", "rows-1").option("spool", str(tmp_path))
    named.save()
    named.save()
    client.publish({"row": -1})
    assert [table.get(30)["row"] for _ in range(21)] == [*range(20), -1]
    # Other rows are not passed over: they need another name.
    other = frame.where("row < 19").write.format("roost").mode("append").option("url", broker.url)
    with pytest.raises(PySparkException, match="with other events: 20 then, 19 now"):
        other.option("name", "rows-1").option("spool", str(tmp_path)).save()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the option 'name' is missing"),
        ({"name": "n", "nmae": "m"}, "there is no option 'nmae' for the format 'roost'"),
    ],
)
def test_bad_options_are_said(source: SparkSession, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        source.read.format("roost").options(**options).load().collect()


# What Spark asks of a reader with `Trigger.AvailableNow`; then it kills the process.
AVAILABLE_NOW = """
import os, sys
from roost.pipeline.source.options import reading
from roost.pipeline.source.reader import StreamReader
from pyspark.sql.types import LongType, StructField, StructType

options = reading({"url": sys.argv[1], "name": "killed", "subscription": "k present"})
reader = StreamReader(options, StructType([StructField("k", LongType())]))
reader.prepareForTriggerAvailableNow()
start, end = None, reader.initialOffset()
while start != end:
    start, end = end, reader.latestOffset(end, reader.getDefaultReadLimit())
    reader.partitions(start, end)
os._exit(0)
"""


def test_the_last_batch_is_acknowledged_when_the_reader_is_killed(
    broker: LiveBroker, client: SyncClient
) -> None:
    """Spark kills the process of a reader as soon as that has said that there is nothing more."""
    subscribed(client, "k present", "killed")
    for n in range(20):
        client.publish({"k": n})
    client.flush()
    assert broker.waiting("killed") == 20
    subprocess.run([sys.executable, "-c", AVAILABLE_NOW, broker.url], check=True, timeout=60)
    broker.wait_until_waiting("killed", 0)
