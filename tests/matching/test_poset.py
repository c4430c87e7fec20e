"""The covering poset against the obvious one, which compares every subscription with every other."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roost.errors import UserError
from roost.language import (
    Filter,
    Interest,
    Kind,
    Operator,
    Predicate,
    Subscription,
    covers,
    filters_of,
    parse_filter,
    parse_subscription,
)
from roost.matching.contract import DuplicateIdError, UnknownIdError
from roost.matching.poset import Inserted, Poset, Removed
from tests.language.core_strategies import Pool, interests, pools, predicates

NEVER = "x > 1 and x < 0"


# --- the obvious poset ----------------------------------------------------------------------------


@dataclass(eq=False)
class Unique:
    """A unique subscription: its ids, oldest first, and the one that stands for them."""

    interest: Interest
    representative: int
    ids: list[int] = field(default_factory=list)


class Obvious:
    """What `Poset` must say, from `covers` over all pairs."""

    def __init__(self) -> None:
        self.nodes: list[Unique] = []  # by age
        self.css: list[int] = []
        self._known: dict[tuple[Interest, Interest], bool] = {}

    def insert(self, id_: int, interest: Interest) -> Inserted:
        before = self.css
        for node in self.nodes:
            if self.covers(node.interest, interest) and self.covers(interest, node.interest):
                node.ids.append(id_)
                return Inserted((node.representative,), ())
        self.nodes.append(Unique(interest, id_, [id_]))
        self._renew_css()
        return Inserted(self.parents(id_), tuple(self._by_age(set(before) - set(self.css))))

    def remove(self, id_: int) -> Removed:
        before, node = self.css, self.node(id_)
        node.ids.remove(id_)
        if not node.ids:
            self.nodes.remove(node)
        elif id_ == node.representative:
            node.representative = node.ids[-1]
        self._renew_css()
        return Removed(tuple(self._by_age(set(self.css) - set(before))))

    def covers(self, a: Interest, b: Interest) -> bool:
        if (a, b) not in self._known:
            self._known[a, b] = covers(a, b)
        return self._known[a, b]

    def node(self, id_: int) -> Unique:
        return next(node for node in self.nodes if id_ in node.ids)

    def ancestors(self, id_: int) -> tuple[int, ...]:
        mine = self.node(id_)
        above = (n for n in self.nodes if n is not mine and self.covers(n.interest, mine.interest))
        return tuple(n.representative for n in above)

    def descendants(self, id_: int) -> tuple[int, ...]:
        mine = self.node(id_)
        below = (n for n in self.nodes if n is not mine and self.covers(mine.interest, n.interest))
        return tuple(n.representative for n in below)

    def parents(self, id_: int) -> tuple[int, ...]:
        above = self.ancestors(id_)
        return tuple(a for a in above if not set(above) & set(self.descendants(a)))

    def children(self, id_: int) -> tuple[int, ...]:
        below = self.descendants(id_)
        return tuple(b for b in below if not set(below) & set(self.ancestors(b)))

    def _renew_css(self) -> None:
        uncovered = [n.representative for n in self.nodes if not self.ancestors(n.representative)]
        stayed = [id_ for id_ in self.css if id_ in uncovered]
        self.css = stayed + [id_ for id_ in uncovered if id_ not in stayed]

    def _by_age(self, ids: set[int]) -> Iterator[int]:
        return (n.representative for n in self.nodes if n.representative in ids)


def check_same(poset: Poset, obvious: Obvious) -> None:
    assert list(poset.css()) == obvious.css
    assert poset.unique == len(obvious.nodes)
    assert len(poset) == sum(len(node.ids) for node in obvious.nodes)
    for node in obvious.nodes:
        id_ = node.ids[len(node.ids) // 2]
        assert list(poset.peers(id_)) == node.ids
        assert poset.representative(id_) == node.representative
        assert poset.parents(id_) == obvious.parents(id_)
        assert poset.children(id_) == obvious.children(id_)
        assert poset.ancestors(id_) == obvious.ancestors(id_)
        assert poset.descendants(id_) == obvious.descendants(id_)


# --- the thesis' example --------------------------------------------------------------------------


def poset_of(*filters: str) -> Poset:
    """A poset of these subscriptions, with ids from 0."""
    poset = Poset()
    for i, text in enumerate(filters):
        poset.insert(i, parse_subscription(text))
    return poset


STOCK, STOCK_YHOO, STOCK_VOLUME, SPORTS, SPORTS_RACING = range(5)
FIGURE_2_1 = (
    "[class,eq,'STOCK']",
    "[class,eq,'STOCK'],[symbol,eq,'YHOO']",
    "[class,eq,'STOCK'],[volume,>,1000]",
    "[class,eq,'SPORTS']",
    "[class,eq,'SPORTS'],[type,eq,'RACING']",
)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)])
def test_example_of_section_2_1_2(order: tuple[int, ...]) -> None:
    """001 section 2.1.2: "then its CSS is composed of just" STOCK and SPORTS; figure 2.1's edges."""
    poset = Poset()
    for id_ in order:
        poset.insert(id_, parse_filter(FIGURE_2_1[id_]))
    assert sorted(poset.css()) == [STOCK, SPORTS]
    assert sorted(poset.children(STOCK)) == [STOCK_YHOO, STOCK_VOLUME]
    assert poset.children(SPORTS) == (SPORTS_RACING,)
    assert poset.parents(STOCK_YHOO) == poset.parents(STOCK_VOLUME) == (STOCK,)
    assert poset.parents(SPORTS_RACING) == (SPORTS,)
    assert poset.parents(STOCK) == poset.parents(SPORTS) == ()
    assert not any(poset.children(leaf) for leaf in (STOCK_YHOO, STOCK_VOLUME, SPORTS_RACING))


def test_several_parents() -> None:
    """001 section 2.1.2: "it is possible for a subscription to have more than one parent"."""
    poset = poset_of("x = 1", "y = 2", "x = 1 and y = 2 and z = 3", "x = 1 and y = 2")
    assert poset.parents(3) == (0, 1)
    assert poset.parents(2) == (3,)
    assert poset.descendants(0) == (2, 3)
    assert poset.ancestors(2) == (0, 1, 3)


def test_uncovering_comes_with_the_removal() -> None:
    """001 section 2.1.3: when sub1 (a > 5) goes, B2 forwards sub2 (a > 9), which it had covered."""
    poset = Poset()
    assert poset.insert(1, parse_filter("a > 5")) == Inserted((), ())
    assert poset.insert(2, parse_filter("a > 9")) == Inserted((1,), ())
    assert poset.remove(1) == Removed((2,))
    assert poset.insert(3, parse_filter("a > 7")) == Inserted((), (2,))


# --- nodes of several subscriptions ---------------------------------------------------------------


def test_equivalent_subscriptions_share_a_node() -> None:
    poset = poset_of("x > 1", "x >= 5 and x <= 5", "x = 5", "x in (5)", "x = 5.0", "x = 5 or x = 5")
    assert poset.unique == 2
    assert list(poset.css()) == [0]
    assert list(poset.peers(4)) == [1, 2, 3, 4, 5]
    assert poset.children(0) == (1,)
    assert poset.parents(3) == (0,)
    assert poset.interest(3) == parse_subscription("x in (5)")


def test_a_peer_takes_over_from_the_representative() -> None:
    poset = poset_of("x = 1", "x = 1", "x = 1", "x = 1 and y = 1")
    assert poset.remove(1) == Removed(())
    assert poset.remove(0) == Removed((2,))
    assert list(poset.css()) == [2]
    assert poset.parents(3) == (2,)
    assert poset.insert(7, parse_filter("x = 1")) == Inserted((2,), ())
    assert poset.remove(2) == Removed((7,))
    assert poset.remove(7) == Removed((3,))


def test_the_newest_peer_takes_over() -> None:
    poset = poset_of("x = 1", "x = 1", "x = 1")
    assert poset.remove(0) == Removed((2,))
    assert poset.remove(1) == Removed(())


def test_a_covered_representative_is_replaced_silently() -> None:
    poset = poset_of("x > 0", "x > 1", "x > 1")
    assert poset.remove(1) == Removed(())
    assert poset.children(0) == (2,)


@pytest.mark.parametrize(
    "pair",
    [
        ("x prefix 'a'", "x >= 'a' and x < 'b'"),
        ("x contains 'ab'", "x contains 'a' and x contains 'ab'"),
        ("x = 'a'", "x >= 'a' and x <= 'a'"),
        ("x = 'a'", "x in ('a', 'b') and x != 'b'"),
        ("x = true", "x != false"),
        ("x = inf", "x >= inf"),
        ("x > 0", "x > 0 or x > 1 or (x > 2 and x < 1)"),
        ("x = 1 or y = 1", "y = 1 or x = 1 or (x = 1 and y = 1)"),
        (NEVER, "y = 'a' and y = 'b'"),
        ("x <= 9007199254740993 and x >= 9007199254740993", "x = 9007199254740993"),
    ],
)
def test_spelling_does_not_matter(pair: tuple[str, str]) -> None:
    poset = poset_of(*pair)
    assert poset.unique == 1
    assert list(poset.peers(1)) == [0, 1]


def test_what_covers_does_not_see_stays_apart() -> None:
    """`covers` says no where several filters together cover one, and the poset follows it."""
    poset = poset_of("x = 1 or x = 2", "x in (1, 2)")
    assert list(poset.css()) == [1]
    assert poset.children(1) == (0,)


def test_values_of_different_kinds_are_different() -> None:
    poset = poset_of("x = 1", "x = true", "x = '1'", "x = 1 and y = 2", "x = true and y = 2")
    assert list(poset.css()) == [0, 1, 2]
    assert poset.children(0) == (3,)
    assert poset.children(1) == (4,)


# --- the ends of the order ------------------------------------------------------------------------


def test_the_filter_of_everything_covers_the_rest() -> None:
    poset = poset_of("x = 1", "x = 1 and y = 2", "z prefix 'a'", "p = 1 or q = 1")
    assert poset.insert(9, Filter()) == Inserted((), (0, 2, 3))
    assert list(poset.css()) == [9]
    assert poset.children(9) == (0, 2, 3)
    assert poset.remove(9) == Removed((0, 2, 3))


def test_what_never_matches_is_covered_by_the_rest() -> None:
    poset = poset_of(NEVER, "x = 1", "x = 1 and y = 2", "z = 1", NEVER)
    assert list(poset.css()) == [1, 3]
    assert list(poset.peers(4)) == [0, 4]
    assert poset.parents(0) == (2, 3)
    assert poset.children(2) == poset.children(3) == (0,)
    assert poset.children(1) == (2,)
    assert poset.descendants(1) == (0, 2)
    assert poset.ancestors(0) == (1, 2, 3)


def test_what_never_matches_is_uncovered_only_when_alone() -> None:
    poset = Poset()
    assert poset.insert(1, parse_filter(NEVER)) == Inserted((), ())
    assert poset.insert(2, parse_filter("x = 1")) == Inserted((), (1,))
    assert poset.insert(3, parse_filter(NEVER)) == Inserted((1,), ())
    assert poset.remove(1) == Removed(())
    assert poset.remove(2) == Removed((3,))
    assert poset.remove(3) == Removed(())
    assert not poset.css()


def test_bounds_that_no_float_equals() -> None:
    big = 2**53
    poset = poset_of(*(f"x >= {big + i} and y < {big + i}" for i in range(4)))
    assert list(poset.css()) == [0, 1, 2, 3]
    poset = poset_of(*(f"x >= {big + i} and y > {big + i}" for i in range(4)))
    assert list(poset.css()) == [0]
    assert poset.parents(3) == (2,)


# --- questions and refusals -----------------------------------------------------------------------


def test_covering_asks_without_inserting() -> None:
    poset = poset_of("x > 0", "x > 5", "y = 1")
    assert poset.covering(parse_filter("x > 7 and y = 1")) == (1, 2)
    assert poset.covering(parse_filter("x > 5.0")) == (1,)
    assert poset.covering(parse_filter("x > -1")) == ()
    assert poset.covering(parse_filter(NEVER)) == (1, 2)
    assert len(poset) == 3


def test_ids() -> None:
    poset = poset_of("x = 1", "x = 1")
    with pytest.raises(DuplicateIdError, match="id 1 is already in use"):
        poset.insert(1, parse_filter("y = 1"))
    for ask in (poset.remove, poset.parents, poset.children, poset.peers, poset.interest):
        with pytest.raises(UnknownIdError, match="no subscription with the id 2"):
            ask(2)
    with pytest.raises(UserError, match="not a subscription id"):
        poset.insert(-1, parse_filter("y = 1"))
    assert 1 in poset
    assert 2 not in poset
    assert list(poset) == [0, 1]


# --- against the obvious poset --------------------------------------------------------------------


class PosetMachine(RuleBasedStateMachine):
    """Any history of insertions and removals, of interests that have much to do with one another."""

    @initialize(pool=pools(), kinds=st.sampled_from(("drawn", "numbers", "numbers")))
    def begin(self, pool: Pool, kinds: str) -> None:
        numeric = {"x": Kind.NUMBER, "y": Kind.NUMBER}
        self.pool = replace(pool, kinds=numeric) if kinds == "numbers" else pool
        self.poset, self.obvious = Poset(), Obvious()
        self.interests: dict[int, Interest] = {}
        self.next_id = 0

    def insert(self, interest: Interest) -> None:
        id_, self.next_id = self.next_id, self.next_id + 1
        self.interests[id_] = interest
        expected = self.obvious.insert(id_, interest)
        assert self.poset.covering(interest) == expected.covered_by
        assert self.poset.insert(id_, interest) == expected

    @rule(data=st.data())
    def insert_any(self, data: st.DataObject) -> None:
        self.insert(data.draw(interests(self.pool)))

    @precondition(lambda self: self.interests)
    @rule(data=st.data())
    def insert_narrower(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(list(self.interests.values())))
        more = data.draw(predicates(self.pool))
        narrower = [Filter((*f.predicates, more)) for f in filters_of(one)]
        self.insert(Subscription(narrower))

    @precondition(lambda self: self.interests)
    @rule(data=st.data())
    def insert_wider(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(list(self.interests.values())))
        self.insert(Subscription(Filter(f.predicates[1:]) for f in filters_of(one)))

    @precondition(lambda self: self.interests)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id_ = data.draw(st.sampled_from(list(self.interests)))
        del self.interests[id_]
        assert self.poset.remove(id_) == self.obvious.remove(id_)

    @invariant()
    def same(self) -> None:
        check_same(self.poset, self.obvious)


TestPosetMachine = PosetMachine.TestCase
TestPosetMachine.settings = settings(
    max_examples=max(100, settings().max_examples), stateful_step_count=25
)


def stock_filters(rng: random.Random, symbols: int, values: int) -> Iterator[Filter]:
    """The subscriptions of 001 table 5.1, and some with ranges; few values, so that they meet."""

    def bound(name: str, op: str) -> Predicate:
        return Predicate(name, Operator(op), rng.randrange(values) / 2)

    while True:
        stock = Predicate("class", Operator.EQ, "STOCK")
        symbol = Predicate("symbol", Operator.EQ, f"S{rng.randrange(symbols)}")
        yield rng.choice(
            [
                Filter((symbol, bound("high", ">"))),
                Filter((symbol, bound("low", "<"))),
                Filter((symbol, bound("volume", ">"))),
                Filter((symbol, bound("volume", "="))),
                Filter((symbol,)),
                Filter((stock, symbol)),
                Filter((bound("volume", ">"),)),
                Filter((bound("volume", "!="),)),
                Filter((symbol, bound("volume", ">="), bound("volume", "<"))),
                Filter((bound("high", ">"), bound("low", "<"))),
                Filter((symbol, bound("high", ">"), bound("low", "<"))),
                Filter((stock,)) if rng.random() < 0.05 else Filter((stock, bound("volume", ">"))),
            ]
        )


@pytest.mark.parametrize("seed", range(4))
def test_stock_subscriptions(seed: int) -> None:
    rng = random.Random(seed)
    filters = stock_filters(rng, symbols=3, values=20)
    poset, obvious = Poset(), Obvious()
    held: list[int] = []
    for id_, filter_ in zip(range(200), filters, strict=False):
        assert poset.insert(id_, filter_) == obvious.insert(id_, filter_)
        held.append(id_)
        while rng.random() < 0.45 and held:
            gone = held.pop(rng.randrange(len(held)))
            assert poset.remove(gone) == obvious.remove(gone)
        if id_ % 4 == 0:
            check_same(poset, obvious)
    while held:
        gone = held.pop(rng.randrange(len(held)))
        assert poset.remove(gone) == obvious.remove(gone)
    assert not poset.css()
    assert poset.unique == 0


def test_nothing_is_left_behind() -> None:
    rng = random.Random(5)
    poset = Poset()
    texts = ("x = 1 or y > 2", "x prefix 'a' and y in (1, 2)", "*", NEVER)
    some = [f for _, f in zip(range(300), stock_filters(rng, 5, 10), strict=False)]
    everything: list[Interest] = [*some, *map(parse_subscription, texts)]
    for id_, interest in enumerate(everything):
        poset.insert(id_, interest)
    for id_ in rng.sample(range(len(everything)), len(everything)):
        poset.remove(id_)
    tables = vars(poset._candidates)
    assert len(tables) == 4
    assert not any(tables.values())


# --- determinism ----------------------------------------------------------------------------------

HISTORY = """
import random
from roost.language import parse_subscription
from roost.matching.poset import Poset
rng = random.Random(3)
names = ["a", "b", "c"]
conditions = ["= 'u'", "= 'v'", "in ('u', 'v')", "prefix 'u'", "> 1", "> 2", "< 3", "present"]
poset = Poset()
for id_ in range(150):
    filters = [
        " and ".join(f"{n} {rng.choice(conditions)}" for n in rng.sample(names, rng.randint(1, 2)))
        for _ in range(rng.choice((1, 1, 1, 2)))
    ]
    print(poset.insert(id_, parse_subscription(" or ".join(f"({f})" for f in filters))))
    if id_ % 3 == 2:
        print(poset.remove(rng.choice(list(poset))))
    print(list(poset.css()))
for id_ in poset:
    print(list(poset.peers(id_)), poset.parents(id_), poset.children(id_), poset.descendants(id_))
"""


def test_same_history_same_orders_under_any_hash_seed() -> None:
    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", HISTORY]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = run("1")
    assert len(first.splitlines()) > 400
    assert first == run("2")
