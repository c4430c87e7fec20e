"""The overlap index against the obvious loop, which asks `overlaps` of every interest."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from roost.errors import UserError
from roost.language import (
    Advertisement,
    Filter,
    Interest,
    Operator,
    Predicate,
    Value,
    filters_of,
    overlaps,
    parse_advertisement,
    parse_filter,
    parse_subscription,
)
from roost.matching import OverlapIndex
from roost.matching import overlaps as module
from roost.matching.contract import DuplicateIdError, UnknownIdError
from tests.language.core_strategies import Pool, interests, pools, predicates

NEVER = "x > 1 and x < 0"


def index_of(*texts: str) -> OverlapIndex:
    """An index of these interests, with ids from 0."""
    index = OverlapIndex()
    for i, text in enumerate(texts):
        index.add(i, parse_subscription(text))
    return index


def check_same(index: OverlapIndex, held: dict[int, Interest], query: Interest) -> list[int]:
    expected = [id_ for id_, interest in held.items() if overlaps(interest, query)]
    assert index.overlapping(query) == expected
    assert index.any_overlapping(query) == bool(expected)
    return expected


# --- the two uses ---------------------------------------------------------------------------------

PRESENT = ("open", "high", "low", "close", "volume")


def stock(symbol: str, kind: str = "") -> Advertisement:
    """The thesis' advertisement of a symbol."""
    present = "".join(f" and {name} present {kind}" for name in PRESENT)
    return parse_advertisement(f"class = 'STOCK' and symbol = '{symbol}'{present}")


@pytest.mark.parametrize("kind", ["", "number"])
def test_advertisements_for_a_subscription(kind: str) -> None:
    index = OverlapIndex()
    for i, symbol in enumerate(("YHOO", "IBM", "MSFT")):
        index.add(i, stock(symbol, kind))
    index.add(3, parse_advertisement("class = 'SPORTS' and type present"))
    for text, expected in {
        "class = 'STOCK' and symbol = 'IBM' and high > 10": [1],
        "class = 'STOCK' and symbol = 'IBM' and volume > 10 and volume < 5": [],
        "class = 'STOCK' and symbol in ('IBM', 'YHOO', 'GOOG')": [0, 1],
        "class = 'STOCK' and volume > 300000": [0, 1, 2],
        "class = 'STOCK'": [0, 1, 2],
        "class = 'STOCK' and analyst = 'Smith'": [0, 1, 2],
        "class = 'STOCK' and high = 'a lot'": [] if kind else [0, 1, 2],
        "symbol prefix 'Y'": [0, 3],
        "volume > 1000": [0, 1, 2, 3],
        "class = 'NEWS'": [],
    }.items():
        assert index.overlapping(parse_subscription(text)) == expected
        assert index.any_overlapping(parse_subscription(text)) == bool(expected)


def test_subscriptions_for_an_advertisement() -> None:
    index = index_of(
        "symbol = 'YHOO' and high > 10",
        "symbol = 'IBM'",
        "volume > 300000",
        "class = 'STOCK'",
        "symbol = 'YHOO' and high = 'a lot'",
        "class = 'SPORTS' or symbol = 'YHOO'",
    )
    assert index.overlapping(stock("YHOO")) == [0, 2, 3, 4, 5]
    assert index.overlapping(stock("YHOO", "number")) == [0, 2, 3, 5]
    assert index.overlapping(stock("GOOG")) == [2, 3]


# --- what meets what ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ("x = 1", "x = 1.0", True),
        ("x in (1, 2)", "x in (2.0, 3.0)", True),
        ("x = 0.0", "x = -0.0", True),
        ("x = 9007199254740993", "x = 9007199254740992.0", False),
        ("x = 1", "x = true", False),
        ("x in (0, 1)", "x in (false, true)", False),
        ("x in (1, true)", "x in (2, true)", True),
        ("x present number", "x = true", False),
        ("x present bool", "x != true", True),
        ("x >= 0", "x = true", False),
        ("x = 1", "x = '1'", False),
        ("x prefix 'a'", "x in ('ab', 'b')", True),
        ("x prefix 'a'", "x in (1, 'b')", False),
        ("x prefix 'a'", "x prefix 'ab'", True),
        ("x prefix 'a'", "x prefix 'b'", False),
        ("x prefix 'a'", "x > 1", False),
        ("x != 1", "x >= 1 and x <= 1", False),
        ("x != 1", "x >= 1 and x <= 2", True),
        ("x > 1", "x < 1", False),
        ("x >= 1", "x <= 1", True),
        ("x > 9007199254740992", "x < 9007199254740993", False),
        ("x present", "x = true", True),
        ("x present and x present string", "x = 'a'", True),
        ("x present and x present string", "x = 1", False),
        ("x present string and x present number", "*", False),
        ("x present string and x != 'a'", "x = 'a'", False),
        ("x <= inf", "x = 'a'", False),
        ("x = 1", "y = 2", True),
        ("*", "x = 1", True),
        ("*", "*", True),
        (NEVER, "*", False),
        (NEVER, NEVER, False),
        (f"({NEVER}) or y = 1", "x = 3", True),
        ("x > inf", "y = 1", False),
        ("x < ''", "y = 1", False),
    ],
)
def test_pairs(a: str, b: str, answer: bool) -> None:
    for one, other in ((a, b), (b, a)):
        assert overlaps(parse_subscription(one), parse_subscription(other)) == answer
        index = index_of(one)
        assert index.overlapping(parse_subscription(other)) == [0] * answer
        assert index.any_overlapping(parse_subscription(other)) == answer


def test_each_id_comes_once() -> None:
    index = index_of("x = 1 or y = 1 or (x = 1 and y = 1)", "x in (1, 2, 3)", "x = 9")
    assert index.overlapping(parse_subscription("x in (1, 2, 3) or x = 2 or y = 1")) == [0, 1, 2]
    assert index.overlapping(parse_filter("x in (1, 2, 3) and y = 2")) == [0, 1]


def test_the_oldest_comes_first() -> None:
    index = OverlapIndex()
    for id_, text in {
        9: "x = 1",
        2: "x > 0 or y = 1",
        7: "x = 1 and y = 1",
        4: "*",
        1: "x = 1",
    }.items():
        index.add(id_, parse_subscription(text))
    assert index.overlapping(parse_filter("x = 1")) == [9, 2, 7, 4, 1]
    index.remove(9)
    index.add(9, parse_filter("x = 1"))
    assert index.overlapping(parse_filter("x = 1")) == [2, 7, 4, 1, 9]


def test_ids() -> None:
    index = index_of("x = 1", NEVER)
    assert len(index) == 2
    for id_ in (0, 1):
        with pytest.raises(DuplicateIdError, match=f"id {id_} is already in use"):
            index.add(id_, parse_filter("y = 1"))
    with pytest.raises(UnknownIdError, match="no subscription with the id 2"):
        index.remove(2)
    with pytest.raises(UserError, match="not a subscription id"):
        index.add(-1, parse_filter("y = 1"))
    assert 1 in index
    assert 2 not in index
    index.remove(1)
    assert 1 not in index
    assert len(index) == 1
    assert index.overlapping(Filter()) == [0]


# --- what it does not look at ---------------------------------------------------------------------


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one with each comparison of two demands."""
    made: list[object] = []
    meets = module._Demand.meets

    def counted(self: module._Demand, other: module._Demand) -> bool:
        made.append(None)
        return meets(self, other)

    monkeypatch.setattr(module._Demand, "meets", counted)
    return made


def test_different_values_are_not_compared(comparisons: list[object]) -> None:
    index = OverlapIndex()
    for i in range(500):
        index.add(i, stock(f"S{i}", "number"))
    query = parse_filter("class = 'STOCK' and symbol = 'S77' and volume > 10")
    assert index.overlapping(query) == [77]
    assert len(comparisons) <= 3


@pytest.mark.parametrize("text", ["x = 77 and y = 17", "y = 17 and x = 77"])
def test_the_rarest_value_is_looked_up(text: str, comparisons: list[object]) -> None:
    index = index_of(*(f"x = {i} and y = {i % 20}" for i in range(500)))
    assert index.overlapping(parse_filter(text)) == [77]
    assert len(comparisons) == 2


def test_equal_demands_are_compared_once(comparisons: list[object]) -> None:
    index = index_of(*["x prefix 'a' and y > 1", "x prefix 'b' and y > 1"] * 100)
    assert index.overlapping(parse_filter("x contains 'c' and y < 5")) == list(range(200))
    assert len(comparisons) <= 3


def test_any_stops_at_the_first(comparisons: list[object]) -> None:
    index = index_of(*(f"x > {i}" for i in range(500)))
    assert index.any_overlapping(parse_filter("x > 3"))
    assert len(comparisons) == 1


# --- against the obvious loop ---------------------------------------------------------------------


class OverlapMachine(RuleBasedStateMachine):
    """Any history of additions and removals, of interests that have much to do with one another."""

    @initialize(pool=pools(), few=st.sampled_from((0, 2, module._FEW)))
    def begin(self, pool: Pool, few: int) -> None:
        # A pool has too few constants for what happens to many of them.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(module, "_FEW", few)
        self.pool = pool
        self.index = OverlapIndex()
        self.held: dict[int, Interest] = {}
        self.next_id = 0

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def add(self, interest: Interest) -> None:
        id_, self.next_id = self.next_id, self.next_id + 1
        self.index.add(id_, interest)
        self.held[id_] = interest
        assert len(self.index) == len(self.held)
        assert id_ in self.index

    @rule(data=st.data())
    def add_any(self, data: st.DataObject) -> None:
        self.add(data.draw(interests(self.pool)))

    @rule(data=st.data(), n=st.integers(2, 4))
    def add_equalities(self, data: st.DataObject, n: int) -> None:
        values: list[Value] = [*self.pool.numbers, *self.pool.words, False, True]
        for value in data.draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)):
            self.add(
                Filter([Predicate("x", Operator.EQ, value), data.draw(predicates(self.pool, "y"))])
            )

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(list(self.held)))
        self.index.remove(id_)
        del self.held[id_]
        assert id_ not in self.index

    @rule(data=st.data())
    def ask_any(self, data: st.DataObject) -> None:
        found = check_same(self.index, self.held, data.draw(interests(self.pool)))
        event(
            f"found: {'none' if not found else 'all' if len(found) == len(self.held) else 'some'}"
        )

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ask_narrower(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(list(self.held.values())))
        more = data.draw(predicates(self.pool))
        narrower = [Filter((*f.predicates, more)) for f in filters_of(one)]
        check_same(self.index, self.held, Advertisement(narrower))


TestOverlapMachine = OverlapMachine.TestCase
TestOverlapMachine.settings = settings(max_examples=settings().max_examples, stateful_step_count=30)


def random_interest(rng: random.Random) -> Interest:
    """Subscriptions and advertisements of stocks, so many values that tables are worth it."""

    def condition(name: str) -> str:
        x = rng.randrange(60)
        if name == "symbol":
            some = ", ".join(f"'S{(x + i) % 60}'" for i in range(rng.randint(1, 4)))
            return rng.choice([f"= 'S{x}'", f"= 'S{x}'", f"in ({some})", f"prefix 'S{x % 6}'"])
        return rng.choice(
            [f"= {x}", f"> {x}", f"<= {x}.5", f"!= {x}", "present", "present number", "= 'none'"]
        )

    def conjunction() -> str:
        names = rng.sample(["symbol", "high", "volume"], rng.randint(1, 3))
        return " and ".join(f"{name} {condition(name)}" for name in names)

    several = [f"({conjunction()})" for _ in range(rng.choice((1, 1, 1, 2)))]
    return parse_subscription(" or ".join(several))


@pytest.mark.parametrize("seed", range(4))
def test_many_stocks(seed: int) -> None:
    rng = random.Random(seed)
    index, held = OverlapIndex(), dict[int, Interest]()
    for id_ in range(600):
        held[id_] = random_interest(rng)
        index.add(id_, held[id_])
        while rng.random() < 0.3 and held:
            gone = rng.choice(list(held))
            index.remove(gone)
            del held[gone]
        if id_ % 10 == 0:
            check_same(index, held, random_interest(rng))
    for id_ in list(held):
        index.remove(id_)
    assert not index.any_overlapping(Filter())


def test_nothing_is_left_behind() -> None:
    rng = random.Random(5)
    index = OverlapIndex()
    index.add(300, parse_filter("symbol = 'S1' and high > 1"))
    shape = index._shapes["high", "symbol"]
    texts = ("*", NEVER, "high > 1 and symbol = 'S1' or symbol = 'S1' and high > 1")
    some = [random_interest(rng) for _ in range(300)]
    for id_, interest in enumerate([*some, *map(parse_subscription, texts)], 301):
        index.add(id_, interest)
    ids = range(301, 301 + len(some) + len(texts))
    for id_ in rng.sample(ids, len(ids)):
        index.remove(id_)
    assert list(index._shapes.values()) == [shape]
    high, symbol = shape.columns.values()
    assert (len(high.demands), len(high.finite), len(high.loose)) == (1, 0, 1)
    assert (len(symbol.demands), len(symbol.finite), len(symbol.loose)) == (1, 1, 0)
    index.remove(300)
    assert not index._shapes
    assert not index._ids


# --- determinism ----------------------------------------------------------------------------------

HISTORY = """
import random
from roost.language import parse_subscription
from roost.matching import OverlapIndex
rng = random.Random(3)
names = ["a", "b", "c"]
conditions = ["= 'u'", "= 'v'", "in ('u', 'v', 'w')", "prefix 'u'", "> 1", "< 3", "present"]
index, held = OverlapIndex(), []
for id_ in range(300):
    filters = [
        " and ".join(f"{n} {rng.choice(conditions)}" for n in rng.sample(names, rng.randint(1, 2)))
        for _ in range(rng.choice((1, 1, 1, 2)))
    ]
    interest = parse_subscription(" or ".join(f"({f})" for f in filters))
    print(index.overlapping(interest))
    index.add(1000 - id_, interest)
    held.append(1000 - id_)
    if id_ % 3 == 2:
        index.remove(held.pop(rng.randrange(len(held))))
"""


def test_same_history_same_orders_under_any_hash_seed() -> None:
    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", HISTORY]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = run("1")
    assert len(first.splitlines()) == 300
    assert first == run("2")
