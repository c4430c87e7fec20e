"""The fast index gives the answers of the obvious one, whatever happened to it before."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from roost.errors import UserError, type_of
from roost.language import (
    Event,
    Filter,
    Interest,
    LanguageError,
    Operator,
    Predicate,
    Subscription,
    Value,
    parse_filter,
)
from roost.matching import DuplicateIdError, Matcher, Naive, UnknownIdError
from roost.matching.index import Index
from tests.language.core_strategies import filters as filters_of
from tests.language.core_strategies import pools
from tests.language.strategies import events, filters, subscriptions

close_filters = pools().flatmap(filters_of)


@st.composite
def filters_and_events(draw: st.DrawFn) -> tuple[list[Filter], list[Event]]:
    """Filters whose constants lie close together, and events with just these constants."""
    pool = draw(pools())
    interests = draw(st.lists(filters_of(pool), min_size=1, max_size=30))
    constants: dict[str, list[Value]] = {}
    for predicate in (p for f in interests for p in f.predicates):
        found = predicate.constant
        members = found if isinstance(found, tuple) else (found,)
        values = [v for v in members if isinstance(v, bool | int | float | str)]
        constants.setdefault(predicate.attribute, []).extend(values or [1, "a", True])
    options = {name: st.sampled_from(values) for name, values in constants.items() if values}
    tried = st.fixed_dictionaries({}, optional=options).map(Event)
    return interests, draw(st.lists(tried, max_size=6))


def both(interests: list[Interest]) -> tuple[Index, Naive]:
    index, naive = Index(), Naive()
    for id_, interest in enumerate(interests):
        index.add(id_, interest)
        naive.add(id_, interest)
    return index, naive


def assert_same(index: Matcher, naive: Matcher, event: Event) -> None:
    found = index.match(event).tolist()
    assert len(found) == len(set(found))
    assert set(found) == set(naive.match(event).tolist())


class IndexAndNaive(RuleBasedStateMachine):
    """Random additions, removals and events; the two must agree at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.index, self.naive = Index(), Naive()
        self.next_id = 0

    held = Bundle("held")

    @rule(target=held, interest=st.one_of(filters(), close_filters, subscriptions()))
    def add(self, interest: Interest) -> int:
        id_ = self.next_id
        self.next_id += 1
        self.index.add(id_, interest)
        self.naive.add(id_, interest)
        return id_

    @rule(id_=consumes(held))
    def remove(self, id_: int) -> None:
        self.index.remove(id_)
        self.naive.remove(id_)

    @rule(id_=held)
    def add_twice(self, id_: int) -> None:
        with pytest.raises(DuplicateIdError, match=str(id_)):
            self.index.add(id_, Filter())

    @rule()
    def remove_unknown(self) -> None:
        with pytest.raises(UnknownIdError, match=str(self.next_id)):
            self.index.remove(self.next_id)

    @rule(event=events())
    def match(self, event: Event) -> None:
        assert_same(self.index, self.naive, event)

    @rule(event=events())
    def match_bytes(self, event: Event) -> None:
        """From bytes: the same ids in the same order, however often it is asked."""
        octets = msgspec.msgpack.encode(event.attributes)
        expected = self.index.match(event).tolist()
        assert self.index.match_bytes(octets).tolist() == expected
        assert self.index.match_bytes(octets).tolist() == expected

    @rule(batch=st.lists(events(), max_size=4))
    def match_batch(self, batch: list[Event]) -> None:
        offsets, ids = self.index.match_batch(batch)
        assert len(offsets) == len(batch) + 1
        for i, event in enumerate(batch):
            found = ids[offsets[i] : offsets[i + 1]].tolist()
            assert sorted(found) == sorted(self.naive.match(event).tolist())

    @rule(batch=st.lists(events(), max_size=4))
    def match_parts(self, batch: list[Event]) -> None:
        seen = 0
        for first, offsets, ids in self.index.match_parts(batch):
            assert first == seen
            for i in range(len(offsets) - 1):
                found = ids[offsets[i] : offsets[i + 1]].tolist()
                assert found == self.index.match(batch[first + i]).tolist()
            seen += len(offsets) - 1
        assert seen == len(batch)

    @invariant()
    def same_size(self) -> None:
        assert len(self.index) == len(self.naive)

    def teardown(self) -> None:
        """What is added can be removed, and nothing stays behind."""
        for id_ in list(self.naive._interests):
            self.index.remove(id_)
        store = self.index._store
        assert len(self.index) == 0
        assert store.attributes == {}
        assert store._groups == {}
        assert store._keys == {}
        assert not self.index._odd
        assert not self.index._parts
        assert not self.index._never


TestIndexAndNaive = IndexAndNaive.TestCase


@given(filters_and_events())
def test_filters_that_nearly_agree(drawn: tuple[list[Filter], list[Event]]) -> None:
    interests, tried = drawn
    index, naive = both(list(interests))
    for event in tried:
        assert_same(index, naive, event)


def test_parts_of_a_batch() -> None:
    """A batch with more ids than a part has room for."""
    index = Index()
    index.add_columns(range(3_000), [("x", ">", np.arange(3_000.0))])
    index.add(5_000, Subscription([parse_filter("x > 1"), parse_filter("x > 2")]))
    columns = {"x": np.arange(0.5, 3_000, 37)}
    whole, together = index.match_batch(columns)
    parts = [(first, o.copy(), ids.copy()) for first, o, ids in index.match_parts(columns)]
    assert len(parts) > 2
    assert np.array_equal(np.concatenate([ids for _, _, ids in parts]), together)
    for first, offsets, _ in parts:
        assert np.array_equal(np.diff(offsets), np.diff(whole[first : first + len(offsets)]))


def random_boxes(rng: np.random.Generator, n: int, dimensions: int, step: float) -> list[Filter]:
    """Boxes with corners on a lattice, so that events often fall on a bound; some are one-sided."""
    lows = np.round(rng.uniform(0, 1000, (n, dimensions)) / step) * step
    highs = lows + np.round(rng.exponential(200, (n, dimensions)) / step) * step
    sides = rng.integers(0, 4, (n, dimensions))
    made = []
    for low_row, high_row, side_row in zip(lows.tolist(), highs.tolist(), sides, strict=True):
        predicates = []
        for d, (low, high, side) in enumerate(zip(low_row, high_row, side_row, strict=True)):
            if side != 1:
                predicates.append(Predicate(f"d{d}", Operator.GE, low))
            if side != 2:
                predicates.append(Predicate(f"d{d}", Operator.LT, high))
        made.append(Filter(predicates))
    return made


@pytest.mark.parametrize("dimensions", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("step", [1e-9, 25.0])
def test_many_boxes(dimensions: int, step: float) -> None:
    """Grids that grow, are split, packed and emptied; with and without events on the bounds."""
    rng = np.random.default_rng(dimensions)
    boxes = random_boxes(rng, 1500, dimensions, step)
    index, naive = both(list(boxes))
    points = np.round(rng.uniform(-50, 1200, (40, dimensions)) / step) * step
    tried = [Event({f"d{d}": x for d, x in enumerate(row)}) for row in points.tolist()]
    tried.append(Event({f"d{d}": 5.0 for d in range(dimensions - 1)}))
    tried.append(Event({f"d{d}": math.inf for d in range(dimensions)}))
    for event in tried:
        assert_same(index, naive, event)
    order = rng.permutation(len(boxes)).tolist()
    for id_ in order[:1300]:
        index.remove(id_)
        naive.remove(id_)
    for event in tried:
        assert_same(index, naive, event)
    for id_ in order[:600]:
        index.add(id_, boxes[id_])
        naive.add(id_, boxes[id_])
    for event in tried:
        assert_same(index, naive, event)


def test_a_chain_of_bounds_longer_than_a_leaf() -> None:
    rng = np.random.default_rng(7)
    bounds = rng.permutation(np.repeat(np.arange(1000), 3)).tolist()
    index, naive = both([Filter([Predicate("v", Operator.GT, b)]) for b in bounds])
    tried = [Event({"v": v}) for v in (-1, 0, 0.5, 1, 499, 500.5, 998, 999, 1000, math.inf)]
    for event in tried:
        assert_same(index, naive, event)
    for id_ in rng.permutation(len(bounds)).tolist()[:2500]:
        index.remove(id_)
        naive.remove(id_)
    for event in tried:
        assert_same(index, naive, event)


def columns_of(
    rng: np.random.Generator, n: int
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return {"high": rng.uniform(0, 10, n), "low": np.floor(rng.uniform(0, 10, n))}


@pytest.mark.parametrize("n", [0, 1, 700])
def test_bulk_loading_is_adding_one_by_one(n: int) -> None:
    rng = np.random.default_rng(n)
    symbols = [f"S{i}" for i in rng.integers(0, 20, n)]
    data = columns_of(rng, n)
    forms: list[list[tuple[str, str, Any]]] = [
        [("symbol", "=", symbols), ("high", ">", data["high"])],
        [("symbol", "=", symbols), ("low", "<=", data["low"])],
        [("symbol", "=", symbols)],
        [("low", ">=", data["low"]), ("low", "<", data["high"]), ("symbol", "=", symbols)],
        [("low", ">", data["low"]), ("high", "<", data["high"])],
        [("symbol", "prefix", symbols)],
        [("low", "=", data["low"])],
    ]
    index, naive = Index(), Naive()
    start = 0
    for form in forms:
        ids = np.arange(start, start + n)
        start += n
        index.add_columns(ids, form)
        for row, id_ in enumerate(ids.tolist()):
            naive.add(
                id_,
                Filter(
                    Predicate(
                        name, Operator(op), v if isinstance(v := values[row], str) else float(v)
                    )
                    for name, op, values in form
                ),
            )
    assert len(index) == len(naive) == start
    for _ in range(60):
        event = Event(
            {
                "symbol": f"S{rng.integers(0, 22)}",
                "high": float(rng.uniform(0, 11)),
                "low": int(rng.integers(0, 11)),
            }
        )
        assert_same(index, naive, event)
    for id_ in range(start):
        index.remove(id_)
    assert index._store.attributes == {}


@pytest.mark.parametrize(
    "ids", [[1, 2, 1], [0, 5, 9]], ids=["twice in the column", "already there"]
)
def test_bulk_loading_refuses_duplicates_and_adds_nothing(ids: list[int]) -> None:
    index = Index()
    index.add(5, parse_filter("a = 1"))
    with pytest.raises(DuplicateIdError, match=r"id (1|5) "):
        index.add_columns(ids, [("a", "=", ["x", "y", "z"])])
    assert len(index) == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("a", ">", [1.0])], "2 ids but 1 constants for 'a'"),
        ([("a", "=", ["x", None])], "have 1 nulls"),
        ([("a", "=", ["x", 1])], "not a column of one type"),
        ([("a", "=", ["x", "y" * 5000])], "5,000 characters"),
        ([("a", ">", [1.0, math.nan])], "NaN"),
        ([("", ">", [1.0, 2.0])], "an attribute name is empty"),
        ([("a", "~", [1.0, 2.0])], "'~' is not an operator"),
    ],
)
def test_bulk_loading_says_what_is_wrong(
    columns: list[tuple[str, str, list[object]]], said: str
) -> None:
    index = Index()
    with pytest.raises(UserError, match=said):
        index.add_columns([1, 2], columns)
    assert len(index) == 0
    assert index._store.attributes == {}


@pytest.mark.parametrize("ids", [[1.5, 2.0], ["1", "2"], [[1], [2]], [-1, 2]])
def test_bulk_loading_refuses_ids_that_cannot_be(ids: Any) -> None:
    with pytest.raises(UserError, match="id"):
        Index().add_columns(ids, [("a", "=", ["x", "y"])])


def test_batches_of_columns_in_every_form() -> None:
    index = Index()
    index.add(1, parse_filter("symbol = 'A' and volume > 2"))
    index.add(2, parse_filter("symbol present and hot = true"))
    index.add(3, parse_filter("volume = 3"))
    index.add(4, Subscription([parse_filter("symbol = 'A'"), parse_filter("symbol prefix 'A'")]))
    symbols, volumes, hot = ["A", None, "AB", "A"], [3, 3, None, 1], [True, True, None, False]
    rows = [
        Event(
            {k: v for k, v in zip(("symbol", "volume", "hot"), row, strict=True) if v is not None}
        )
        for row in zip(symbols, volumes, hot, strict=True)
    ]
    expected = [sorted(index.match(event).tolist()) for event in rows]
    assert expected == [[1, 2, 3, 4], [3], [4], [4]]
    arrow = {"symbol": pa.array(symbols), "volume": pa.array(volumes), "hot": pa.array(hot)}
    forms = [
        rows,
        {"symbol": symbols, "volume": volumes, "hot": hot, "other": [None] * 4},
        arrow,
        {**arrow, "symbol": arrow["symbol"].dictionary_encode()},
        {**arrow, "volume": np.array([3.0, 3.0, math.nan, 1.0])},
        pa.table(arrow),
        pa.RecordBatch.from_pydict(arrow),
        pa.table({**arrow, "symbol": arrow["symbol"].cast(pa.large_string())}),
    ]
    for form in forms:
        offsets, ids = index.match_batch(form)
        found = [sorted(ids[offsets[i] : offsets[i + 1]].tolist()) for i in range(4)]
        assert found == expected, type(form)


def test_a_frame_of_pandas_is_a_batch() -> None:
    pandas = pytest.importorskip("pandas")
    index = Index()
    index.add(1, parse_filter("symbol = 'YHOO' and price > 20"))
    index.add(2, parse_filter("up = true"))
    frame = pandas.DataFrame(
        {
            "symbol": ["YHOO", "YHOO", None],
            "price": [18.5, 21.0, float("nan")],
            "up": pandas.array([True, None, False], dtype="boolean"),
            "at": pandas.to_datetime(["2026-01-02"] * 3),  # of which nobody speaks
        }
    )
    offsets, ids = index.match_batch(frame)
    assert (offsets.tolist(), ids.tolist()) == ([0, 1, 2, 2], [2, 1])
    with pytest.raises(UserError, match="two columns of the batch are called 'price'"):
        index.match_batch(pandas.concat([frame, frame[["price"]]], axis=1))
    with pytest.raises(TypeError, match="events are an int; expected"):
        index.match_batch(7)


@pytest.mark.parametrize("wrong", [None, {"x": 1}, "x"])
def test_what_is_no_event(wrong: Any) -> None:
    index = Index()
    index.add(1, parse_filter("x > 1"))
    said = f"the event is {type_of(wrong)}; expected an Event"
    with pytest.raises(TypeError, match=said):
        index.match(wrong)
    with pytest.raises(TypeError, match=said):
        index.match_batch([Event({"x": 1}), wrong])
    with pytest.raises(TypeError, match="the interest is "):
        index.add(2, wrong)


def test_two_columns_of_one_name_are_refused() -> None:
    index = Index()
    index.add(1, parse_filter("x > 1"))
    table = pa.table([pa.array([1, 2]), pa.array([3, 4])], ["x", "x"])
    for batch in (table, table.to_batches()[0]):
        with pytest.raises(UserError, match="two columns of the batch are called 'x'"):
            index.match_batch(batch)


@pytest.mark.parametrize("length", [65_536, 65_537])
def test_a_string_is_as_long_in_a_column_as_in_an_event(length: int) -> None:
    index = Index()
    index.add(1, parse_filter("x prefix 'é'"))
    text = "é" * length
    column = pa.array([text, "é", None])
    forms = [
        {"x": column},
        {"x": column.dictionary_encode()},
        {"x": column.cast(pa.large_string())},
    ]
    for form in forms:
        if length > 65_536:
            with pytest.raises(LanguageError):
                Event({"x": text})
            with pytest.raises(UserError, match="column 'x' has a string of more than 65,536"):
                index.match_batch(form)
        else:
            assert index.match_batch(form)[0].tolist() == [0, 1, 2, 2]


def test_batch_columns_that_cannot_be() -> None:
    index = Index()
    index.add(1, parse_filter("a = 1 and b = 2"))
    with pytest.raises(UserError, match=r"column 'a' has the type list.*events are flat"):
        index.match_batch({"a": pa.array([[1], [2]])})
    with pytest.raises(UserError, match=r"different lengths: \[1, 2\]"):
        index.match_batch({"a": [1, 2], "b": [1]})
    with pytest.raises(UserError, match="column 'a' is not a column of one type"):
        index.match_batch({"a": [1, "x"]})


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, "7", None, True])
def test_ids_that_cannot_be(bad: object) -> None:
    for matcher in (Index(), Naive()):
        with pytest.raises(UserError, match="is not a subscription id"):
            matcher.add(bad, Filter())  # type: ignore[arg-type]


def test_large_ints_are_compared_exactly() -> None:
    """Ints beyond 2^53, where floats are too coarse, as bounds and as values, alone and in batches."""
    near = [2**53 + d for d in (-1, 0, 1, 2, 3)] + [2**62 + 1, 2**63 - 1, -(2**53) - 1]
    operators = [Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ, Operator.NE]
    index, naive = both([Filter([Predicate("v", op, x)]) for x in near for op in operators])
    values = [*near, *map(float, near)]
    for value in values:
        assert_same(index, naive, Event({"v": value}))
    whole = [v for v in values if isinstance(v, int)]
    offsets, ids = index.match_batch({"v": np.array(whole, np.int64)})
    for i, value in enumerate(whole):
        expected = naive.match(Event({"v": value})).tolist()
        assert sorted(ids[offsets[i] : offsets[i + 1]].tolist()) == sorted(expected)


def test_answers_stay_as_they_are_when_more_is_asked() -> None:
    index = Index()
    for id_ in range(100):
        index.add(id_, parse_filter(f"v >= {id_}"))
    answers = [(v, index.match(Event({"v": v}))) for v in list(range(100)) * 30]
    for v, answer in answers:
        assert sorted(answer.tolist()) == list(range(v + 1))


def test_memory_is_given_back() -> None:
    """Adding and removing the same again and again does not use more and more."""
    index = Index()
    rng = np.random.default_rng(3)
    boxes = random_boxes(rng, 300, 3, 1.0)
    chains = [parse_filter(f"s = 'S{i % 7}' and v > {i}") for i in range(900)]
    tops = []
    for _ in range(5):
        for id_, filter_ in enumerate([*boxes, *chains]):
            index.add(id_, filter_)
        tops.append(int(index._store.cells[0]))
        for id_ in rng.permutation(len(index)).tolist():
            index.remove(id_)
    assert tops[-1] <= 1.1 * tops[0]


def test_same_history_same_answers_in_the_same_order() -> None:
    def run() -> list[list[int]]:
        index = Index()
        for id_, filter_ in enumerate(random_boxes(np.random.default_rng(1), 300, 2, 1.0)):
            index.add(id_, filter_)
        return [index.match(Event({"d0": x, "d1": 500.0})).tolist() for x in range(0, 1000, 50)]

    assert run() == run()


def test_importing_roost_compiles_nothing_and_loads_no_compiler() -> None:
    code = "import sys, roost, roost.matching; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
