"""Nothing is lost in silence: a name belongs to one query, and what is left out is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from roost.client import connect_sync
from roost.errors import UserError
from roost.pipeline.source import reader, writer
from roost.pipeline.source.claims import READER, claim, new_claim, release
from roost.pipeline.source.data_source import forget
from roost.pipeline.source.options import Place, Writing, reading
from roost.pipeline.source.reader import BatchReader, StreamReader
from roost.pipeline.source.rows import Outgoing
from roost.pipeline.source.spool import Spool
from tests.pipeline.brokers import LiveBroker, live_broker

SCHEMA = StructType([StructField("n", LongType())])
OTHERS = "belongs to another query, with another checkpoint; expected a name of its own"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with live_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def publish(broker: LiveBroker, *numbers: int) -> None:
    with connect_sync(broker.url) as client:
        for number in numbers:
            client.publish({"n": number})


class Query:
    """A stream as Spark runs it; `checkpoint` is what it has on the disk."""

    def __init__(self, broker: LiveBroker, name: str, **options: str) -> None:
        given = {"url": broker.url, "name": name, "subscription": "n present", **options}
        self._given = given
        self.checkpoint: list[dict[str, Any]] = []
        self.begin()

    def begin(self) -> None:
        self.reader = StreamReader(reading(self._given), SCHEMA)
        if self.checkpoint:
            self.at = self.checkpoint[-1]
        else:
            self.at = self.reader.initialOffset()

    def batch(self) -> list[int]:
        """The next one, if there is something new."""
        end = self.reader.latestOffset(self.at, ReadMaxRows(100))
        if end == self.at:
            return []
        self.checkpoint.append(end)
        parts = self.reader.partitions(self.at, end)
        rows = [
            n for part in parts for rows in self.reader.read(part) for n in rows["n"].to_pylist()
        ]
        self.reader.commit(end)
        self.at = end
        return rows

    def rows(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += self.batch()
        return found


def test_of_two_queries_with_one_name_the_second_is_refused(broker: LiveBroker) -> None:
    first, second = Query(broker, "one"), Query(broker, "one")
    assert first.batch() == []
    assert len(first.checkpoint) == 1  # whose it is stands there before anything is read
    publish(broker, 1, 2)
    assert first.rows(2) == [1, 2]
    with pytest.raises(UserError, match=OTHERS):
        second.batch()
    # Nobody has disturbed the first, and it is the same when it is started again: from anywhere.
    publish(broker, 3)
    assert first.rows(1) == [3]
    first.reader.stop()
    first.begin()
    publish(broker, 4)
    assert first.rows(1) == [4]
    first.reader.stop()
    # One that has a checkpoint of its own already is refused, too; unless the first is over.
    second.begin()
    with pytest.raises(UserError, match=OTHERS):
        second.batch()
    taking = Query(broker, "one", takeOver="true")
    taking.batch()
    publish(broker, 5)
    assert taking.rows(1) == [5]
    taking.reader.stop()
    first.begin()
    with pytest.raises(UserError, match=OTHERS):
        first.batch()
    # With the subscription the broker forgets whose it was.
    forget("one", Place(url=broker.url))
    first.begin()
    assert first.batch() == []
    first.reader.stop()


def test_a_broker_that_comes_back_knows_whose_a_name_is(broker: LiveBroker) -> None:
    place, mine = Place(url=broker.url), new_claim()
    long = "x" * 256
    for name in ("kept", long):
        claim(place, READER, name, mine)
    broker.stop()
    broker.start()
    place = Place(url=broker.url)
    for name in ("kept", long):
        claim(place, READER, name, mine)
        with pytest.raises(UserError, match=OTHERS):
            claim(place, READER, name, new_claim())
        release(place, READER, name)


def test_a_read_that_acknowledges_takes_nothing_from_a_stream(broker: LiveBroker) -> None:
    stream = Query(broker, "taken")
    stream.batch()
    read = BatchReader(reading({"url": broker.url, "name": "taken", "acknowledge": "true"}), SCHEMA)
    with pytest.raises(UserError, match=OTHERS):
        read.partitions()
    stream.reader.stop()


def test_the_lag_is_told(broker: LiveBroker) -> None:
    stream = Query(broker, "lag", maxEventsPerBatch="3")
    assert stream.reader.reportLatestOffset() is None
    stream.batch()
    publish(broker, *range(5))
    with connect_sync(broker.url) as client:
        client.flush()
    while (newest := stream.reader.reportLatestOffset() or {"number": 0})["number"] < 5:
        pass
    assert newest["query"] == stream.at["query"]
    end = stream.reader.latestOffset(stream.at, ReadMaxRows(3))
    assert (end["number"], newest["number"]) == (3, 5)
    stream.reader.stop()


def test_a_read_says_that_it_leaves_something_out(
    broker: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WINDOW", 10)
    given = {"url": broker.url, "name": "many", "subscription": "n present"}
    with connect_sync(broker.url) as client, client.subscribe("n present", durable="many"):
        pass
    publish(broker, *range(25))

    def read(**options: str) -> list[int]:
        batch = BatchReader(reading({**given, "partitions": "1", **options}), SCHEMA)
        return [
            n
            for part in batch.partitions()
            for rows in batch.read(part)
            for n in rows["n"].to_pylist()
        ]

    with pytest.raises(UserError, match=r"10 events came for 'many', .* others may wait"):
        read()
    assert read(maxEventsPerBatch="7") == list(range(7))
    assert read(maxEventsPerBatch="12", acknowledge="true") == list(range(12))
    assert read(acknowledge="true") == list(range(12, 25))
    forget("many", Place(url=broker.url))


def test_of_two_spools_with_one_outbox_the_second_is_refused(
    broker: LiveBroker, tmp_path: Path
) -> None:
    def publish_from(folder: str, batch: int, *, take_over: bool = False) -> None:
        place = Place(url=broker.url)
        options = Writing(place=place, name="out", spool=folder, take_over=take_over)
        spool = Spool(tmp_path / folder, "query")
        part = spool.write(batch, [[Outgoing({"out": batch}, b"", "")]])
        writer.publish(options, spool, batch, [part])

    with connect_sync(broker.url) as client:
        subscription = client.subscribe("out present")
        subscription.ready()
        publish_from("a", 0)
        for _ in range(2):  # in the process that has it open, and in another
            with pytest.raises(UserError, match=f"the outbox 'out' {OTHERS}"):
                publish_from("b", 0)
            publish_from("a", 1)
            writer._close(Place(url=broker.url), "out")
        publish_from("b", 7, take_over=True)
        publish_from("b", 8)
        got = [subscription.get(20)["out"] for _ in range(4)]
        assert got == [0, 1, 7, 8]
    writer._close(Place(url=broker.url), "out")
