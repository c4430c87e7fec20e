"""How work is divided: an event meets every subscription that it matches, in just one cell."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.bench.workloads import workload_of
from roost.language import Filter
from roost.pipeline.matching.layout import (
    FILL,
    SALTED_ROWS,
    Layout,
    Sample,
    best_routing,
    layout_of,
    rows_moved,
)
from roost.pipeline.matching.loading import Flat
from roost.pipeline.matching.routing import Routing
from roost.pipeline.parsed import to_arrow
from roost.pipeline.schemas import SCHEMAS
from tests.pipeline.matching.cases import COLUMNS, random_case

ARROW = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "float": pa.float32(),
}


def flat_of(interests: dict[int, Any]) -> Flat:
    ids = pa.array(list(interests), pa.int64())
    return Flat.of(pa.record_batch([ids, to_arrow(interests.values())], SCHEMAS["parsed"]))


routings = st.builds(
    lambda name, buckets, cuts: Routing(
        name, len(cuts) + 1 if cuts else buckets, tuple(sorted(cuts))
    ),
    st.sampled_from([*(name for name, _, _ in COLUMNS), "nowhere"]),
    st.integers(1, 9),
    st.sets(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 2.0**53, 2.0**63]), max_size=5),
)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    routing=st.one_of(routings, st.just(Routing())),
    parts=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=9, max_size=9),
    as_values=st.booleans(),
)
def test_a_match_is_found_in_one_cell(
    seed: int, routing: Routing, parts: list[tuple[int, int]], as_values: bool
) -> None:
    case = random_case(seed, subscriptions=120, publications=25)
    layout = Layout(
        routing,
        tuple(pieces for pieces, _ in parts[: routing.buckets]),
        tuple(salts for _, salts in parts[: routing.buckets]),
    )
    rows, cells = layout.cells_of_subscriptions(flat_of(case.subscriptions))
    assert len({*zip(rows.tolist(), cells.tolist(), strict=True)}) == len(rows)
    homes = defaultdict(set)
    for row, cell in zip(rows.tolist(), cells.tolist(), strict=True):
        homes[3 * row].add(cell)
    keys = np.array([row[0] for row in case.rows])
    names = [name for name, _, _ in COLUMNS]
    if as_values:
        values = [event.attributes.get(str(routing.attribute)) for event in case.events()]
        buckets = routing.of_values(values, keys)
    elif routing.attribute in names:
        at = names.index(routing.attribute)
        column = pa.array([row[at + 1] for row in case.rows], ARROW[COLUMNS[at][1]])
        buckets = routing.of_column(column, keys)
    else:
        buckets = routing.of_column(None, keys)
    rows, cells = layout.cells_of_publications(buckets, keys)
    assert cells.max() < layout.cells
    assert buckets.max() < routing.buckets
    visits = defaultdict(list)
    for row, cell in zip(rows.tolist(), cells.tolist(), strict=True):
        visits[row].append(cell)
    for publication, subscription in case.pairs():
        assert sum(cell in homes[subscription] for cell in visits[publication]) == 1
    for publication in range(len(case.rows)):
        for cells_of_one in homes.values():
            assert sum(cell in cells_of_one for cell in visits[publication]) <= 1


def sample_of(name: str, subscriptions: int = 4_000, events: int = 4_000) -> Sample:
    load = workload_of(name, 3, subscriptions, events)
    filters: dict[int, Filter] = dict(enumerate(load.filters()))
    columns = {name: pa.array(column) for name, column in load.columns.items()}
    weights = np.full(subscriptions, 40)
    return Sample(
        flat_of(filters),
        weights,
        40 * subscriptions,
        subscriptions,
        events,
        columns,
        np.arange(events),
    )


def test_an_attribute_that_most_pin_is_hashed() -> None:
    routing = best_routing(sample_of("stock"), weight_limit=20_000, tasks=2)
    assert (routing.attribute, routing.cuts) == ("symbol", ())
    assert routing.buckets >= 8


def test_an_attribute_that_most_bound_is_cut_into_ranges() -> None:
    sample = sample_of("bluedove")
    routing = best_routing(sample, weight_limit=60_000, tasks=2)
    assert str(routing.attribute).startswith("d")
    assert len(routing.cuts) == routing.buckets - 1 > 0
    # Much better than to send every event to every part.
    assert rows_moved(sample, routing, 60_000, 2) < 0.8 * rows_moved(sample, Routing(), 60_000, 2)


def test_without_a_useful_attribute_only_subscriptions_are_divided() -> None:
    flat = flat_of({n: Filter() for n in range(100)})
    sample = Sample(flat, np.full(100, 10), 1_000, 100, 50, {}, np.arange(50))
    routing = best_routing(sample, weight_limit=100, tasks=2)
    assert routing == Routing()
    layout = layout_of(routing, np.array([1_000.0]), 100, np.array([50.0]), 2)
    assert (layout.pieces, layout.salts, layout.cells) == ((13,), (1,), 13)


@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    publications=st.lists(st.floats(0, 1e7), min_size=20, max_size=20),
    limit=st.floats(100, 1e6),
    tasks=st.integers(1, 16),
)
def test_no_cell_is_too_large(
    weights: list[float], publications: list[float], limit: float, tasks: int
) -> None:
    routing = Routing("x", len(weights))
    rows = np.array(publications[: len(weights)])
    layout = layout_of(routing, np.array(weights), limit, rows, tasks)
    pieces, salts = np.array(layout.pieces), np.array(layout.salts)
    assert (np.array(weights) / pieces <= FILL * limit + 1e-6).all()
    fair = np.dot(rows, pieces) / (2 * tasks)
    assert (rows / salts <= max(1.5 * fair, SALTED_ROWS) + 1).all()
    assert layout.cells == (pieces * salts).sum()


def test_equal_numbers_share_a_bucket() -> None:
    for routing in (Routing("x", 7), Routing("x", 3, (0.0, 5.0))):
        keys = np.arange(2)
        whole = routing.of_column(pa.array([0, 5], pa.int64()), keys)
        real = routing.of_column(pa.array([-0.0, 5.0], pa.float64()), keys)
        assert whole.tolist() == real.tolist() == routing.of_values([0, 5.0], keys).tolist()


def test_events_without_the_attribute_are_scattered() -> None:
    keys = np.arange(8_000)
    for column in (None, pa.array([None] * 8_000, pa.float64()), pa.array([np.nan] * 8_000)):
        counts = np.bincount(Routing("x", 8).of_column(column, keys), minlength=8)
        assert counts.min() > 900


@pytest.mark.parametrize("parts", [2, 5, 64])
def test_pieces_and_salts_are_even(parts: int) -> None:
    layout = Layout(Routing("x", 4), (parts,) * 4, (1,) * 4)
    flat = flat_of({n: Filter() for n in range(20_000)})
    _, cells = layout.cells_of_subscriptions(flat)
    counts = np.bincount(cells, minlength=layout.cells)
    assert counts.min() > 0.6 * 20_000 / parts
    salted = Layout(Routing("x", 4), (1,) * 4, (parts,) * 4)
    keys = np.arange(40_000)
    _, cells = salted.cells_of_publications(salted.routing.of_column(None, keys), keys)
    counts = np.bincount(cells, minlength=salted.cells)
    assert counts.min() > 0.4 * 10_000 / parts
