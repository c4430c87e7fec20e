"""Events as columns say what the events say."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from roost.language import Event, Subscription
from roost.matching import Index
from roost.partition.batch import Batch, Written
from roost.partition.dimensions import Dimension, point_of
from tests.language.strategies import events, subscriptions

DIMENSIONS = [Dimension("a", 0, 10), Dimension("b", -5, 5)]
_read = msgspec.msgpack.Decoder(Written).decode


def through_a_note(batch: Batch) -> Batch:
    return Batch.read(_read(msgspec.msgpack.encode(batch.written())))


@settings(max_examples=30)
@given(some.lists(events(), min_size=1, max_size=5), some.lists(subscriptions(), max_size=5))
def test_a_batch_matches_what_its_events_match(
    published: list[Event], wanted: list[Subscription]
) -> None:
    """Events that differ, and each by itself, which is columns if it has no bool and no great int."""
    index = Index()
    for number, subscription in enumerate(wanted):
        index.add(number, subscription)
    for part in (published, *([event] for event in published)):
        batch = through_a_note(Batch.of([event.attributes for event in part]))
        offsets, ids = batch.match(index)
        points = batch.points(DIMENSIONS)
        for place, event in enumerate(part):
            found = sorted(ids[offsets[place] : offsets[place + 1]].tolist())
            assert found == [n for n, one in enumerate(wanted) if one.matches(event)]
            where = [None if math.isnan(c) else c for c in points[:, place].tolist()]
            assert tuple(where) == point_of(event, DIMENSIONS)
        taken = batch.take(np.arange(len(part))[::-1])
        backwards, all_ids = taken.match(index)
        assert len(all_ids) == len(ids)
        assert np.diff(backwards)[::-1].tolist() == np.diff(offsets).tolist()
        assert batch.size() >= len(msgspec.msgpack.encode(batch.written().rows))


def test_columns_are_made_where_events_have_the_same_attributes() -> None:
    assert Batch.of([{"a": 1, "b": "x"}, {"b": "y", "a": 2.5}]).written().rows == ()
    assert Batch.of([{"a": 1}, {"a": 2.5}]).written().numbers[0][0] == "a"
    for events_ in ([{"a": True}], [{"a": 1}, {"a": "x"}], [{"a": 2**60}], [{"a": 1}, {"b": 1}]):
        assert len(Batch.of(events_).written().rows) == len(events_)  # type: ignore[arg-type]
    assert Batch.of([{}]).count == 1
