"""mPartition against its definition: figures 2 and 3 of 004, and every candidate alone finds every match."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from roost.language import Event, Subscription, Value, parse_event, parse_subscription
from roost.partition import notes
from roost.partition.dimensions import Dimension, footprint_of, ordered_hash, point_of
from roost.partition.forwarding import POLICIES, Pace, Sight, choose
from roost.partition.handover import forget, join_each, join_one, leave, switch
from roost.partition.patches import patch_of, patched
from roost.partition.reshaping import come, go
from roost.partition.segments import (
    Finder,
    Option,
    Segment,
    SegmentTable,
    boxes,
    clockwise,
    copies,
    even_table,
    gaps,
    in_region,
    key_of,
    options,
    overlaps_region,
    owners,
    regions_of,
    spare_options,
)
from tests.language.strategies import events, subscriptions

SIX = "ABCDEF"


def row(*starts: tuple[float, str]) -> tuple[Segment, ...]:
    first, *others = starts
    return (Segment(-math.inf, first[1]), *(Segment(start, name) for start, name in others))


# --- the paper's figures ----------------------------------------------------------------------------


def test_figure_2() -> None:
    """III.A: the subscription is on F for its latitude, on C for its longitude, on A and B for its speed.

    The figure's longitude [-41, -42) is reversed; it is -42 to -41 here.
    """
    dimensions = [
        Dimension("longitude", -180, 180),
        Dimension("latitude", -90, 90),
        Dimension("speed", 0, 120),
    ]
    table = even_table(dimensions, owners(SIX, 3))
    wanted = parse_subscription(
        "longitude >= -42 and longitude < -41 and latitude >= 70 and latitude < 74"
        " and speed >= 0 and speed < 25"
    )
    assert table.bound(1, 5) == (1, 60.0, math.inf)  # the segment [60, 90)
    assert copies(table, footprint_of(wanted, dimensions)) == [
        ("C", 0),
        ("F", 1),
        ("A", 2),
        ("B", 2),
    ]


def test_figure_3() -> None:
    """III.B.1: the message in X4 and Y1 goes to D with 4 subscriptions on X, not to A with 13 on Y."""
    dimensions = [Dimension("x", 0, 4), Dimension("y", 0, 4)]
    table = even_table(dimensions, owners("ABCD", 2))
    point = point_of(parse_event("[x,3.5],[y,0.5]"), dimensions)
    found = options(table, point)
    assert found == [Option("D", (0,)), Option("A", (1,))]
    sights = [Sight(Pace(size=4)), Sight(Pace(size=13))]
    assert found[choose(POLICIES["amount"], sights, Random(0).random)].matcher == "D"


def test_all_copies_on_one_matcher_are_as_rare_as_the_paper_says() -> None:
    """III.A: 1 in N^(k-1) for points; 4 dimensions and 20 matchers make 1 in 8000, 3 and 5 make 1 in 25."""
    dimensions = [Dimension(name) for name in "abc"]
    table = even_table(dimensions, owners("VWXYZ", 3))
    random = Random(7)
    points = [tuple(random.random() for _ in dimensions) for _ in range(20_000)]
    alone = sum(len({option.matcher for option in options(table, p)}) == 1 for p in points)
    assert alone / len(points) == pytest.approx(1 / 25, rel=0.1)


# --- the one property -------------------------------------------------------------------------------

NAMES = ("a", "b", "c")


def some_dimensions(random: Random) -> list[Dimension]:
    names = random.sample(NAMES, random.randint(1, 3))
    return [Dimension(n, -random.choice([0, 1, 50]), random.choice([1, 10, 500])) for n in names]


def changed(table: SegmentTable, random: Random) -> SegmentTable:
    """The table after some steps of matchers and dimensions that come and go, at any stage of them."""
    for number in range(random.randint(0, 8)):
        there = table.matchers()
        loads = {(d, m): random.random() for d in range(len(table.dimensions)) for m in there}
        join = random.choice([join_each, join_one])
        heirs = [s.heir for r in table.segments for s in r if s.heir]
        what = random.randrange(7)
        if what == 0:
            table = join(table, f"N{number}", loads, writer="D")
        elif what == 1:
            table = leave(table, random.choice(there), loads, writer="D")
        elif what == 2:
            table = switch(table, random.choice(heirs or there), writer="D")
        elif what == 3:
            table = forget(table, writer="D")
        elif what == 4:
            table = go(table, random.choice(NAMES), writer="D")
        else:
            extent = Dimension(random.choice(NAMES), 0, random.choice([1, 9]))
            table = come(table, extent, random.sample(there, len(there)), writer="D")
    return table


@settings(max_examples=150)
@given(
    some.lists(subscriptions(), max_size=6),
    some.lists(events(), max_size=4),
    some.integers(0, 2**32),
)
def test_every_candidate_alone_finds_every_match(
    wanted: list[Subscription], published: list[Event], seed: int
) -> None:
    """III.A.1, at any stage of any changes, of dimensions too: owners, former owners and replicas."""
    random = Random(seed)
    dimensions = some_dimensions(random)
    names = [f"M{n}" for n in range(random.randint(1, 5))]
    table = changed(
        even_table(dimensions, owners(names, len(dimensions), random.randint(0, 3))), random
    )
    assert gaps(table) == []
    prints = [footprint_of(one, table.dimensions) for one in wanted]
    for event in published:
        point = point_of(event, table.dimensions)
        found = options(table, point)
        assert found
        for option in [*found, *spare_options(table, point)]:
            regions = [r for r in regions_of(table, option.matcher) if key_of(r) == option.key]
            mine = [r for r in regions if in_region(point, r)]
            assert mine, (option, point)
            for one, footprint in zip(wanted, prints, strict=True):
                if one.matches(event):
                    assert all(overlaps_region(footprint, region) for region in mine)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_new_in_a_table_makes_it_of_the_one_before(seed: int) -> None:
    random = Random(seed)
    dimensions = some_dimensions(random)
    before = changed(even_table(dimensions, owners("ABCDE", len(dimensions))), random)
    after = changed(before, random)
    patch = patch_of(before, after)
    assert patched(before, patch) == after
    assert notes.decode(notes.encode(patch)) == patch
    if after.stamp != before.stamp:
        assert patched(after, patch) is None
    assert patched(None, patch) is None


def test_a_patch_is_small() -> None:
    names = [f"M{n}" for n in range(1_000)]
    table = even_table([Dimension(name) for name in "abcd"], owners(names, 4))
    joined = join_each(table, "N", {}, writer="D0")
    assert len(notes.encode_table(table)) > 50_000
    assert len(notes.encode(patch_of(table, joined))) < 600


@pytest.mark.parametrize("seed", range(30))
def test_the_same_where_much_matches(seed: int) -> None:
    """Small numbers, ranges and words: thousands of matches, most of them near a border."""
    random = Random(seed)
    dimensions = [Dimension(name, 0, 9) for name in random.sample("abc", random.randint(1, 3))]
    names = [f"M{n}" for n in range(random.randint(1, 6))]
    table = changed(even_table(dimensions, owners(names, len(dimensions))), random)
    wanted = [
        parse_subscription(" or ".join(a_filter(random) for _ in range(random.choice([1, 1, 2]))))
        for _ in range(60)
    ]
    prints = [footprint_of(one, table.dimensions) for one in wanted]
    matches = missed_by_one_copy = 0
    for _ in range(40):
        values: list[Value] = [random.randint(0, 9), random.randint(0, 9), "x", "y"]
        event = Event({n: random.choice(values) for n in "abc" if random.random() < 0.8})
        point = point_of(event, table.dimensions)
        assert Finder(table).options(point) == options(table, point)
        for option in [*options(table, point), *spare_options(table, point)]:
            regions = [r for r in regions_of(table, option.matcher) if key_of(r) == option.key]
            (mine, *_) = [r for r in regions if in_region(point, r)]
            for one, footprint in zip(wanted, prints, strict=True):
                if one.matches(event):
                    matches += 1
                    assert overlaps_region(footprint, mine)
                    missed_by_one_copy += (option.matcher, option.key[0]) != copies(
                        table, footprint
                    )[0]
    assert matches > 300
    # The paper's P2P keeps one copy, and would miss these.
    one_owner = len({s.owner for r in table.segments for s in r} - {""}) == 1
    assert missed_by_one_copy > 0 or one_owner


def a_filter(random: Random) -> str:
    low = random.randint(0, 9)
    kinds = [
        f"{{0}} >= {low} and {{0}} < {low + random.randint(1, 5)}",
        "{0} = 'x'",
        f"{{0}} > {low}",
        "{0} present",
    ]
    return (
        "("
        + " and ".join(
            random.choice(kinds).format(n) for n in random.sample("abc", random.randint(1, 2))
        )
        + ")"
    )


def test_who_lacks_the_attribute_is_matched_anywhere() -> None:
    dimensions = [Dimension("x"), Dimension("y")]
    table = even_table(dimensions, owners("ABC", 2))
    found = options(table, point_of(parse_event("[x,0.9],[z,1]"), dimensions))
    assert found == [Option("C", (0,)), *(Option(name, (1,)) for name in "ABC")]


def test_replicas_are_on_the_clockwise_neighbours() -> None:
    """III.A: where all candidates are one matcher, k - 1 others have the whole of that box."""
    dimensions = [Dimension(name, 0, 4) for name in "xyz"]
    table = even_table(dimensions, owners("ABCD", 3, stride=1))
    # Shifted against each other: A owns the first segment of x, the last of y, the third of z.
    (box,) = boxes(table, "A")
    assert box == ((0, -math.inf, 1.0), (1, 3.0, math.inf), (2, 2.0, 3.0))
    assert clockwise(table, "A") == ["B"]
    spread = SegmentTable(
        1,
        "",
        tuple(dimensions),
        (row((0, "A"), (2, "B")), row((0, "A"), (2, "C")), row((0, "A"), (2, "D"))),
    )
    assert clockwise(spread, "A") == ["C", "D"]
    point = (0.5, 0.5, 0.5)
    assert {o.matcher for o in options(spread, point)} == {"A"}
    assert [o.matcher for o in spare_options(spread, point)] == ["C", "D"]
    # One that reaches out of the box has a copy elsewhere, and is needed here all the same.
    reaching = footprint_of(parse_subscription("x < 3 and y < 1 and z < 1"), dimensions)
    assert ("B", 0) in copies(spread, reaching)
    assert any(overlaps_region(reaching, r) for r in regions_of(spread, "C") if len(r) == 3)


# --- coordinates ------------------------------------------------------------------------------------


@given(some.text(max_size=12), some.text(max_size=12))
def test_the_hash_keeps_the_order(a: str, b: str) -> None:
    if a <= b:
        assert 0.0 <= ordered_hash(a) <= ordered_hash(b) < 1.0


def test_the_hash_tells_words_apart() -> None:
    words = ["", " ", "IBM", "IBMX", "MSFT", "YHOO", "a", "aa", "ab", "z", "zzz~"]
    hashed = [ordered_hash(word) for word in words]
    assert hashed == sorted(set(hashed))


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("x > 5", ((math.nextafter(5, 9), math.inf),)),
        ("x >= 1 and x < 2", ((1.0, math.nextafter(2, 0)),)),
        ("x = 7", ((7.0, 7.0),)),
        ("x in (1, 9, 3)", ((1.0, 1.0), (3.0, 3.0), (9.0, 9.0))),
        ("x = true", ((10.0, 10.0),)),
        ("x != 4", ((-math.inf, math.inf),)),
        ("y = 1", None),
    ],
)
def test_what_a_predicate_takes_of_a_dimension(text: str, spans: object) -> None:
    (one,) = footprint_of(parse_subscription(text), [Dimension("x", 0, 10)])
    assert one[0] == spans


def test_a_disjunction_takes_what_its_filters_take_and_a_contradiction_nothing() -> None:
    dimensions = [Dimension("x", 0, 10)]
    both = footprint_of(parse_subscription("x < 1 or (x > 8 and y = 1)"), dimensions)
    assert len(both) == 2
    assert footprint_of(parse_subscription("x < 1 and x > 2"), dimensions) == ()
    assert point_of(Event({"x": math.nan}), dimensions) == (None,)
