"""The tables are those of the papers, and the same for a seed however they are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from roost.errors import UserError
from roost.language import Event, Subscription, parse_subscription
from roost.matching import Index
from roost.pipeline.schemas import attributes_of, checked
from roost.pipeline.workload.blocks import BLOCK, Block, Column, generated
from roost.pipeline.workload.bluedove import bluedove_publications, bluedove_subscriptions
from roost.pipeline.workload.quotes import QUOTE, bars
from roost.pipeline.workload.registry import WORKLOADS
from roost.pipeline.workload.relocation import relocation_publications, relocation_subscriptions
from roost.pipeline.workload.schedule import Schedule
from roost.pipeline.workload.stock import known_market, stock_publications, stock_subscriptions
from roost.pipeline.workload.thesis import thesis_publications, thesis_subscriptions
from roost.pipeline.workload.topics import (
    hierarchy_publications,
    hierarchy_subscriptions,
    overlay_publications,
    overlay_subscriptions,
)
from roost.simulation.generators import TEMPLATES, relocation, tree
from roost.simulation.generators.thesis import SILENT_TEMPLATES, Template
from roost.simulation.market import BarMarket, SyntheticMarket
from roost.simulation.statements import AddPublisher, AddSubscriber

Table = Callable[..., DataFrame]
TABLES = [
    pytest.param(
        table,
        # Fewer symbols are quicker.
        partial(make, publishers=3) if workload.name in ("thesis", "relocation") else make,
        id=f"{workload.name}-{table}",
    )
    for workload in WORKLOADS.values()
    for table, make in workload.tables.items()
    if table != "bars"
]


def filters(frame: DataFrame) -> list[Subscription]:
    return [parse_subscription(text) for text in frame.toArrow()["filter"].to_pylist()]


def form_of(subscription: Subscription) -> tuple[str, ...]:
    """What it asks about, such as ("symbol =", "high >")."""
    (filter_,) = subscription.filters
    return tuple(f"{p.attribute} {p.operator.value}" for p in filter_.predicates)


def assert_share(found: int, of: int, share: float) -> None:
    """Within four standard deviations."""
    assert abs(found - share * of) <= 4 * np.sqrt(share * (1 - share) * of)


# --- rows from numbers ----------------------------------------------------------------------------


def numbers_and_draws(block: Block) -> dict[str, Column]:
    return {"n": block.rows, "drawn": block.draws("test").uniform(size=block.size)}


def test_a_row_depends_on_its_number_only(spark: SparkSession) -> None:
    schema = pa.schema([("n", pa.int64()), ("drawn", pa.float64())])

    def made(rows: int, first: int, partitions: int | None) -> pa.Table:
        return generated(
            spark,
            numbers_and_draws,
            schema,
            seed=5,
            rows=rows,
            first=first,
            partitions=partitions,
            block_size=100,
        ).toArrow()

    whole = made(1_234, 0, None)
    assert whole["n"].to_pylist() == list(range(1_234))
    assert len(set(whole["drawn"].to_pylist())) == 1_234
    assert made(1_234, 0, 13) == whole
    for rows, first in ((5, 98), (300, 100), (1_035, 199), (0, 7)):
        assert made(rows, first, 3).to_pylist() == whole[first : first + rows].to_pylist()


def test_draws_differ_by_seed_purpose_and_block() -> None:
    drawn = [
        Block(seed, number).draws(purpose).integers(1 << 62)
        for seed in (0, 1)
        for number in (0, 1)
        for purpose in ("a", "b")
    ]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "the seed is -1"),
        ({"rows": -5}, "-5 rows"),
        ({"first": -1}, "from row -1"),
        ({"partitions": 0}, "0 partitions"),
    ],
)
def test_impossible_tables_are_refused(
    spark: SparkSession, wrong: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        bluedove_publications(spark, **{"seed": 0, **wrong})


@pytest.mark.parametrize(("table", "make"), TABLES)
def test_tables_are_the_same_for_any_partitions_and_read_back(
    spark: SparkSession, table: str, make: Table
) -> None:
    rows = 2 * BLOCK + 100
    frame = make(spark, seed=3, rows=rows, partitions=1)
    one = frame.toArrow()
    assert make(spark, seed=3, rows=rows, partitions=3).toArrow() == one
    first = BLOCK - 5
    part = make(spark, seed=3, rows=10, first=first).toArrow()
    assert part.to_pylist() == one[first : first + 10].to_pylist()
    assert make(spark, seed=4, rows=10).toArrow() != one[:10]
    assert one.column(0).to_pylist() == list(range(rows))
    if table == "publications":
        assert attributes_of(frame) == frame.columns[1:]
    else:
        checked(frame, table)
        for text in one["filter"][:500].to_pylist():
            parse_subscription(text)


# --- the schedule ---------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([0.0, 0.7, 1.0, 7.0, 59.999, 60.0, 6e7]), min_size=1, max_size=6),
    st.integers(0, 300),
    st.integers(1, 100),
)
def test_turns_are_all_publications_in_the_order_of_time(
    rates: list[float], first: int, rows: int
) -> None:
    if not any(rates):
        with pytest.raises(UserError, match="publishes; expected a rate above 0"):
            Schedule(rates)
        return
    intervals = {who: round(60e6 / rate) for who, rate in enumerate(rates) if rate}
    every = sorted(
        (sequence * interval, who, sequence)
        for who, interval in intervals.items()
        for sequence in range(first + rows)
    )
    turns = Schedule(rates).turns(first, rows)
    found = zip(
        turns.time_us.tolist(), turns.publisher.tolist(), turns.sequence.tolist(), strict=True
    )
    assert list(found) == every[first : first + rows]


def test_a_schedule_goes_on_for_long() -> None:
    turns = Schedule([60.0, 60.0, 30.0]).turns(10**12, 5)
    # 2.5 a second.
    assert turns.time_us[0] / 1e6 == pytest.approx(10**12 / 2.5, abs=1)
    assert (
        turns.sequence[turns.publisher == 2][0]
        == turns.time_us[turns.publisher == 2][0] // 2_000_000
    )


# --- 001 ------------------------------------------------------------------------------------------


def events_of(table: pa.Table, names: list[str]) -> list[Event]:
    return [Event(row) for row in table.select(names).to_pylist()]


def test_publications_are_the_quotes_of_the_simulator(spark: SparkSession) -> None:
    made = thesis_publications(spark, seed=7, rows=3_000, publishers=5, origin="yes").toArrow()
    market = SyntheticMarket(7, 5)
    added = [s for s in tree(7, publishers=5) if isinstance(s, AddPublisher)]
    intervals = {s.publisher: round(60e6 / s.rate_per_min) for s in added}
    symbols = {s.publisher: str(s.symbol) for s in added}
    events = events_of(made, QUOTE.names)
    origins = made.select(["publisher", "sequence", "time"]).to_pylist()
    for event, origin in zip(events, origins, strict=True):
        n = origin["sequence"] - 1
        assert event == market.quote(symbols[origin["publisher"]], n)
        assert origin["time"] == n * intervals[origin["publisher"]] / 1e6
    assert {type(value) for event in events for value in event.attributes.values()} == {
        str,
        float,
        int,
    }
    # Nothing is left out.
    counts = Counter(origin["publisher"] for origin in origins)
    end_us = round(origins[-1]["time"] * 1e6)
    for publisher, interval in intervals.items():
        assert abs(counts[publisher] - (end_us // interval + 1)) <= 1
    plain = thesis_publications(spark, seed=7, rows=3_000, publishers=5)
    assert plain.columns == ["publication", *QUOTE.names]


def test_quotes_start_again_when_the_bars_run_out(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(
        "symbol,open,high,low,close,volume,date\n"
        "A,1,2,1,1.5,100,x\nB,5,6,5,6,7,x\nA,2,3,2,2,200,y\nB,6,6,6,6,8,y\nA,3,4,3,3,300,z\n"
    )
    market = BarMarket(str(path))
    made = relocation_publications(spark, seed=0, rows=9, publishers=2, bars=str(path)).toArrow()
    assert events_of(made, QUOTE.names) == [market.quote("AB"[k % 2], k // 2) for k in range(9)]
    with pytest.raises(UserError, match="bars of 2 symbols, but each of the 3 publishers"):
        relocation_publications(spark, seed=0, publishers=3, bars=str(path))


def template_form(template: Template) -> tuple[str, ...]:
    bound = [f"{template.bound[0]} {template.bound[1].value}"] if template.bound else []
    return ("class =", *(["symbol ="] if template.symbol else []), *bound)


def test_subscriptions_have_the_shares_of_table_5_1(spark: SparkSession) -> None:
    n = 6_000
    loud = Counter(
        map(form_of, filters(thesis_subscriptions(spark, seed=1, rows=n, zero_traffic=0)))
    )
    for template in TEMPLATES:
        assert_share(loud[template_form(template)], n, template.share)
    quiet = filters(thesis_subscriptions(spark, seed=1, rows=n, zero_traffic=1, publishers=3))
    forms = Counter(map(form_of, quiet))
    total = sum(template.share for template in SILENT_TEMPLATES)
    for template in SILENT_TEMPLATES:
        assert_share(forms[template_form(template)], n, template.share / total)
    index: Index = Index()
    for number, subscription in enumerate(quiet):
        index.add(number, subscription)
    market = SyntheticMarket(1, 3)
    quotes = [quote for symbol in market.symbols for quote in market.quotes(symbol)]
    _, ids = index.match_batch(quotes)
    assert len(ids) == 0


def test_bounds_are_what_quotes_say_and_clients_have_places(spark: SparkSession) -> None:
    frame = thesis_subscriptions(
        spark, seed=2, rows=2_000, publishers=4, brokers=7, zero_traffic=0.25
    )
    market = SyntheticMarket(2, 4)
    seen: dict[tuple[str, str], set[Any]] = {}
    for symbol in market.symbols:
        for quote in market.quotes(symbol):
            for name in ("high", "low", "volume"):
                seen.setdefault((symbol, name), set()).add(quote.attributes[name])
    silent = 0
    for subscription in filters(frame):
        (filter_,) = subscription.filters
        asked = {p.attribute: p.constant for p in filter_.predicates}
        own = asked.get("symbol")
        if own in market.symbols:
            for name in asked.keys() & {"high", "low", "volume"}:
                assert asked[name] in seen[str(own), name]
        else:
            silent += own is not None
    # Of the silent ones, all but those with a volume only have a symbol that nobody publishes.
    assert_share(silent, 2_000, 0.25 * 0.94 / 0.99)
    table = frame.toArrow()
    assert set(table["broker"].to_pylist()) == {f"B{k}" for k in range(7)}
    assert table["subscriber"][:3].to_pylist() == ["S1", "S2", "S3"]


# --- 000 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["random", "clustered"])
def test_rated_subscriptions_are_those_of_the_simulator(
    spark: SparkSession, distribution: Any
) -> None:
    settings: dict[str, Any] = {
        "distribution": distribution,
        "publishers": 3,
        "subscribers_per_publisher": 30,
        "spread": 4,
        "brokers": 15,
    }
    table = relocation_subscriptions(spark, seed=6, **settings).toArrow()
    added = [s for s in relocation(6, **settings) if isinstance(s, AddSubscriber)]
    assert Counter(table["filter"].to_pylist()) == Counter(str(s.subscription) for s in added)
    rows = table.to_pylist()
    for publisher in range(3):
        own = rows[30 * publisher : 30 * (publisher + 1)]
        assert len({filter_ for row in own for filter_ in [row["filter"]]}) <= 3
        high = {row["broker"] for row in own if " and " not in row["filter"].split("symbol", 1)[1]}
        others = {row["broker"] for row in own} - high
        assert len(high | others) <= 4
        if distribution == "clustered":
            low = {row["broker"] for row in own if "highLow" in row["filter"]}
            assert len(high) == 1
            assert not high & low


def test_more_subscribers_go_round(spark: SparkSession) -> None:
    frame = relocation_subscriptions(
        spark, seed=6, rows=50, publishers=2, subscribers_per_publisher=10, spread=1, brokers=3
    )
    symbols = [
        "MSFT" if "MSFT" in text else "YHOO" for text in frame.toArrow()["filter"].to_pylist()
    ]
    assert symbols == (["YHOO"] * 10 + ["MSFT"] * 10) * 2 + ["YHOO"] * 10
    with pytest.raises(UserError, match="spread=4: there are only 3 brokers"):
        relocation_subscriptions(spark, seed=6, spread=4, brokers=3)


# --- 002 and 003 ----------------------------------------------------------------------------------


def test_topics_of_002(spark: SparkSession) -> None:
    table = overlay_subscriptions(spark, seed=1, brokers=1_000).toArrow()
    assert Counter(table["broker"].to_pylist()) == {f"B{k}": 3 for k in range(1_000)}
    counts = Counter(table["filter"].to_pylist())
    harmonic = sum(1 / k for k in range(1, 11))
    for k in range(1, 11):
        assert_share(counts[f"topic = 'topic{k}'"], 3_000, 1 / k / harmonic)
    published = overlay_publications(spark, seed=1, brokers=1_000, origin="yes").toArrow()
    senders = Counter(published["publisher"].to_pylist())
    assert len(senders) == 200
    assert set(senders.values()) == {150}
    for count in Counter(published["topic"].to_pylist()).values():
        assert_share(count, 30_000, 0.1)


def test_composed_subscriptions_of_002_name_different_topics(spark: SparkSession) -> None:
    frame = overlay_subscriptions(spark, seed=1, brokers=1_000, subscribers=0.5, filter_size=3)
    assert frame.count() == 1_500
    chosen: Counter[object] = Counter()
    for subscription in filters(frame):
        ((predicate,),) = (filter_.predicates for filter_ in subscription.filters)
        assert isinstance(predicate.constant, tuple)
        assert len(predicate.constant) == 3
        chosen.update(predicate.constant)
    in_order = [name for name, _ in chosen.most_common()]
    assert in_order[0] == "topic1"
    # The first of ten is among three drawn one after the other with a chance of 0.722.
    assert_share(chosen["topic1"], 1_500, first_of_three())
    with pytest.raises(UserError, match="filter_size=11: there are only 10 topics"):
        overlay_subscriptions(spark, seed=1, filter_size=11)


def first_of_three() -> float:
    """How often the most popular of ten is among three different ones that Zipf's law draws."""
    weights = [1 / k for k in range(1, 11)]
    missed = 0.0
    for a in range(1, 10):
        for b in set(range(1, 10)) - {a}:
            for c in set(range(1, 10)) - {a, b}:
                rest = sum(weights)
                chance = 1.0
                for k in (a, b, c):
                    chance *= weights[k] / rest
                    rest -= weights[k]
                missed += chance
    return 1 - missed


def test_machines_of_003_take_turns(spark: SparkSession) -> None:
    frame = hierarchy_subscriptions(
        spark, seed=1, brokers=2, subscriptions_per_machine=50, topics=4
    )
    table = frame.toArrow()
    assert len(table) == 2 * 8 * 50
    assert Counter(table["subscriber"].to_pylist()) == {f"S{k}": 50 for k in range(1, 17)}
    assert Counter(table["broker"].to_pylist()) == {"B0": 400, "B1": 400}
    assert set(table["filter"].to_pylist()) == {f"topic = 'topic{k}'" for k in range(1, 5)}
    published = hierarchy_publications(spark, seed=1, brokers=2, origin="yes")
    assert published.count() == 2 * 8 * 2_000
    last = published.toArrow()[-1:].to_pylist()[0]
    assert (last["publisher"], last["sequence"]) == ("P16", 2_000)


# --- 004 and the match benchmark ------------------------------------------------------------------


def matches_per_event(subscriptions: DataFrame, publications: DataFrame) -> float:
    index: Index = Index()
    for number, subscription in enumerate(filters(subscriptions)):
        index.add(number, subscription)
    events = publications.toArrow()
    _, ids = index.match_batch(events)
    return len(ids) / len(events)


def test_an_event_of_bluedove_matches_129_of_40_000_subscriptions(spark: SparkSession) -> None:
    subscriptions = bluedove_subscriptions(spark, seed=1, rows=4_000)
    events = bluedove_publications(spark, seed=1, rows=4_000)
    assert matches_per_event(subscriptions, events) == pytest.approx(129 / 10, rel=0.1)
    # Figure 11c: where messages are where subscriptions are, more of them match.
    adverse = bluedove_publications(spark, seed=1, rows=4_000, adverse=4)
    assert matches_per_event(subscriptions, adverse) > 1.5 * 129 / 10


def test_bluedove_ranges_are_250_wide_unless_the_dimension_ends(spark: SparkSession) -> None:
    for subscription in filters(bluedove_subscriptions(spark, seed=1, rows=500)):
        (filter_,) = subscription.filters
        constants = [p.constant for p in filter_.predicates]
        for low, high in zip(constants[::2], constants[1::2], strict=True):
            assert isinstance(low, int | float)
            assert isinstance(high, int | float)
            assert 0 <= low < high <= 1_000
            assert high - low == pytest.approx(250) or (low == 0) != (high == 1_000)


def test_shares_of_stock_subscriptions(spark: SparkSession) -> None:
    n = 6_000
    found = filters(stock_subscriptions(spark, seed=1, rows=n, everything=0.01))
    forms = Counter(map(form_of, found))
    shares = {
        ("symbol =", "high >"): 0.20,
        ("symbol =", "low <"): 0.20,
        ("symbol =", "volume >"): 0.20,
        ("symbol =",): 0.34,
        ("volume >",): 0.05,
        ("class =",): 0.01,
    }
    assert forms.keys() == shares.keys()
    for form, share in shares.items():
        assert_share(forms[form], n, share)
    market, rare = known_market(1)
    quotes = stock_publications(spark, seed=1, rows=20_000).toArrow()
    assert set(quotes["symbol"].to_pylist()) == set(market.symbols)
    assert_share(int(np.sum(quotes["volume"].to_numpy() > rare)), 20_000, 0.01)
    assert quotes["date"][0].as_py() == "2024-01-02"
    assert quotes["date"][BLOCK].as_py() == "2024-01-03"


# --- bars -----------------------------------------------------------------------------------------


def test_bars_are_those_behind_the_quotes(spark: SparkSession) -> None:
    table = bars(spark, seed=4, symbols=3, days=50, partitions=2).toArrow()
    assert bars(spark, seed=4, symbols=3, days=50, partitions=1).toArrow() == table
    market = SyntheticMarket(4, 3, 50)
    expected = [
        {name: quote.attributes[name] for name in ("symbol", "open", "low", "volume", "date")}
        for symbol in market.symbols
        for quote in market.quotes(symbol)
    ]
    assert table.select(["symbol", "open", "low", "volume", "date"]).to_pylist() == expected
    assert table["day"].to_pylist() == list(range(50)) * 3
