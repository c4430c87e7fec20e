"""POP's decisions: tracing, averages, and the request that looks for the closest broker (000 section 3)."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from roost.relocation.brute_force import Ways
from roost.relocation.pop import (
    Answered,
    Forward,
    Profile,
    Request,
    Stays,
    Step,
    TraceWindow,
    is_due,
    next_step,
)
from tests.relocation.worlds import World, worlds


def table(local: int, **downstream: int) -> Profile:
    """After one trace."""
    return Profile().with_trace(local, downstream)


# Figure 1: 10 subscribers left of B5 (6 at B2 and behind it, 3 at B4, 1 at B1) and 15 right of it. How these
# are spread over B6, B7 and B8 is lost with the picture; as B6 is the closest, neither of the others has most
# of them.
FIGURE_1 = {
    "B1": table(1, B2=6, B4=3, B5=15),
    "B5": table(0, B6=15),
    "B6": table(4, B7=6, B8=5),
    "B7": table(6),
    "B8": table(5),
}


def asked(tables: Mapping[str, Profile], start: str) -> tuple[Step, list[str]]:
    """What comes of a request that begins at the publisher's broker, and whom it asked."""
    here, request, way = start, Request("P"), [start]
    while isinstance(step := next_step(request, here, tables[here]), Forward):
        here, request = step.neighbour, step.request
        way.append(here)
    return step, way


def test_figure_1() -> None:
    first = next_step(Request("P"), "B1", FIGURE_1["B1"])
    assert first == Forward("B5", Request("P", 10.0, ("B1",), 5.0))
    second = next_step(first.request, "B5", FIGURE_1["B5"])
    assert second == Forward("B6", Request("P", 10.0, ("B5", "B1"), 10.0))
    third = next_step(second.request, "B6", FIGURE_1["B6"])
    assert third == Answered(("B6", "B5", "B1"))


def test_figure_2_the_three_outcomes() -> None:
    """More on one link than on all others and here: on; else here; and here may be where it began."""
    from_x = Request("P", 4.0, ("X",))
    assert isinstance(next_step(from_x, "A", table(1, Y=6, Z=0)), Forward)
    assert next_step(from_x, "A", table(1, Y=5, Z=0)) == Answered(("A", "X"))  # as many is not more
    assert next_step(from_x, "A", table(9, Y=5)) == Answered(("A", "X"))
    assert next_step(Request("P"), "A", table(1, Y=3, Z=2)) == Stays()
    assert next_step(Request("P"), "A", table(0)) == Stays()


def test_a_request_never_goes_back() -> None:
    confused = Profile(100, 0.0, {"X": 50.0, "Y": 1.0})
    assert next_step(Request("P", 4.0, ("X",)), "A", confused) == Answered(("A", "X"))
    # And what the table says of the way back does not count: the request knows better.
    confused = Profile(100, 0.0, {"X": 50.0, "Y": 5.0})
    assert next_step(Request("P", 4.0, ("X",)), "A", confused) == Forward(
        "Y", Request("P", 4.0, ("A", "X"), 1.0)
    )


@given(worlds(), st.data())
def test_the_closest_broker_is_where_subscribers_are_nearest(
    world: World, data: st.DataObject
) -> None:
    """It ends where the sum of the hops to all subscribers is smallest: the median of the tree."""
    subscribers = {name: data.draw(st.integers(0, 5)) for name in world.names}
    start = data.draw(st.sampled_from(world.names))
    path = Ways(world.answers, start).path
    tables = {}
    for answer in world.answers:
        behind = {
            neighbour.broker: sum(
                subscribers[other] for other in world.names if neighbour.broker in path[other]
            )
            for neighbour in answer.neighbours
            if neighbour.broker not in path[answer.broker]
        }
        tables[answer.broker] = Profile().with_trace(subscribers[answer.broker], behind)
    step, way = asked(tables, start)
    hops = {
        name: sum(
            n * (len(Ways(world.answers, name).path[other]) - 1) for other, n in subscribers.items()
        )
        for name in world.names
    }
    assert hops[way[-1]] == min(hops.values())
    assert way == list(path[way[-1]])
    assert step == (Stays() if len(way) == 1 else Answered(tuple(reversed(way))))


def test_averages() -> None:
    profile = table(2, B=8)
    assert (profile.local, profile.downstream) == (2.0, {"B": 8.0})  # the first as it is
    profile = profile.with_trace(6, {"B": 4, "C": 8})
    assert (profile.local, profile.downstream) == (3.0, {"B": 7.0, "C": 2.0})
    profile = profile.with_trace(3, {"C": 2})  # B was not sent it
    assert (profile.local, profile.downstream) == (3.0, {"B": 5.25, "C": 2.0})
    assert profile.traces == 3
    assert profile.with_trace(0, {}, newest=1.0).downstream == {"B": 0.0, "C": 0.0}


def test_who_gets_little_does_not_look_like_an_audience() -> None:
    profile = Profile()
    for publication in range(200):
        rare = {"rare": 10} if publication % 100 == 0 else {}
        profile = profile.with_trace(0, {"always": 1, **rare})
    step = next_step(Request("P"), "A", profile)
    assert isinstance(step, Forward)
    assert step.neighbour == "always"


def test_tracing_has_a_bound() -> None:
    window = TraceWindow(100.0)
    assert window.probability() == 1.0  # the first of a window for certain
    for _ in range(25):
        window = window.with_traced()
    assert window.probability() == 0.5
    assert window.at(159.9) is window
    for _ in range(25):
        window = window.with_traced()
    assert window.probability() == 0.0
    assert window.with_traced().probability() == 0.0
    assert window.at(160.0) == TraceWindow(160.0, 0)
    assert window.probability(traced_max=100) == 0.5
    assert window.at(110.0, window_s=10.0) == TraceWindow(110.0)


def test_when_it_is_due() -> None:
    assert is_due(Profile(100), 0)
    assert not is_due(Profile(99), 0)
    assert not is_due(Profile(100), 1)
    assert is_due(Profile(10), 0, needed=10)
