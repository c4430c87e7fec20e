"""The workloads are those of the papers, and the same for the same seed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from roost.broker.messages import Frame, Publication
from roost.errors import UserError
from roost.language import Event, Subscription
from roost.simulation.generators import (
    GENERATORS,
    TEMPLATES,
    ThesisSubscriptions,
    generate,
    global_,
    local,
    relocation,
    thesis_publishers,
    tree,
)
from roost.simulation.generators.relocation import bound_above, medium_bounds
from roost.simulation.market import SyntheticMarket
from roost.simulation.statements import (
    AddBroker,
    AddLink,
    AddPublisher,
    AddSubscriber,
    ChangeRate,
    End,
    Set,
    Statement,
    UseBars,
)
from roost.simulation.workload_file import parse_workload, write_workload
from roost.simulation.world import World
from roost.wire import delivery_sizes

S = TypeVar("S", bound=Statement)
SMALL = {
    "local": {"publishers": "5", "subscribers": "20"},
    "tree": {"publishers": "5", "subscribers": "20", "brokers": "7"},
    "global": {"publishers": "5", "subscribers": "20", "clusters": "2"},
    "relocation": {"publishers": "3", "subscribers_per_publisher": "10", "spread": "4"},
}
NAMES = sorted(GENERATORS)

# 001 table 5.1, as percentages of (attribute operator, ...).
TABLE_5_1 = {
    ("class =", "symbol =", "high >"): 20,
    ("class =", "symbol =", "low <"): 20,
    ("class =", "symbol =", "volume >"): 20,
    ("class =", "symbol ="): 34,
    ("class =", "volume >"): 5,
    ("class =",): 1,
}


def only(kind: type[S], statements: Iterable[Statement]) -> list[S]:
    return [s for s in statements if isinstance(s, kind)]


def form(subscription: Subscription) -> tuple[str, ...]:
    (filter_,) = subscription.filters
    return tuple(f"{p.attribute} {p.operator.value}" for p in filter_.predicates)


def symbol_of(subscription: Subscription) -> object:
    return subscription.filters[0].predicates[1].constant


def share(subscription: Subscription, quotes: Sequence[Event]) -> float:
    return sum(map(subscription.matches, quotes)) / len(quotes)


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_statements(name: str) -> None:
    once, again, other = (generate(name, seed, SMALL[name]) for seed in (3, 3, 4))
    assert once == again
    assert once != other


def test_the_hashes_of_the_process_do_not_matter() -> None:
    sizes = {name: SMALL[name] for name in NAMES}
    program = (
        "import hashlib\n"
        "from roost.simulation.generators import generate\n"
        f"for name, size in {sizes!r}.items():\n"
        "    text = repr(generate(name, 3, size))\n"
        "    print(name, hashlib.sha256(text.encode()).hexdigest())"
    )
    here = [
        f"{name} {hashlib.sha256(repr(generate(name, 3, size)).encode()).hexdigest()}"
        for name, size in sizes.items()
    ]
    for hash_seed in ("0", "1"):
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.splitlines() == here


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_statements_says_the_same(name: str) -> None:
    statements = generate(name, 3, SMALL[name])
    text = write_workload(statements)
    again = parse_workload(text, name, None)
    settings = only(Set, statements)
    assert write_workload([*settings, *again.statements]) == text
    assert len(again.statements) == len(statements) - len(settings)
    assert max(map(len, text.splitlines())) < 120


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_names_the_market_that_it_was_drawn_from(name: str) -> None:
    statements = generate(name, 3, SMALL[name])
    assert statements[0] == Set(at=0.0, key="market_seed", value="3")
    assert parse_workload(write_workload(statements), name, None).settings.market_seed == 3


@pytest.mark.parametrize("name", NAMES)
def test_statements_are_in_order_and_end(name: str) -> None:
    statements = generate(name, 3, {**SMALL[name], "until_s": "900.5"})
    times = [statement.at for statement in statements]
    assert times == sorted(times)
    assert times == [round(at, 3) for at in times]
    assert statements[-1] == End(at=900.5)


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_after_the_end_is_left_out(name: str) -> None:
    statements = generate(name, 3, {**SMALL[name], "until_s": "3"})
    assert len(only(End, statements)) == 1
    assert statements[-1] == End(at=3.0)
    assert only(AddBroker, statements)
    assert not only(ChangeRate, statements)


@pytest.mark.parametrize("name", NAMES)
def test_constants_come_from_the_bars_of_a_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    lines = [f"{s},10,11,{9 + n / 100:.2f},10,{n + 1},5-Sep-96" for n in range(50) for s in "ABCDE"]
    path.write_text("\n".join(["symbol,open,high,low,close,volume,date", *lines]), "utf-8")
    statements = generate(name, 3, {**SMALL[name], "bars": str(path)})
    assert statements[1] == UseBars(at=0.0, path=str(path))
    assert {p.symbol for p in only(AddPublisher, statements)} <= set("ABCDE")
    volumes = [
        p.constant
        for s in only(AddSubscriber, statements)
        for p in s.subscription.filters[0].predicates
        if p.attribute == "volume"
    ]
    assert all(isinstance(volume, int) and volume <= 100 for volume in volumes)
    with pytest.raises(UserError, match="bars of 5 symbols, but each of the 6 publishers needs"):
        generate(name, 3, {**SMALL[name], "bars": str(path), "publishers": "6"})


# --- 001 ------------------------------------------------------------------------------------------


def test_templates_are_as_often_as_in_001_table_5_1() -> None:
    market = SyntheticMarket(1, 5)
    subscriptions = ThesisSubscriptions(market, market.symbols)
    rng = np.random.default_rng(1)
    n = 20_000
    found = Counter(form(subscriptions.draw(rng)) for _ in range(n))
    assert set(found) == set(TABLE_5_1)
    for template, percent in TABLE_5_1.items():
        expected = n * percent / 100
        assert abs(found[template] - expected) < 4 * expected**0.5
    assert sum(template.share for template in TEMPLATES) == pytest.approx(1)


def test_bounds_are_what_some_quote_of_the_symbol_says() -> None:
    """001 section 5.1."""
    market = SyntheticMarket(1, 3, days=50)
    subscriptions = ThesisSubscriptions(market, market.symbols)
    rng = np.random.default_rng(1)
    for subscription in (subscriptions.draw(rng) for _ in range(500)):
        predicates = {p.attribute: p.constant for p in subscription.filters[0].predicates}
        symbols = [str(predicates["symbol"])] if "symbol" in predicates else market.symbols
        for name in ("high", "low", "volume"):
            if name in predicates:
                quoted = {q.attributes[name] for s in symbols for q in market.quotes(s)}
                assert predicates[name] in quoted


def test_silent_subscriptions_match_no_quote_of_a_published_symbol() -> None:
    market = SyntheticMarket(1, 8, days=100)
    # All symbols of the market are published: others have to be found.
    for published in (market.symbols[:3], market.symbols):
        subscriptions = ThesisSubscriptions(market, published)
        rng = np.random.default_rng(1)
        drawn = [subscriptions.draw_silent(rng) for _ in range(400)]
        quotes = [quote for symbol in published for quote in market.quotes(symbol)]
        assert not any(s.matches(quote) for s in drawn for quote in quotes)
        assert {form(s) for s in drawn} == set(TABLE_5_1) - {("class =",)}


def test_rates_are_uniform_up_to_60_and_symbols_unique() -> None:
    """001 section 5.1."""
    symbols = SyntheticMarket(1, 2_000).symbols
    added = thesis_publishers(np.random.default_rng(1), symbols, ["A", "B"], 5.0, 0.1)
    assert [p.symbol for p in added] == list(symbols)
    assert [p.at for p in added[:3]] == [5.0, 5.1, 5.2]
    assert {p.broker for p in added} == {"A", "B"}
    rates = np.array([p.rate_per_min for p in added])
    assert np.all(rates == rates.round(3))
    in_tenths, _ = np.histogram(rates, 10, (0, 60))
    assert in_tenths.sum() == 2_000
    assert np.all(np.abs(in_tenths - 200) < 4 * 200**0.5)


@pytest.fixture(scope="module")
def local_load() -> list[Statement]:
    return local(1)


def test_local_has_the_brokers_of_001_table_5_3(local_load: list[Statement]) -> None:
    brokers = only(AddBroker, local_load)
    assert {b.broker: (b.cpu_mhz, b.memory_mb, b.bandwidth_mbps) for b in brokers} == {
        "B0": (2000, 32, 10),
        "B1": (100, 16, 0.5),
        "B2": (200, 16, 1),
        "B3": (400, 32, 2),
        "B4": (1000, 32, 5),
    }
    assert [b.broker for b in brokers] == ["B0", "B1", "B2", "B3", "B4"]
    assert [(k.a, k.b) for k in only(AddLink, local_load)] == [("B0", f"B{i}") for i in range(1, 5)]
    assert all(s.at <= 0.5 for s in local_load if isinstance(s, AddBroker | AddLink))


def test_local_has_the_clients_of_001_section_5_2_1(local_load: list[Statement]) -> None:
    publishers = only(AddPublisher, local_load)
    assert len({p.symbol for p in publishers}) == len(publishers) == 40
    assert {p.broker for p in publishers} == {"B0"}
    assert [p.at for p in publishers] == [round(5 + i / 10, 3) for i in range(40)]
    subscribers = only(AddSubscriber, local_load)
    assert len({s.subscriber for s in subscribers}) == len(subscribers) == 2_000
    assert {s.broker for s in subscribers} == {"B1"}
    in_tenths, _ = np.histogram([s.at for s in subscribers], 10, (10, 1010))
    assert in_tenths.sum() == 2_000
    assert np.all(np.abs(in_tenths - 200) < 4 * 200**0.5)
    assert local_load[-1] == End(at=5000.0)


def test_half_of_the_publishers_double_their_rate_at_3000_s(local_load: list[Statement]) -> None:
    """001 section 5.2.1."""
    before = {p.publisher: p.rate_per_min for p in only(AddPublisher, local_load)}
    changes = only(ChangeRate, local_load)
    assert {c.at for c in changes} == {3000.0}
    assert len({c.publisher for c in changes}) == len(changes) == 20
    assert all(c.rate_per_min == round(2 * before[c.publisher], 3) for c in changes)


@pytest.mark.parametrize("zero_traffic", [0.0, 0.25, 1.0])
def test_the_zero_traffic_share_really_has_none(zero_traffic: float) -> None:
    """001 section 5.2.1."""
    statements = local(1, publishers=8, subscribers=200, zero_traffic=zero_traffic)
    market = SyntheticMarket(1, 8)
    quotes = {p.symbol: market.quotes(str(p.symbol)) for p in only(AddPublisher, statements)}
    silent = 0
    for subscriber in only(AddSubscriber, statements):
        subscription = subscriber.subscription
        if "symbol =" in form(subscription):
            silent += symbol_of(subscription) not in quotes
        else:
            silent += not any(subscription.matches(q) for own in quotes.values() for q in own)
    assert silent == round(200 * zero_traffic)


def test_more_subscribers_leave_the_publishers_as_they_are() -> None:
    few, many = (local(1, publishers=5, subscribers=n) for n in (5, 50))
    for kind in (AddPublisher, ChangeRate):
        assert only(kind, few) == only(kind, many)


def test_a_tree_is_balanced_and_its_brokers_are_equal() -> None:
    statements = tree(1, brokers=13, fanout=3, cpu_mhz=700, memory_mb=8, bandwidth_mbps=2)
    brokers = only(AddBroker, statements)
    assert [b.broker for b in brokers] == [f"B{i}" for i in range(13)]
    assert {(b.cpu_mhz, b.memory_mb, b.bandwidth_mbps) for b in brokers} == {(700, 8, 2)}
    links = {(link.a, link.b) for link in only(AddLink, statements)}
    assert links == {(f"B{(i - 1) // 3}", f"B{i}") for i in range(1, 13)}


def test_the_clients_of_a_tree_are_everywhere_and_soon() -> None:
    statements = tree(1)
    for clients in (only(AddPublisher, statements), only(AddSubscriber, statements)):
        assert all(0.5 <= client.at <= 5 for client in clients)
    at = Counter(s.broker for s in only(AddSubscriber, statements))
    assert len(at) == 63
    assert max(at.values()) < 2 * 2_000 / 63
    assert len({p.broker for p in only(AddPublisher, statements)}) > 20
    assert {form(s.subscription) for s in only(AddSubscriber, statements)} == set(TABLE_5_1)


# --- 000 ------------------------------------------------------------------------------------------

LOW = ("class =", "symbol =", "highLow%Diff >")
MEDIUM = ("class =", "symbol =", "volume >", "openClose%Diff >")
HIGH = ("class =", "symbol =")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("rate", "until_s"), [(60.0, 1085.0), (30.0, 400.0)])
def test_ratings_sink_what_000_section_5_says(seed: int, rate: float, until_s: float) -> None:
    """Low about 10 %, medium about 50 %, high all, of what the publisher publishes in the run."""
    statements = relocation(seed, publishers=10, rate_per_min=rate, until_s=until_s)
    market = SyntheticMarket(seed, 10)
    published = round(rate * until_s / 60)
    tolerance = {LOW: (0.10, 0.02), MEDIUM: (0.50, 0.02), HIGH: (1.0, 0.0)}
    seen = set()
    for subscriber in only(AddSubscriber, statements):
        subscription = subscriber.subscription
        if subscription not in seen:
            seen.add(subscription)
            quotes = market.quotes(str(symbol_of(subscription)))[:published]
            expected, off = tolerance[form(subscription)]
            assert abs(share(subscription, quotes) - expected) <= off
    assert len(seen) == 3 * 10


@pytest.mark.parametrize(
    ("distribution", "percent"),
    [("random", {LOW: 70, MEDIUM: 25, HIGH: 5}), ("clustered", {LOW: 95, HIGH: 5})],
)
def test_the_mix_is_that_of_000_section_5(distribution: str, percent: dict[object, int]) -> None:
    statements = generate("relocation", 1, {"distribution": distribution})
    subscribers = only(AddSubscriber, statements)
    assert len(subscribers) == 40 * 50
    found = Counter(form(s.subscription) for s in subscribers)
    assert found == {rating: 20 * share for rating, share in percent.items()}
    by_symbol = Counter(symbol_of(s.subscription) for s in subscribers)
    assert set(by_symbol.values()) == {50}


def brokers_by_symbol(statements: Sequence[Statement], *ratings: object) -> dict[object, set[str]]:
    found = defaultdict(set)
    for s in only(AddSubscriber, statements):
        if form(s.subscription) in ratings:
            found[symbol_of(s.subscription)].add(s.broker)
    return found


def test_random_subscribers_of_a_publisher_are_on_so_many_brokers() -> None:
    places = brokers_by_symbol(relocation(1, spread=6), LOW, MEDIUM, HIGH)
    assert {len(brokers) for brokers in places.values()} == {6}
    assert len(set().union(*places.values())) > 50


def test_clustered_high_rated_subscribers_have_a_broker_to_themselves() -> None:
    """000 section 5.1."""
    statements = relocation(1, distribution="clustered", spread=6)
    high, low = (brokers_by_symbol(statements, rating) for rating in (HIGH, LOW))
    assert {len(brokers) for brokers in high.values()} == {1}
    assert {len(brokers) for brokers in low.values()} == {5}
    assert not any(high[symbol] & low[symbol] for symbol in high)


def test_with_a_spread_of_one_all_are_at_one_broker() -> None:
    statements = relocation(1, distribution="clustered", spread=1, publishers=10)
    places = brokers_by_symbol(statements, LOW, HIGH)
    assert {len(brokers) for brokers in places.values()} == {1}


def test_no_spread_is_wider_than_the_brokers() -> None:
    with pytest.raises(UserError, match="only 5 brokers"):
        relocation(1, brokers=5, spread=6)


def test_a_bound_lets_the_nearest_share_pass() -> None:
    ties = np.array([0.0] * 6 + [0.01] * 3 + [0.02])
    assert bound_above(ties, 0.1) == 0.01
    assert bound_above(ties, 0.45) == 0.0
    assert bound_above(ties, 0.9) < 0.0
    assert bound_above(np.array([5.0]), 0.2) == 5.0


def test_medium_bounds_share_the_work() -> None:
    rng = np.random.default_rng(1)
    volumes, moves = rng.random(1_000), rng.random(1_000)
    volume, move = medium_bounds(volumes, moves)
    assert abs(np.mean((volumes > volume) & (moves > move)) - 0.5) <= 0.005
    assert abs(np.mean(volumes > volume) - 0.5**0.5) < 0.03
    assert abs(np.mean(moves > move) - 0.5**0.5) < 0.03


def test_medium_bounds_cope_with_days_without_a_move() -> None:
    volumes, moves = np.arange(100.0), np.array([0.0] * 80 + [0.01] * 20)
    volume, move = medium_bounds(volumes, moves)
    assert move < 0
    assert np.mean(volumes > volume) == 0.5


# --- clusters -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def global_load() -> list[Statement]:
    return global_(1)


def test_global_has_the_brokers_of_001_table_5_4(global_load: list[Statement]) -> None:
    brokers = only(AddBroker, global_load)
    assert {b.broker: (b.cpu_mhz, b.memory_mb, b.bandwidth_mbps) for b in brokers} == {
        **{f"B{k}0": (3000, 128, 10) for k in range(1, 5)},
        "B11": (300, 128, 1),
        "B12": (200, 128, 0.5),
        "B21": (350, 64, 1),
        "B22": (400, 64, 1.5),
        "B31": (266, 64, 1),
        "B32": (700, 64, 2),
        "B41": (166, 64, 0.5),
        "B42": (233, 128, 0.5),
    }
    links = {(link.a, link.b) for link in only(AddLink, global_load)}
    assert links == {
        ("B10", "B20"),
        ("B20", "B30"),
        ("B30", "B40"),
        *((f"B{k}0", f"B{k}{edge}") for k in range(1, 5) for edge in (1, 2)),
    }
    assert all(s.at <= 0.5 for s in global_load if isinstance(s, AddBroker | AddLink))


def test_global_has_the_clients_of_001_section_5_2_2(global_load: list[Statement]) -> None:
    publishers = only(AddPublisher, global_load)
    assert len({p.symbol for p in publishers}) == len(publishers) == 40
    assert {p.broker for p in publishers} == {"B10"}
    assert publishers[0].at == 5
    subscribers = only(AddSubscriber, global_load)
    assert len({s.subscriber for s in subscribers}) == len(subscribers) == 2_000
    assert {s.broker for s in subscribers} == {"B11"}
    assert all(10 <= s.at <= 1_010 for s in subscribers)
    changes = only(ChangeRate, global_load)
    assert ({c.at for c in changes}, len(changes)) == ({8_000.0}, 20)
    assert global_load[-1] == End(at=12_000.0)


def test_global_with_the_machines_of_001_section_5_3_2() -> None:
    """Table 5.5 in a star; or any number of equal clusters."""
    star = global_(1, shape="star", machines="micro", publishers=3, subscribers=5)
    machines = {b.broker: b.cpu_mhz for b in only(AddBroker, star)}
    assert (machines["B11"], machines["B12"], machines["B10"]) == (266, 700, 3000)
    assert {link.a for link in only(AddLink, star) if link.b.endswith("0")} == {"B10"}
    long = global_(1, clusters=6, machines="equal", publishers=3, subscribers=5)
    assert {(b.cpu_mhz, b.memory_mb, b.bandwidth_mbps) for b in only(AddBroker, long)} == {
        (2000, 32, 10),
        (500, 64, 3),
    }
    assert ("B50", "B60") in {(link.a, link.b) for link in only(AddLink, long)}
    assert {"B61", "B62"} <= {b.broker for b in only(AddBroker, long)}
    with pytest.raises(UserError, match=r"5 clusters of macro machines; there are 4, or any"):
        global_(1, clusters=5, publishers=3)


def test_a_delivery_of_global_has_about_300_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """001 says nothing of it; with this, output ratios are like those of its figures."""
    sizes: list[int] = []

    def weighed(publication: Publication, frames: Sequence[tuple[int, Frame]]) -> list[int]:
        found = list(delivery_sizes(publication, frames))
        sizes.extend(found)
        return found

    monkeypatch.setattr("roost.simulation.host.delivery_sizes", weighed)
    text = write_workload(global_(1, clusters=1, subscribers=400, until_s=60.0))
    workload = parse_workload(text, "global", None)
    World(workload.settings, workload.statements, seed=1).run(60.0)
    assert len(sizes) > 100
    assert abs(np.mean(sizes) - 300) < 3


# --- the registry ---------------------------------------------------------------------------------


def test_generators_say_what_they_are() -> None:
    for name, generator in GENERATORS.items():
        assert generator.name == name
        assert generator.description.endswith(".")
        assert generator.parameters["until_s"].kind == "a number"
    assert GENERATORS["local"].parameters["subscribers"].default == 2_000
    assert GENERATORS["tree"].parameters["bars"].kind == "a text"
    assert GENERATORS["relocation"].parameters["distribution"].kind == "random or clustered"
    assert "seed" not in GENERATORS["local"].parameters


def test_parameters_are_set_from_texts() -> None:
    values = {"publishers": "3", "subscribers": "7", "zero_traffic": "1", "until_s": "4000"}
    assert generate("local", 5, values) == local(
        5, publishers=3, subscribers=7, zero_traffic=1.0, until_s=4000.0
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"subscriber": "7"}, "local: unknown parameter 'subscriber'; there are publishers=40, "),
        ({"subscribers": "many"}, "local: subscribers='many' will not do"),
        ({"subscribers": "2.5"}, "it takes a whole number; there are publishers=40, subs"),
        ({"subscribers": "-1"}, "local: subscribers='-1' will not do (Expected `int` >= 0)"),
        ({"publishers": "0"}, "local: publishers='0' will not do"),
        ({"zero_traffic": "1.5"}, "local: zero_traffic='1.5' will not do"),
        ({"until_s": "inf"}, "local: until_s='inf' will not do"),
        ({"until_s": "nan"}, "local: until_s='nan' will not do"),
        ({"until_s": ""}, "local: until_s='' will not do"),
    ],
)
def test_wrong_parameters_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as refused:
        generate("local", 1, values)
    assert message in str(refused.value)


def test_wrong_names_and_seeds_are_refused() -> None:
    with pytest.raises(UserError, match="no generator is called 'loca'; there are local, tree, re"):
        generate("loca", 1, {})
    with pytest.raises(UserError, match="the seed is -1; expected 0 or more"):
        generate("local", -1, {})
    with pytest.raises(UserError, match=r"takes random or clustered; there are .*spread=10"):
        generate("relocation", 1, {"distribution": "even"})
