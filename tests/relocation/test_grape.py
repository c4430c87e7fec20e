"""Where a publisher should be: re-rooting against the paper's algorithms, and both against counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.optimising.bitvector import BitVector
from roost.optimising.goal import Goal
from roost.relocation import literal
from roost.relocation.brute_force import publisher_everywhere
from roost.relocation.choosing import Choice
from roost.relocation.grape import choose_broker
from roost.relocation.statistics import Answer, Neighbour, Trace
from roost.relocation.tree import BadAnswersError
from tests.relocation.test_choosing import GOALS, obvious
from tests.relocation.worlds import MS, PUBLICATIONS, World, worlds

TRACE = Trace(
    PUBLICATIONS, rate_per_s=float(PUBLICATIONS)
)  # so that a load is a number of messages


def everywhere(world: World, pings_s: dict[str, float] | None = None) -> dict[str, Choice]:
    """What is predicted for each broker: that of the choice that a publisher there would have."""
    return {
        name: choose_broker(world.answers, name, TRACE, Goal(), pings_s) for name in world.names
    }


@given(worlds())
def test_the_papers_algorithms_count_what_happens(world: World) -> None:
    counted = publisher_everywhere(world.answers, world.deliveries)
    for name, (delay, messages) in literal.predictions(world.answers, {}).items():
        assert delay == pytest.approx(counted[name].average_s)
        assert messages == counted[name].messages


@given(worlds(), st.data())
def test_re_rooting_says_the_same(world: World, data: st.DataObject) -> None:
    pings = {name: data.draw(MS) for name in world.names}
    halves = {name: ping / 2 for name, ping in pings.items()}
    expected = literal.predictions(world.answers, halves)
    root = data.draw(st.sampled_from(world.names))
    choice = choose_broker(world.answers, root, TRACE, Goal(), pings)
    assert choice.candidates == len(world.names)
    # All of a small world is evidence.
    for candidate in choice.evidence:
        delay, messages = expected[candidate.broker]
        assert candidate.delay_s == pytest.approx(delay, abs=1e-12)
        assert candidate.load_per_s == pytest.approx(messages)


@given(worlds(), GOALS, st.data())
def test_the_choice_is_the_best_by_counting(world: World, goal: Goal, data: st.DataObject) -> None:
    present = data.draw(st.sampled_from(world.names))
    counted = publisher_everywhere(world.answers, world.deliveries)
    table = {
        name: (round(outcome.average_s * 1e9), outcome.messages)
        for name, outcome in counted.items()
    }
    choice = choose_broker(world.answers, present, TRACE, goal)
    assert choice.chosen.broker == obvious(goal, table, present)
    assert choice.deliveries_per_s == pytest.approx(counted[present].deliveries)


@given(worlds(most=40))
def test_wherever_it_is_seen_from(world: World) -> None:
    """The predictions for a broker do not depend on where the publisher is now."""
    expected = literal.predictions(world.answers, {})
    for name, choice in everywhere(world).items():
        for candidate in (choice.present, choice.chosen):
            delay, messages = expected[candidate.broker]
            assert candidate.delay_s == pytest.approx(delay, abs=1e-12)
            assert candidate.load_per_s == pytest.approx(messages)
        assert choice.present.broker == name


def star(*audiences: list[int]) -> list[Answer]:
    """R relays between A, B, C, ..., who have one client that gets these publications."""
    names = "ABCDEF"[: len(audiences)]
    leaves = [
        Answer(name, (Neighbour("R", latency_s=0.010),), BitVector(bits).to_bytes(), len(bits))
        for name, bits in zip(names, audiences, strict=True)
    ]
    return [Answer("R", tuple(Neighbour(name, latency_s=0.010) for name in names)), *leaves]


def test_a_relay_without_subscribers_may_be_best() -> None:
    answers = star([0, 1], [0, 1], [0, 1])
    choice = choose_broker(answers, "A", Trace(2, 2.0), Goal())
    assert choice.chosen.broker == "R"
    assert choice.chosen.delay_s == pytest.approx(0.010)
    assert choice.present.delay_s == pytest.approx(0.040 / 3)
    assert choice.present.load_per_s == pytest.approx(2 * 4)
    assert choice.decided_by == "delay"


def test_load_goes_to_who_wants_all_and_delay_to_the_many() -> None:
    """The paper's enterprise (000 section 5.2): a database that sinks all, and many who want little."""
    answers = [
        Answer(
            "database", (Neighbour("R", latency_s=0.01),), BitVector(range(100)).to_bytes(), 100
        ),
        Answer("R", (Neighbour("database", latency_s=0.01), Neighbour("office", latency_s=0.01))),
        Answer("office", (Neighbour("R", latency_s=0.01),), BitVector(range(10)).to_bytes(), 500),
    ]
    trace = Trace(100, 10.0)
    assert choose_broker(answers, "R", trace, Goal("load", 100)).chosen.broker == "database"
    assert choose_broker(answers, "R", trace, Goal("delay", 100)).chosen.broker == "office"
    assert choose_broker(answers, "R", trace, Goal("delay", 0)).chosen.broker == "database"
    assert choose_broker(answers, "R", trace, Goal("load", 0)).chosen.broker == "office"
    load = choose_broker(answers, "office", trace, Goal("load", 100))
    # 100 + 10 + 10 messages of a hundred publications instead of three times 100, at 10 publications/s.
    assert (load.chosen.load_per_s, load.present.load_per_s) == (12.0, 30.0)


def test_pings() -> None:
    answers = star([0], [0])
    far = {"A": 0.001, "R": 0.001, "B": 0.300}
    choice = choose_broker(answers, "B", Trace(1, 1.0), Goal(), far)
    # From either leaf half of the deliveries take no time and half of them 20 ms.
    assert choice.present.delay_s == pytest.approx(0.150 + 0.010)
    assert choice.chosen.delay_s == pytest.approx(0.0005 + 0.010)
    unreached = choose_broker(answers, "B", Trace(1, 1.0), Goal(), {"B": 0.3, "R": 0.001})
    assert unreached.chosen.broker == "R"
    assert unreached.candidates == 2
    assert {c.broker: c.outcome for c in unreached.evidence}["A"] == (
        "the client has no round trip to it"
    )


def test_nothing_was_delivered() -> None:
    choice = choose_broker(star([], []), "B", Trace(100, 5.0), Goal())
    assert (choice.chosen.broker, choice.moves, choice.chosen.delay_s) == ("B", False, 0.0)


def test_answers_that_cannot_be() -> None:
    answers = star([0], [5])
    with pytest.raises(BadAnswersError, match="beyond the 5 publications"):
        choose_broker(answers, "R", Trace(5, 1.0), Goal())
    with pytest.raises(BadAnswersError, match="no round trip to R"):
        choose_broker(answers, "R", Trace(6, 1.0), Goal(), {"A": 0.1})
    with pytest.raises(BadAnswersError, match="a delay of -1 s at A"):
        choose_broker(answers, "R", Trace(6, 1.0), Goal(), {"R": 0.1, "A": -2.0})
    negative = [replace(answers[0], deliveries=-1), *answers[1:]]
    with pytest.raises(BadAnswersError, match="negative"):
        choose_broker(negative, "R", Trace(6, 1.0), Goal())


@given(worlds(), st.data())
def test_a_broker_that_would_be_too_busy_is_no_candidate(world: World, data: st.DataObject) -> None:
    """With the publisher there it receives all publications, and sends on what is wanted elsewhere."""
    present = data.draw(st.sampled_from(world.names))
    near = {a.broker: [n.broker for n in a.neighbours] for a in world.answers}

    def towards(name: str) -> str:
        """The neighbour on the way to the present broker."""
        came_from = {present: ""}
        for broker in (waiting := [present]):
            for other in near[broker]:
                if other not in came_from:
                    came_from[other] = broker
                    waiting.append(other)
        return came_from[name]

    def wanted(start: str, without: str) -> set[int]:
        """The publications that are delivered at a broker and on, not through another."""
        found = {i for i, clients in enumerate(world.deliveries[start]) if clients}
        for other in near[start]:
            if other != without:
                found |= wanted(other, start)
        return found

    full = {}
    answers = []
    for answer in world.answers:
        name = answer.broker
        side = data.draw(st.sampled_from(["input", "output", "neither"]), label=name)
        if name == present:
            answers.append(replace(answer, input_utilisation=2.0))  # to stay is always possible
            continue
        more_in = PUBLICATIONS - len(wanted(name, towards(name)))
        more_out = len(wanted(towards(name), name))
        over = {"input": 0.0, "output": 0.0, side: 0.001}
        answers.append(
            replace(
                answer,
                matching_s=0.001,
                sending_s=0.001,
                input_utilisation=0.9 - 0.001 * more_in - 1e-9 + over["input"],
                output_utilisation=0.9 - 0.001 * more_out - 1e-9 + over["output"],
            )
        )
        if side != "neither":
            full[name] = side
    choice = choose_broker(answers, present, TRACE, Goal(), utilisation_max=0.9)
    assert choice.candidates == len(world.names) - len(full)
    assert choice.chosen.broker not in full
    for candidate in choice.evidence:
        if candidate.broker in full:
            side = full[candidate.broker]
            assert candidate.outcome == f"its {side} utilisation would be 0.90, above 0.9"
