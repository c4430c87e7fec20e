"""Covering, overlapping and simplification against the events that filters match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from roost.language import (
    Advertisement,
    Event,
    Filter,
    Interest,
    Kind,
    Operator,
    Predicate,
    Subscription,
    Value,
    contradictions,
    covers,
    filters_of,
    overlaps,
    simplify,
)
from tests.language.brute_force import (
    common_event,
    events_for,
    matching_event,
    uncovered_event,
)
from tests.language.core_strategies import (
    filters,
    pools,
    predicates,
    related_filters,
    related_interests,
)

EQ, NE, LT, LE, GT, GE = (Operator(op) for op in ("=", "!=", "<", "<=", ">", ">="))
PRESENT = Operator.PRESENT

Pair = tuple[Filter, Filter]

# The tests of exactness are quick for what they find.
often = settings(max_examples=max(300, settings().max_examples))


@st.composite
def chains(draw: st.DrawFn) -> tuple[Filter, Filter, Filter]:
    """Three filters of one pool, each often narrower than the one before."""
    pool = draw(pools())
    a = draw(filters(pool, 2))
    b = Filter((*a.predicates, *draw(st.lists(predicates(pool), max_size=1))))
    c = Filter((*b.predicates, *draw(st.lists(predicates(pool), max_size=1))))
    return draw(st.sampled_from(((a, b, c), (simplify(a), c, simplify(b)), (b, simplify(a), c))))


def pooled_filters() -> st.SearchStrategy[Filter]:
    return pools().flatmap(lambda pool: filters(pool, 5))


# Exactness


@often
@given(related_filters())
def test_covers_is_exact_on_conjunctions(pair: Pair) -> None:
    a, b = pair
    answer = covers(a, b)
    event(f"covers: {answer}, satisfiable: {bool(b)}")
    assert answer == (uncovered_event(a, b) is None)


@often
@given(related_filters())
def test_overlaps_is_exact_on_conjunctions(pair: Pair) -> None:
    a, b = pair
    answer = overlaps(a, b)
    event(f"overlaps: {answer}")
    assert answer == (common_event(a, b) is not None)
    assert overlaps(b, a) == answer


@often
@given(related_interests())
def test_covers_is_sound_on_disjunctions(pair: tuple[Interest, Interest]) -> None:
    a, b = pair
    answer = covers(a, b)
    event(f"covers: {answer}")
    if answer:
        assert uncovered_event(a, b) is None
    else:
        # It is only ever wrong where no single filter of `a` does the covering.
        alone = [y for y in filters_of(b) if all(uncovered_event(x, y) for x in filters_of(a))]
        assert alone


@often
@given(related_interests())
def test_overlaps_is_exact_on_disjunctions(pair: tuple[Interest, Interest]) -> None:
    a, b = pair
    answer = overlaps(a, b)
    event(f"overlaps: {answer}")
    assert answer == (common_event(a, b) is not None)


@given(pooled_filters())
def test_a_filter_is_true_just_if_some_event_matches(filter_: Filter) -> None:
    assert bool(filter_) == (matching_event(filter_) is not None)


@given(pooled_filters())
def test_sets_say_the_same_as_predicates(filter_: Filter) -> None:
    for e in events_for(filter_):
        by_sets = all(
            name in e.attributes and e.attributes[name] in admitted
            for name, admitted in filter_.sets.items()
        )
        assert by_sets == filter_.matches(e)


@pytest.mark.parametrize("relation", [covers, overlaps])
def test_the_strategy_gives_both_answers_often(
    relation: Callable[[Interest, Interest], bool],
) -> None:
    """Without this the tests above could pass by asking dull questions only."""
    answers: Counter[tuple[bool, bool]] = Counter()

    @settings(max_examples=400, derandomize=True, database=None, deadline=None)
    @given(related_filters())
    def count(pair: Pair) -> None:
        a, b = pair
        # The interesting questions are those about filters that match something, and are not all.
        if a and b and a.predicates and b.predicates and a != b:
            answers[relation(a, b), bool(a.sets.keys() & b.sets.keys())] += 1

    count()
    for answer in (True, False):
        assert answers[answer, True] > 0.05 * 400, answers


# Laws


@given(related_filters())
def test_covers_is_reflexive(pair: Pair) -> None:
    for f in pair:
        assert covers(f, f)
        assert covers(f, Filter(reversed(f.predicates)))
        assert covers(Subscription([f]), Advertisement([f]))


@given(chains())
def test_covers_is_transitive(chain: tuple[Filter, Filter, Filter]) -> None:
    a, b, c = chain
    assume(covers(a, b) and covers(b, c))
    assert covers(a, c)


@given(related_interests())
def test_covers_implies_overlaps_unless_nothing_matches(pair: tuple[Interest, Interest]) -> None:
    a, b = pair
    if covers(a, b) and b:
        assert overlaps(a, b)
    if not b:
        assert covers(a, b)
        assert not overlaps(a, b)


@given(related_filters())
def test_what_overlaps_a_covered_filter_overlaps_the_covering_one(pair: Pair) -> None:
    """Then a broker may forward only the covering subscription (001 section 2.1.3)."""
    a, b = pair
    narrower = Filter((*a.predicates, *b.predicates))
    assert covers(a, narrower)
    assert covers(b, narrower)
    assert bool(narrower) == overlaps(a, b)


@given(related_interests())
def test_the_empty_filter_covers_everything(pair: tuple[Interest, Interest]) -> None:
    everything = Filter()
    for interest in pair:
        assert covers(everything, interest)
        assert covers(Subscription([everything]), interest)
        assert overlaps(everything, interest) == bool(interest)
        if isinstance(interest, Filter):
            assert covers(interest, everything) == (interest.predicates == ())


@given(related_interests())
def test_one_more_filter_never_covers_less(pair: tuple[Interest, Interest]) -> None:
    a, b = pair
    both = Subscription((*filters_of(a), *filters_of(b)))
    assert covers(both, a)
    assert covers(both, b)
    assert overlaps(both, a) == bool(a)


def test_several_filters_together_may_cover_without_being_found_to() -> None:
    """The documented limit of `covers`: it is sound on disjunctions, not complete."""
    halves = Subscription([Filter([Predicate("a", LT, 5)]), Filter([Predicate("a", GE, 5)])])
    numbers = Filter([Predicate("a", PRESENT, Kind.NUMBER)])
    assert uncovered_event(halves, numbers) is None
    assert not covers(halves, numbers)
    assert covers(numbers, halves)


def test_a_filter_with_more_attributes_is_narrower() -> None:
    a = Filter([Predicate("a", GT, 1)])
    ab = Filter([Predicate("a", GT, 1), Predicate("b", PRESENT)])
    assert covers(a, ab)
    assert not covers(ab, a)
    assert overlaps(a, Filter([Predicate("b", PRESENT)]))


# Simplification


@given(pooled_filters())
def test_simplify_matches_the_same_events(filter_: Filter) -> None:
    simple = simplify(filter_)
    event(f"dropped: {len(filter_.predicates) - len(simple.predicates)}")
    assert all(simple.matches(e) == filter_.matches(e) for e in events_for(filter_))
    assert covers(simple, filter_)
    assert covers(filter_, simple)


@given(pooled_filters())
def test_simplify_keeps_a_part_in_its_order_and_is_idempotent(filter_: Filter) -> None:
    simple = simplify(filter_)
    remaining = iter(filter_.predicates)
    assert all(p in remaining for p in simple.predicates)
    assert simplify(simple) == simple


@given(pooled_filters())
def test_simplify_leaves_no_predicate_that_the_others_imply(filter_: Filter) -> None:
    kept = simplify(filter_).predicates
    for name in {p.attribute for p in kept}:
        here = [p for p in kept if p.attribute == name]
        for i in range(len(here)):
            assert uncovered_event(Filter(here), Filter(here[:i] + here[i + 1 :]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([("a", GT, 1), ("a", GT, 5)], [("a", GT, 5)]),
        ([("a", GT, 5), ("a", GT, 5)], [("a", GT, 5)]),
        ([("a", EQ, 1), ("b", EQ, 2), ("a", EQ, 1.0)], [("a", EQ, 1), ("b", EQ, 2)]),
        ([("a", PRESENT, None)], [("a", PRESENT, None)]),
        ([("a", PRESENT, None), ("a", NE, True)], [("a", NE, True)]),
        ([("a", GE, 1), ("a", LE, 1), ("a", NE, 2)], [("a", GE, 1), ("a", LE, 1)]),
        ([("a", GT, 2**53), ("a", GE, 2**53 + 1)], [("a", GT, 2**53)]),
        ([("a", EQ, 1), ("a", EQ, 2)], [("a", EQ, 1), ("a", EQ, 2)]),
        ([("a", EQ, 1), ("a", EQ, True)], [("a", EQ, 1), ("a", EQ, True)]),
        ([], []),
    ],
)
def test_simplify_by_example(
    before: list[tuple[str, Operator, int]], after: list[tuple[str, Operator, int]]
) -> None:
    simple = simplify(Filter(Predicate(*parts) for parts in before))
    assert simple == Filter(Predicate(*parts) for parts in after)


# Contradictions


@given(pooled_filters())
def test_contradictions_name_the_attributes_that_no_value_satisfies(filter_: Filter) -> None:
    found = contradictions(filter_)
    assert (not found) == (matching_event(filter_) is not None)
    for contradiction in found:
        assert {p.attribute for p in contradiction.predicates} == {contradiction.attribute}
        assert matching_event(Filter(contradiction.predicates)) is None
    named = {c.attribute for c in found}
    rest = Filter(p for p in filter_.predicates if p.attribute not in named)
    assert matching_event(rest) is not None


def test_contradictions_by_example() -> None:
    low, high = Predicate("a", GT, 5), Predicate("a", LT, 5)
    nothing = Predicate("b", LT, "")
    (first, second) = contradictions(Filter([low, Predicate("c", EQ, 1), nothing, high]))
    assert (first.attribute, first.predicates) == ("a", (low, high))
    assert (second.attribute, second.predicates) == ("b", (nothing,))
    assert contradictions(Filter([low])) == ()
    assert contradictions(Filter()) == ()
    assert contradictions(Filter([Predicate("a", EQ, 1), Predicate("a", EQ, True)]))


# The examples of 001


def stock(*more: Predicate) -> Filter:
    return Filter([Predicate("class", EQ, "STOCK"), *more])


def sports(*more: Predicate) -> Filter:
    return Filter([Predicate("class", EQ, "SPORTS"), *more])


SUBSCRIPTIONS = {
    "stock": stock(),
    "yhoo": stock(Predicate("symbol", EQ, "YHOO")),
    "volume": stock(Predicate("volume", GT, 1000)),
    "sports": sports(),
    "racing": sports(Predicate("type", EQ, "RACING")),
}


def test_section_2_1_2_covering_among_the_five_subscriptions() -> None:
    """001 section 2.1.2, figure 2.1: the edges of the poset, and no other covering."""
    found = {
        (a, b)
        for a, wide in SUBSCRIPTIONS.items()
        for b, narrow in SUBSCRIPTIONS.items()
        if a != b and covers(wide, narrow)
    }
    assert found == {("stock", "yhoo"), ("stock", "volume"), ("sports", "racing")}


def test_section_2_1_2_covering_subscription_set() -> None:
    """001 section 2.1.2: the set is composed of just `class eq STOCK` and `class eq SPORTS`."""
    most_general = {
        name
        for name, narrow in SUBSCRIPTIONS.items()
        if not any(covers(f, narrow) for other, f in SUBSCRIPTIONS.items() if other != name)
    }
    assert most_general == {"stock", "sports"}


def test_section_2_1_2_intersecting_and_disjoint_siblings() -> None:
    """001 section 2.1.2: siblings of the poset intersect or have nothing in common."""
    assert overlaps(SUBSCRIPTIONS["yhoo"], SUBSCRIPTIONS["volume"])
    for a in ("stock", "yhoo", "volume"):
        for b in ("sports", "racing"):
            assert not overlaps(SUBSCRIPTIONS[a], SUBSCRIPTIONS[b])


STOCK_QUOTE: dict[str, Value] = {
    "class": "STOCK",
    "symbol": "YHOO",
    "open": 30.25,
    "high": 31.75,
    "low": 30.00,
    "close": 31.62,
    "volume": 203400,
    "date": "1-May-96",
}
PUBLISHER = Advertisement(
    [
        stock(
            Predicate("symbol", EQ, "YHOO"),
            *(
                Predicate(name, PRESENT, Kind.NUMBER)
                for name in ("open", "high", "low", "close", "volume")
            ),
            Predicate("date", PRESENT, Kind.STRING),
        )
    ]
)


def test_section_2_1_2_the_publication_matches() -> None:
    """001 section 2.1.2: the stock publication, its advertisement and the subscriptions."""
    quote = Event(STOCK_QUOTE)
    assert PUBLISHER.matches(quote)
    assert {n for n, f in SUBSCRIPTIONS.items() if f.matches(quote)} == {"stock", "yhoo", "volume"}
    busy = stock(Predicate("symbol", EQ, "YHOO"), Predicate("volume", GT, 300_000))
    assert not busy.matches(quote)
    assert busy.matches(Event(STOCK_QUOTE | {"volume": 300_001}))


def test_section_2_1_2_the_advertisement_overlaps_stock_subscriptions_only() -> None:
    """001 section 2.1.2: `isPresent` promises a type only, so any volume may come."""
    busy = stock(Predicate("symbol", EQ, "YHOO"), Predicate("volume", GT, 300_000))
    assert overlaps(PUBLISHER, Subscription([busy]))
    assert not overlaps(PUBLISHER, Subscription([sports()]))
    assert not overlaps(PUBLISHER, stock(Predicate("symbol", EQ, "IBM")))
    # The type is promised: no string comes as a volume, no number as a date.
    assert not overlaps(PUBLISHER, stock(Predicate("volume", EQ, "high")))
    assert not overlaps(PUBLISHER, stock(Predicate("date", GT, 0)))
    assert overlaps(PUBLISHER, Subscription([sports(), busy]))


def test_section_2_1_3_routing_of_two_subscriptions() -> None:
    """001 section 2.1.3, figure 2.2: both meet `a > 1`, and `a > 5` of sub1 covers `a > 9`."""
    advertisement = Advertisement([Filter([Predicate("a", GT, 1)])])
    sub1 = Subscription([Filter([Predicate("a", GT, 5)])])
    sub2 = Subscription([Filter([Predicate("a", GT, 9)])])
    assert overlaps(advertisement, sub1)
    assert overlaps(advertisement, sub2)
    assert covers(sub1, sub2)
    assert not covers(sub2, sub1)
    assert covers(advertisement, sub1)
