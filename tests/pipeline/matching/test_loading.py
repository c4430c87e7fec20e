"""Subscriptions that are loaded in bulk match what they match when they are added one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import UserError
from roost.language import Filter, Subscription, parse_filter
from roost.matching import Index
from roost.pipeline.matching import loading
from roost.pipeline.matching.loading import (
    Flat,
    check_distinct,
    load_all,
    pack,
    packed,
    unpack,
    unpacked,
    weights_of,
)
from roost.pipeline.parsed import to_arrow
from roost.pipeline.schemas import SCHEMAS
from tests.pipeline.matching.cases import random_case


def batch_of(interests: list[Filter] | list[Subscription], start: int = 0) -> pa.RecordBatch:
    ids = pa.array(range(start, start + len(interests)), pa.int64())
    return pa.record_batch([ids, to_arrow(interests)], SCHEMAS["parsed"])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 300), small=st.booleans())
def test_loading_is_adding(seed: int, cut: int, small: bool) -> None:
    case = random_case(seed, subscriptions=300, publications=40)
    interests = list(case.subscriptions.values())
    bulk, single = Index(), Index()
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(loading, "SHAPE_MIN", 1)
        whole = batch_of(interests)
        names = load_all(bulk, [whole.slice(0, cut), whole.slice(cut)])
    for id_, interest in enumerate(interests):
        single.add(id_, interest)
    assert len(bulk) == len(single)
    assert names == {p.attribute for s in interests for f in s.filters for p in f.predicates}
    for event in case.events():
        assert sorted(bulk.match(event).tolist()) == sorted(single.match(event).tolist())


def test_shapes_are_what_differs_only_in_constants() -> None:
    texts = ["a = 'x' and b > 1", "b > 1 and a = 'x'", "a = 'y' and b > 2.5", "a = 'z' or b > 1"]
    texts += ["a prefix 'x'", "b > 9007199254740993", "*", "a = 'x' and b >= 1", "b = 1"]
    from roost.language import parse_subscription

    flat = Flat.of(batch_of([parse_subscription(text) for text in texts]))
    assert sorted(rows.tolist() for rows in flat.shapes) == [[0, 2], [1], [6], [7]]
    assert flat.plain.tolist() == [True, True, True, False, False, False, True, True, False]


def test_packed_subscriptions_survive_the_way() -> None:
    batch = batch_of([parse_filter("a = 1"), parse_filter("b < 2 and c prefix 'x'")])
    assert unpacked(packed(batch)).equals(batch)
    table = pa.Table.from_batches(pack([batch, batch_of([Filter()], start=2)]))
    parts = list(unpack(table))
    assert [part.num_rows for part in parts] == [2, 1]
    assert parts[0].column(1).equals(batch.column(1))
    texts = pa.record_batch({"subscription": [1, 2], "filter": ["a = 1", "a = "]})
    with pytest.raises(UserError, match="subscription 2"):
        list(unpack(pa.Table.from_batches(pack([texts, texts]))))


def test_ids_come_once() -> None:
    batch = batch_of([Filter(), Filter()], start=5)
    check_distinct([batch, batch_of([Filter()], start=7)])
    with pytest.raises(UserError, match="the subscription 6 comes twice"):
        check_distinct([batch, batch_of([Filter()], start=6)])


def test_long_filters_weigh_more() -> None:
    texts = ["*", "a = 1", "a = 1 and b = 2", "a in ('x', 'y', 'z', 'long word')"]
    weights = weights_of(batch_of([parse_filter(text) for text in texts]).column(1)).tolist()
    assert weights[0] == 0
    assert sorted(weights) == weights
    assert weights[3] == 8 + 4 * 8 + 3 + len("long word")


def test_nulls_are_refused() -> None:
    column = pa.array([None], SCHEMAS["parsed"].field("filters").type)
    batch = pa.record_batch([pa.array([1]), column], SCHEMAS["parsed"])
    with pytest.raises(UserError, match="has a null"):
        Flat.of(batch)
