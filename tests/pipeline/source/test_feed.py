"""A durable subscription as a log with offsets: the same events for the same offsets, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.client import connect_sync
from roost.errors import UserError
from roost.pipeline.source.data_source import forget
from roost.pipeline.source.feed import DataLoss, Feed, Offset, offset_of
from roost.pipeline.source.options import Place, Reading
from tests.pipeline.brokers import LiveBroker, live_broker

NEVER = 1e12  # nothing is published later


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with live_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def reading(broker: LiveBroker, name: str, **more: object) -> Reading:
    place = Place(url=broker.url, timeout_s=1.0)
    return replace(Reading(place=place, name=name, subscription="n present"), **more)


def publish(broker: LiveBroker, *numbers: int, **more: int) -> None:
    with connect_sync(broker.url) as client:
        for number in numbers:
            client.publish({"n": number, **more})


def pull(feed: Feed, count: int) -> None:
    """Until so many are here."""
    while len(feed) < count:
        assert feed.pull(count, 20.0)


def between(feed: Feed, start: Offset, end: Offset) -> list[object]:
    return [event["n"] for _, event in feed.between(start, end)]


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_batch_is_the_same_events_until_it_is_committed(
    broker: LiveBroker, data: st.DataObject
) -> None:
    options = reading(broker, "same")
    count = data.draw(st.integers(0, 30))
    feed = Feed(options)
    feed.open()
    try:
        publish(broker, *range(count))
        start, expected = Offset(), 0
        while expected < count:
            pull(feed, count - expected)
            end = feed.latest(start, data.draw(st.integers(1, 12)))
            events = feed.between(start, end)
            got = [event["n"] for _, event in events]
            assert got
            assert got == list(range(expected, expected + len(got)))
            assert events[-1].number == end.number
            if data.draw(st.booleans()):  # the process is gone before the batch is committed
                feed.close()
                feed = Feed(options)
                assert between(feed, start, end) == got
            start, expected = offset_of(end.as_dict()), expected + len(got)
            if data.draw(st.booleans()):  # or just when it is
                feed.close()
                feed = Feed(options)
            feed.begin(start)
        assert feed.latest(start, 10) == start
    finally:
        feed.forget()
        feed.close()


def test_numbers_outlive_a_restart_of_a_broker_with_a_store(tmp_path: Path) -> None:
    with live_broker(tmp_path) as broker:
        options = reading(broker, "kept")
        feed = Feed(options)
        feed.open()
        publish(broker, *range(6))
        pull(feed, 6)
        first = feed.latest(Offset(), 2)
        second = feed.latest(first, 2)
        broker.stop()
        broker.start()
        publish(broker, 6, 7)
        # The same process goes on, and so does the next one.
        assert between(feed, first, second) == [2, 3]
        pull(feed, 6)
        feed.close()
        feed = Feed(options)
        assert between(feed, first, second) == [2, 3]
        pull(feed, 6)
        last = feed.latest(second, 100)
        assert between(feed, second, last) == [4, 5, 6, 7]
        feed.begin(last)
        feed.close()
        broker.wait_until_waiting("kept", 0)


def test_what_was_committed_is_acknowledged_and_nothing_else(broker: LiveBroker) -> None:
    options = reading(broker, "acks")
    feed = Feed(options)
    feed.open()
    publish(broker, *range(10))
    pull(feed, 10)
    end = feed.latest(Offset(), 4)
    feed.between(Offset(), end)
    feed.close()
    assert broker.waiting("acks") == 10
    feed = Feed(options)
    assert feed.latest(end, 1).number > end.number
    feed.close()
    broker.wait_until_waiting("acks", 6)
    forget("acks", options.place)
    assert broker.waiting("acks") is None


def test_events_with_an_attribute_are_passed_over_and_take_numbers(broker: LiveBroker) -> None:
    options = reading(broker, "gaps", without="own")
    feed = Feed(options)
    feed.open()
    publish(broker, 1)
    publish(broker, 2, 3, own=1)
    publish(broker, 4)
    feed.pull_waiting(100, NEVER)
    end = feed.latest(Offset(), 100)
    events = feed.between(Offset(), end)
    assert [(number, event["n"]) for number, event in events] == [(1, 1), (4, 4)]
    feed.begin(end)
    feed.close()
    broker.wait_until_waiting("gaps", 0)
    forget("gaps", options.place)


def test_a_broker_that_forgets_while_we_read_is_noticed() -> None:
    with live_broker() as broker:
        options = reading(broker, "lost")
        feed = Feed(options)
        feed.open()
        publish(broker, 1, 2)
        pull(feed, 2)
        broker.stop()
        broker.start()
        feed.open().ready()
        publish(broker, 3)
        with pytest.raises(DataLoss, match="has forgotten the durable subscription 'lost' while"):
            pull(feed, 3)
        feed.close()


@pytest.mark.parametrize("came_since", [1, 8])
def test_a_broker_that_has_forgotten_before_we_read_on_is_noticed(
    broker: LiveBroker, came_since: int
) -> None:
    options = reading(broker, "forgotten")
    feed = Feed(options)
    feed.open()
    publish(broker, *range(5))
    pull(feed, 5)
    end = feed.latest(Offset(), 100)
    feed.forget()
    feed.close()
    feed = Feed(options)
    feed.open()
    feed.close()
    publish(broker, *range(100, 100 + came_since))
    feed = Feed(options)
    pull(feed, came_since)
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        feed.latest(end, 100)
    feed.close()
    # Told not to mind, it goes on with what there is, in another life.
    feed = Feed(replace(options, fail_on_data_loss=False))
    pull(feed, came_since)
    with pytest.warns(RuntimeWarning, match="events may be lost"):
        last = feed.latest(end, 100)
    assert (last.life, last.number) == (1, came_since)
    assert between(feed, end, last) == list(range(100, 100 + came_since))
    feed.forget()
    feed.close()


def test_an_offset_of_something_else_is_refused() -> None:
    with pytest.raises(UserError, match="the checkpoint is of another query"):
        offset_of({"partition": "no"} | {"number": "x"})
