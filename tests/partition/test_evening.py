"""Segments that are evened out, and what searches take by what was measured."""

from __future__ import annotations

from random import Random

import pytest

from roost.partition.dimensions import Dimension
from roost.partition.evening import even_out, lengths_on
from roost.partition.handover import first_table, forget, leave, switch
from roost.partition.metering import Meter
from roost.partition.segments import SegmentTable, gaps
from tests.partition.test_service import crowd
from tests.partition.worlds import dispatcher_of, service, simulated

X, Y = Dimension("x", 0, 100), Dimension("y", 0, 100)


def taken_over(table: SegmentTable) -> SegmentTable:
    for name in table.matchers():
        table = switch(table, name, writer="D")
    return forget(table, writer="D")


def test_neighbours_that_are_lost_leave_no_giant() -> None:
    table = first_table([X, Y], [f"M{n}" for n in range(10)])
    assert even_out(table, table.matchers(), writer="D") is table
    for lost in ("M3", "M4", "M5", "M6", "M7"):
        table = taken_over(leave(table, lost, {}, writer="D"))
    assert max(lengths_on(table, 0).values()) == pytest.approx(60.0)
    for dimension in (0, 1):
        cut = even_out(table, table.matchers(), writer="D")
        assert gaps(cut) == []
        # Who has it has all of it until somebody else does.
        assert lengths_on(cut, dimension) == pytest.approx(lengths_on(table, dimension))
        table = taken_over(cut)
        assert list(lengths_on(table, dimension).values()) == pytest.approx([20.0] * 5)
        assert len(table.segments[dimension]) == 5
    assert even_out(table, table.matchers(), writer="D") is table


def test_who_has_nothing_of_a_dimension_gets_a_part() -> None:
    table = first_table([X], "AB")
    assert set(lengths_on(taken_over(even_out(table, "ABC", writer="D")), 0)) == {"A", "B", "C"}


def test_a_service_evens_out_what_crashes_have_left() -> None:
    lines = [*service(8, dispatcher_words="even_s=3"), *crowd(4, until=40)]
    lines += [f"{10 + n:.1f} broker crash M{n} keep" for n in range(5)]
    world, checks, _ = simulated(lines, 40.0)
    assert checks.lost == checks.doubled == checks.reordered == 0
    table = dispatcher_of(world, "D0").steward.table
    assert table.matchers() == ["M5", "M6", "M7"]
    for dimension in (0, 1):
        assert list(lengths_on(table, dimension).values()) == pytest.approx([100 / 3] * 3)


@pytest.mark.parametrize(("message_s", "entry_s"), [(0.0, 1e-6), (3e-6, 1e-9), (5e-6, 0.0)])
def test_a_meter_finds_what_messages_and_subscriptions_take(
    message_s: float, entry_s: float
) -> None:
    random, meter = Random(1), Meter()
    for _ in range(200):
        size = random.randint(100, 20_000)
        noise = random.gauss(1.0, 0.02)
        meter.add(500, size, (message_s + entry_s * size) * noise)
    for size in (100, 10_000):
        assert meter.search_s(size) == pytest.approx(message_s + entry_s * size, rel=0.15, abs=2e-6)


def test_sets_that_are_alike_are_taken_in_proportion() -> None:
    meter = Meter()
    meter.add(1_000, 5_000, 1e-3)
    assert meter.search_s(10_000) == pytest.approx(2e-3)
    assert Meter().search_s(7) == pytest.approx(7e-9)  # nothing has been measured: sizes count
