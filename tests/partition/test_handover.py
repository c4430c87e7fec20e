"""Joining and leaving by 004 sections III.C and IV.E, and the steps in which a segment changes hands."""

from __future__ import annotations

import math

import pytest

from roost.errors import UserError
from roost.partition.dimensions import Dimension
from roost.partition.handover import (
    STEPS,
    first_table,
    forget,
    join_each,
    join_one,
    leave,
    middle,
    phase_of,
    switch,
    taken,
)
from roost.partition.segments import Segment, SegmentTable, gaps, newest, regions_of

X, Y = Dimension("x", 0, 100), Dimension("y", 0, 100)
LOADS = {(0, "A"): 5.0, (0, "B"): 1.0, (1, "A"): 1.0, (1, "B"): 4.0}


def names(table: SegmentTable) -> list[list[tuple[float, str, str, str]]]:
    return [[(s.start, s.owner, s.heir, s.former) for s in row] for row in table.segments]


def test_iv_e_splits_the_most_loaded_of_each_dimension() -> None:
    table = join_each(first_table([X, Y], "AB"), "J", LOADS, writer="D")
    assert names(table) == [
        [(-math.inf, "A", "", ""), (25.0, "A", "J", ""), (50.0, "B", "", "")],
        [(-math.inf, "A", "", ""), (50.0, "B", "", ""), (75.0, "B", "J", "")],
    ]


def test_iii_c_splits_every_segment_of_the_most_loaded_matcher() -> None:
    table = join_one(first_table([X, Y], "AB"), "J", LOADS, writer="D")
    assert [[s.owner for s in row if s.heir == "J"] for row in table.segments] == [["A"], ["A"]]


def test_half_of_the_subscriptions_not_of_the_length() -> None:
    """IV.E: "takes over about half of its subscriptions"."""
    spans = [(n, n + 0.5) for n in range(10)] + [(80.0, 90.0)] * 4
    at = middle(X, (0, -math.inf, 100.0), spans)
    assert at is not None
    left, right = sum(a < at for a, _ in spans), sum(b >= at for _, b in spans)
    assert max(left, right) <= 8
    assert middle(X, (0, 0.0, 100.0), ()) == 50.0
    assert middle(X, (0, 5.0, math.nextafter(5.0, 6.0)), ()) is None
    # Beyond the extent of the dimension there may be segments as well.
    assert middle(X, (0, 300.0, math.inf), ()) == pytest.approx(350.0)
    assert middle(X, (0, -math.inf, -200.0), ()) == pytest.approx(-250.0)


def test_hand_over_switch_forget() -> None:
    first = first_table([X, Y], "AB")
    handed = join_each(first, "J", LOADS, writer="D")
    assert len(regions_of(handed, "J")) == 2  # it is filled,
    assert not any(s.owner == "J" for row in handed.segments for s in row)  # and not asked
    switched = switch(handed, "J", writer="D")
    assert [s.owner for s in switched.segments[0]] == ["A", "J", "B"]
    assert [s.former for s in switched.segments[0]] == ["", "A", ""]
    assert set(handed.slabs("A")) <= set(switched.slabs("A"))  # A still knows all of it
    forgotten = forget(switched, writer="D")
    assert [phase_of(s) for row in forgotten.segments for s in row] == ["kept"] * 6
    assert [t.version for t in (first, handed, switched, forgotten)] == [1, 2, 3, 4]
    assert forget(forgotten, writer="D") is forgotten


def test_leaving_is_the_reverse() -> None:
    """III.C: segments go to adjacent matchers; what touches is one again."""
    first = first_table([X, Y], "AB")
    there = forget(switch(join_each(first, "J", LOADS, writer="D"), "J", writer="D"), writer="D")
    left = leave(there, "J", LOADS, writer="D")
    assert [s.heir for row in left.segments for s in row if s.owner == "J"] == ["B", "A"] or [
        s.heir for row in left.segments for s in row if s.owner == "J"
    ] == ["B", "B"]
    for heir in "AB":
        left = switch(left, heir, writer="D")
    gone = forget(left, writer="D")
    assert gone.matchers() == ["A", "B"]
    assert all(len(row) == 2 for row in gone.segments)
    assert gaps(gone) == []


def test_an_heir_that_is_lost_is_nobodys_heir() -> None:
    handed = join_each(first_table([X, Y], "AB"), "J", LOADS, writer="D")
    assert leave(handed, "J", LOADS, writer="D").matchers() == ["A", "B"]


def test_what_a_lost_owner_had_goes_back_to_who_had_it_before() -> None:
    handed = join_each(first_table([X, Y], "AB"), "J", LOADS, writer="D")
    lost = leave(switch(handed, "J", writer="D"), "J", LOADS, writer="D")
    assert [s.heir for s in lost.segments[0]] == ["", "A", ""]
    assert [s.heir for s in lost.segments[1]] == ["", "", "B"]


def test_the_last_matcher_stays() -> None:
    table = first_table([X], "A")
    assert leave(table, "A", {}, writer="D") is table
    both = first_table([X], "AB")
    assert leave(both, "A", {}, away=["B"], writer="D") is both


def test_only_the_steps_of_the_table_are_taken() -> None:
    phases = {
        "kept": Segment(0.0, "A"),
        "handed over": Segment(0.0, "A", heir="J"),
        "switched": Segment(0.0, "J", former="A"),
    }
    for phase, segment in phases.items():
        assert phase_of(segment) == phase
        for step in ("hand over", "switch", "forget", "abandon"):
            after = taken(segment, step, "K")
            expected = STEPS.get((phase, step), phase)
            assert phase_of(after) == expected
            if (phase, step) not in STEPS:
                assert after is segment


def test_whoever_compares_two_tables_takes_the_same() -> None:
    first = first_table([X], "AB")
    a, b = (leave(first, name, {}, writer=f"D{name}") for name in "AB")
    assert newest(a, b) is newest(b, a) is b
    assert newest(None, a) is a
    assert newest(a, first) is a


def test_a_partition_of_nothing() -> None:
    with pytest.raises(UserError, match="0 dimensions and 1 matchers"):
        first_table([], ["A"])
