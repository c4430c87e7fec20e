"""Dimensions that come and go: the steps, the choice of them, and a service that finds its own (004 VI)."""

from __future__ import annotations

from random import Random

import pytest

from roost.errors import UserError
from roost.language import Event, parse_subscription
from roost.partition.attributes import choose_dimensions, next_step
from roost.partition.curator import operators_step, stepped
from roost.partition.dimensions import Dimension
from roost.partition.handover import first_table, forget, leave, switch
from roost.partition.reshaping import EVERYWHERE, come, go
from roost.partition.segments import SegmentTable, gaps, options
from tests.partition.worlds import dispatcher_of, matcher_of, service, simulated

X, Y = Dimension("x", 0, 100), Dimension("y", 0, 100)


def names(table: SegmentTable) -> list[list[tuple[str, str, str]]]:
    return [[(s.owner, s.heir, s.former) for s in row] for row in table.segments]


def test_one_comes_and_another_goes() -> None:
    first = first_table([X], "AB")
    coming = come(first, Y, "AB", writer="D")
    assert names(coming)[1] == [("", "A", ""), ("", "B", "")]
    assert coming.live == [0]
    assert go(coming, "x", writer="D") is coming  # nobody could be asked
    there = switch(switch(coming, "A", writer="D"), "B", writer="D")
    assert there.settled
    assert there.live == [0, 1]
    going = go(there, "x", writer="D")
    assert names(going)[0] == [("", "", "A"), ("", "", "B")]
    assert {option.key for option in options(going, (1.0, 1.0))} == {(1,)}
    gone = forget(going, writer="D")
    assert gone.segments[0] == ()
    assert gaps(gone) == []
    # Its number is the next one's.
    again = come(gone, Dimension("z", 0, 1), "AB", writer="D")
    assert [d.attribute for d in again.dimensions] == ["z", "y"]
    assert come(there, Y, "AB", writer="D") is there


def test_a_matcher_that_is_lost_while_one_comes() -> None:
    coming = come(first_table([X], "AB"), Y, "AB", writer="D")
    lost = leave(coming, "B", {}, writer="D")
    assert [s.heir for s in lost.segments[1]] == ["A", "A"]
    assert gaps(lost) == []


def wanted(r: Random, attribute: str, count: int = 60) -> list[str]:
    lows = [90 * r.random() ** 3 for _ in range(count)]  # with a hot spot
    return [f"{attribute} >= {low:.2f} and {attribute} < {low + 10:.2f}" for low in lows]


def published(r: Random, count: int = 60) -> list[Event]:
    return [Event({n: r.uniform(0, 100) for n in "xyz"}) for _ in range(count)]


def test_steps_lead_to_the_choice_and_rest_there() -> None:
    r = Random(1)
    pairs = zip(wanted(r, "x"), wanted(r, "y"), strict=True)
    subscriptions = [parse_subscription(f"{x} and {y}") for x, y in pairs]
    events = published(r)
    table = first_table([EVERYWHERE], ["A", "B", "C", "D"])
    seen = []
    for _ in range(10):
        present = [table.dimensions[place] for place in table.live]
        step = next_step(subscriptions, events, most=2, matchers=4, present=present)
        if step is None:
            break
        seen.append((step.what, step.dimension.attribute))
        table = stepped(table, step, "ABCD", writer="D")
        for matcher in "ABCD":
            table = switch(table, matcher, writer="D")
        table = forget(table, writer="D")
        assert gaps(table) == []
    attributes = sorted(table.dimensions[place].attribute for place in table.live)
    choice = choose_dimensions(subscriptions, events, most=2, matchers=4)
    assert attributes == sorted(d.attribute for d in choice.dimensions) == ["x", "y"]
    assert seen[-1] == ("go", "")
    assert len(seen) == 3


def test_a_service_finds_its_dimensions_and_changes_them_as_subscriptions_change() -> None:
    """Without any at the beginning; nothing is missed at any moment."""
    r = Random(3)
    lines = service(3, dimensions="", dispatcher_words="choose_s=2 dimensions_max=1")
    lines = [line.replace("dimensions= ", "") for line in lines]
    lines += [f"1.0 publisher add P{n} - 0 D{n % 2}" for n in range(2)]
    for n, text in enumerate(wanted(r, "x", 24)):
        lines.append(f"{1 + r.random():.3f} subscriber add S{n} D{n % 2} {text}")
    for n, text in enumerate(wanted(r, "y", 48)):
        lines.append(f"{20 + r.random():.3f} subscriber subscribe S{n % 24} y{n} {text}")
    lines += [f"{24 + r.random():.3f} subscriber unsubscribe S{n} main" for n in range(24)]
    for n in range(600):
        x, y = r.uniform(0, 100), r.uniform(0, 100)
        lines.append(f"{3 + n * 0.07:.3f} publisher publish P{n % 2} [x,{x:.2f}],[y,{y:.2f}]")
    world, checks, reasons = simulated(lines, 50.0)
    assert (checks.violations, reasons) == ((), [])
    assert checks.clean
    assert checks.rested
    assert checks.delivered > 1_500
    for name in ("D0", "D1"):
        assert dispatcher_of(world, name).figures()["dimensions"] == ["y"]
    # Each has a part: at the beginning all had everything.
    assert sum(matcher_of(world, f"M{n}").seats[""].wards.size((0,)) for n in range(3)) < 3 * 48


def test_what_an_operator_says_wrongly() -> None:
    with pytest.raises(UserError, match="expected come=NAME:LOW:HIGH or go=NAME"):
        operators_step({"come": ""})
    with pytest.raises(UserError, match="expected come=NAME:LOW:HIGH or go=NAME"):
        operators_step({})
    with pytest.raises(UserError, match="expected NAME:LOW:HIGH"):
        operators_step({"come": "x"})
    assert operators_step({"go": "x"}).dimension.attribute == "x"
