"""The workloads have the properties that the benchmark's description promises."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from roost.bench.workloads import WORKLOADS, Workload, workload_of
from roost.language import Operator
from roost.pipeline.workload.bluedove import CENTRE_MEANS
from roost.pipeline.workload.stock import Market, tickers

NAMES = sorted(WORKLOADS)
NUMBERS = ["open", "high", "low", "close", "volume"]


def forms(load: Workload) -> Counter[tuple[str, ...]]:
    """How many subscriptions there are of each form, such as ("symbol =", "high >")."""
    return Counter(
        tuple(f"{p.attribute} {p.operator.value}" for p in filter_.predicates)
        for filter_ in load.filters()
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_workload(name: str) -> None:
    once, again, other = (workload_of(name, seed, 50, 20) for seed in (3, 3, 4))
    assert once.filters() == again.filters()
    assert once.events() == again.events()
    assert once.filters() != other.filters()
    assert once.events() != other.events()


@pytest.mark.parametrize("name", NAMES)
def test_the_events_do_not_depend_on_how_many_subscriptions_there_are(name: str) -> None:
    assert workload_of(name, 3, 10, 20).events() == workload_of(name, 3, 99, 20).events()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_the_ids_are_all_from_zero(name: str, n: int) -> None:
    load = workload_of(name, 1, n, 1)
    assert sorted(itertools.chain.from_iterable(t.ids for t in load.templates)) == list(range(n))
    assert load.subscription_count == n == len(load.filters())
    assert all(filter_.predicates for filter_ in load.filters())


@pytest.mark.parametrize("name", NAMES)
def test_batches_are_the_events_in_order(name: str) -> None:
    load = workload_of(name, 1, 5, 10)
    batches = list(load.batches(4))
    assert [len(next(iter(batch.values()))) for batch in batches] == [4, 4, 2]
    for attribute in load.columns:
        column = [x for batch in batches for x in batch[attribute]]
        assert column == [event.attributes[attribute] for event in load.events()]


def test_bluedove_has_four_ranges_of_250_around_skewed_centres() -> None:
    load = workload_of("bluedove", 1, 4000, 1000)
    ((_, predicates),) = load.templates
    names = [f"d{d}" for d in range(4)]
    assert [name for name, *_ in predicates] == [n for n in names for _ in range(2)]
    for dimension, mean in enumerate(CENTRE_MEANS):
        low, high = (np.array(column) for _, _, column in predicates[2 * dimension :][:2])
        assert low.min() >= 0
        assert high.max() <= 1000
        inner = (low > 0) & (high < 1000)
        np.testing.assert_allclose((high - low)[inner], 250)
        assert np.all((high - low)[~inner] >= 125)
        # The hot spot: more centres near the mean than at the far end.
        centres = (low + high) / 2
        near = np.count_nonzero(np.abs(centres - mean) < 100)
        far = np.count_nonzero(np.abs(centres - (1000 - mean)) < 100)
        assert near > far if mean in (125, 875) else near > 0.2 * len(centres)
    values = np.column_stack([load.columns[name] for name in names])
    assert 0 <= values.min()
    assert values.max() < 1000
    np.testing.assert_allclose(values.mean(axis=0), 500, atol=40)


def test_no_bluedove_centre_is_pushed_to_the_edge() -> None:
    """Cropped is drawn again, not clipped: else a third of the first ranges would be 0..125."""
    ((_, predicates),) = workload_of("bluedove", 1, 4000, 1).templates
    _, _, high = predicates[1]
    assert np.asarray(high).min() > 125


def test_stock_shares() -> None:
    assert forms(workload_of("stock", 1, 20_000, 1)) == {
        ("symbol =", "high >"): 4_000,
        ("symbol =", "low <"): 4_000,
        ("symbol =", "volume >"): 4_000,
        ("symbol =",): 6_800,
        ("volume >",): 1_000,
        ("class =",): 200,
    }


def test_a_large_stock_workload_has_fewer_that_match_everything() -> None:
    sizes = {
        tuple(name for name, *_ in predicates): len(ids)
        for ids, predicates in workload_of("stock", 1, 100_000, 1).templates
    }
    assert sizes["class",] == 50
    assert sizes["symbol",] == 34_950


def test_quotes() -> None:
    load = workload_of("stock", 1, 10, 5000)
    events = [event.attributes for event in load.events()]
    assert list(events[0]) == ["class", "symbol", *NUMBERS, "date"]
    assert {event["class"] for event in events} == {"STOCK"}
    assert len({event["symbol"] for event in events}) == 500
    assert [type(events[0][name]) for name in NUMBERS] == [float, float, float, float, int]
    assert isinstance(events[0]["date"], str)
    opening, high, low, closing, volume = (np.array(load.columns[name]) for name in NUMBERS)
    assert np.all(low > 0)
    assert np.all(volume > 0)
    assert np.all(low <= np.minimum(opening, closing))
    assert np.all(high >= np.maximum(opening, closing))


def test_about_one_event_of_a_hundred_passes_a_rare_volume() -> None:
    load = workload_of("stock", 1, 1000, 20_000)
    (rare,) = (t for t in load.templates if [name for name, *_ in t.predicates] == ["volume"])
    volumes = np.array(load.columns["volume"])
    passing = [np.mean(volumes > bound) for bound in np.asarray(rare.predicates[0][2])]
    assert 0.008 < np.mean(passing) < 0.012
    assert 0.005 < min(passing)
    assert max(passing) < 0.02


@pytest.mark.parametrize("attribute", ["high", "low", "volume"])
def test_bounds_let_any_share_of_a_symbols_quotes_pass(attribute: str) -> None:
    load = workload_of("stock", 1, 2000, 50_000)
    (template,) = (t for t in load.templates if [n for n, *_ in t.predicates][1:] == [attribute])
    (_, _, symbols), (_, operator, bounds) = template.predicates
    values = np.array(load.columns[attribute])
    by_symbol: dict[str, list[int]] = {}
    for row, symbol in enumerate(load.columns["symbol"]):
        by_symbol.setdefault(symbol, []).append(row)
    shares = []
    for symbol, bound in zip(symbols, bounds, strict=True):
        own = values[by_symbol[symbol]]
        shares.append(np.mean(own > bound if operator is Operator.GT else own < bound))
    quarters = np.histogram(shares, bins=4, range=(0, 1))[0] / len(shares)
    assert quarters.min() > 0.15


def test_tickers() -> None:
    names = tickers(np.random.default_rng(0), 500)
    assert len(set(names)) == 500
    assert {len(name) for name in names} == {2, 3, 4}
    assert all(name.isalpha() and name.isupper() for name in names)


def test_a_market_is_the_same_for_every_size() -> None:
    a, b = (Market.draw(np.random.default_rng(5)) for _ in range(2))
    assert a.symbols == b.symbols
