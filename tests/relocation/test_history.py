"""Sessions put together, against one session that was as long."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.optimising.bitvector import BitVector
from roost.optimising.goal import Goal
from roost.relocation.grape import choose_broker
from roost.relocation.history import (
    HISTORIES_MAX,
    Histories,
    Past,
    added,
    choose_remembering,
    together,
)
from roost.relocation.statistics import Answer, Neighbour, Trace
from tests.relocation.test_choosing import GOALS
from tests.relocation.worlds import PUBLICATIONS, World, bits, rows, worlds

AT = Answer("B", (Neighbour("C"),), b"\1", 1)
NEXT = Answer("C", (Neighbour("B"),), b"\1", 1)


@given(worlds(most=6), st.data())
def test_together_they_are_one_long_session(world: World, data: st.DataObject) -> None:
    """Of brokers that were not asked about every session, too, as they had got nothing of it."""
    number = data.draw(st.integers(1, 4), label="sessions")
    history: tuple[Past, ...] = ()
    counted: dict[str, list[list[int]]] = {name: [] for name in world.names}
    answered: set[str] = set()
    for session in range(number):
        answers = []
        for answer in world.answers:
            row = data.draw(rows())
            counted[answer.broker].insert(0, row)
            if any(row) or data.draw(st.booleans()):
                answers.append(replace(answer, bits=bits(row), deliveries=sum(row)))
                answered.add(answer.broker)
        past = Past(1 + session * PUBLICATIONS, tuple(answers))
        history = added(history, past, PUBLICATIONS, memory=number)
    whole = {answer.broker: answer for answer in together(history, PUBLICATIONS)}
    assert set(whole) == answered
    for answer in world.answers:
        if answer.broker in answered:
            all_of_it = list(chain.from_iterable(counted[answer.broker]))
            expected = replace(answer, bits=bits(all_of_it), deliveries=sum(all_of_it))
            assert whole[answer.broker] == expected


def test_what_was_said_again_is_not_kept_twice() -> None:
    relay = Answer("D", (Neighbour("C"),))
    history = added((Past(1, (AT, NEXT, relay)),), Past(101, (AT, relay)), 100, memory=4)
    assert history[1].answers == (Answer("B", (), b"\1", 1), NEXT)


def test_only_so_many_and_nothing_of_long_ago() -> None:
    history: tuple[Past, ...] = ()
    for first in (1, 101, 201, 301, 501):
        history = added(history, Past(first, (AT,)), 100, memory=3)
    assert [past.first for past in history] == [501, 301, 201]
    # It has been elsewhere for long, or has begun to count anew.
    assert [past.first for past in added(history, Past(1_000, (AT,)), 100, 3)] == [1_000, 501]
    assert [past.first for past in added(history, Past(1_101, (AT,)), 100, 3)] == [1_101, 501]
    assert [past.first for past in added(history, Past(1_102, (AT,)), 100, 3)] == [1_102]
    assert [past.first for past in added(history, Past(2_001, (AT,)), 100, 3)] == [2_001]
    assert [past.first for past in added(history, Past(1, (AT,)), 100, 3)] == [1]


def test_with_a_memory_of_one_it_is_the_papers() -> None:
    histories = Histories(100, 1)
    histories.add("P", Past(1, (AT, NEXT)))
    assert histories.add("P", Past(101, (AT,))) == (Past(101, (AT,)),)


@given(worlds(most=6), GOALS, st.data())
def test_the_choice_is_that_of_the_long_session(
    world: World, goal: Goal, data: st.DataObject
) -> None:
    history: tuple[Past, ...] = ()
    for session in range(data.draw(st.integers(1, 3), label="sessions")):
        answers = [
            replace(answer, bits=bits(row), deliveries=sum(row))
            for answer in world.answers
            for row in [data.draw(rows())]
        ]
        past = Past(1 + session * PUBLICATIONS, tuple(answers))
        history = added(history, past, PUBLICATIONS, memory=3)
    present = data.draw(st.sampled_from(world.names))
    found = choose_remembering(history, present, Trace(PUBLICATIONS, 1.0), goal)
    whole = Trace(len(history) * PUBLICATIONS, 1.0)
    assert found.choice == choose_broker(together(history, PUBLICATIONS), present, whole, goal)
    assert found.sessions == len(history)


ELSEWHERE = Answer("B", (Neighbour("D"),), b"\1", 1)
TOO_LONG = replace(AT, bits=BitVector([4]).to_bytes())


@pytest.mark.parametrize(
    ("newest", "older"), [((ELSEWHERE,), (AT, NEXT)), ((AT,), (TOO_LONG, NEXT))]
)
def test_what_does_not_fit_together_is_not_put_together(
    newest: tuple[Answer, ...], older: tuple[Answer, ...]
) -> None:
    """The link to C is gone; or one bit too many of a session, which must not spill into the next."""
    found = choose_remembering((Past(5, newest), Past(1, older)), "B", Trace(4, 1.0), Goal())
    assert (found.answers, found.sessions) == (newest, 1)


def test_what_is_remembered_is_bounded() -> None:
    histories = Histories(100, 4)
    for number in range(HISTORIES_MAX + 1):
        histories.put(f"P{number}", (Past(1, (AT,)),))
    assert histories.take("P0") == ()
    assert histories.take("P1") == (Past(1, (AT,)),)
    assert histories.take("P1") == ()
