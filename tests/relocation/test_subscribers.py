"""Where a group of subscribers should be: the estimates against a recount of every message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.optimising.bitvector import BitVector
from roost.optimising.goal import Goal
from roost.relocation.brute_force import Outcome, Ways, group_everywhere
from roost.relocation.choosing import Choice
from roost.relocation.statistics import Answer, Neighbour, Trace
from roost.relocation.subscribers import Source, choose_broker_for_group
from roost.relocation.tree import BadAnswersError
from tests.relocation.test_choosing import GOALS, obvious
from tests.relocation.worlds import PUBLICATIONS, World, bits, rows, worlds

TRACE = Trace(PUBLICATIONS, rate_per_s=float(PUBLICATIONS))


@st.composite
def audiences(draw: st.DrawFn) -> tuple[World, list[Source], list[list[int]], list[World]]:
    """A tree, and publishers on it, each with others that it is delivered to, and what the group gets."""
    world = draw(worlds(most=7))
    sources, groups, views = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        others = {name: draw(rows()) for name in world.names if draw(st.booleans())}
        members = draw(st.integers(1, 3))
        group = [members * bool(clients) for clients in draw(rows())]
        views.append(World(world.answers, others))
        groups.append(group)
        sources.append(
            Source(
                broker=draw(st.sampled_from(world.names)),
                trace=TRACE,
                others={name: bits(row) for name, row in others.items()},
                wanted=bits(group),
                deliveries=sum(group),
            )
        )
    return world, sources, groups, views


@given(audiences(), GOALS, st.data())
def test_against_a_recount(
    drawn: tuple[World, list[Source], list[list[int]], list[World]],
    goal: Goal,
    data: st.DataObject,
) -> None:
    world, sources, groups, views = drawn
    found: dict[str, list[tuple[Outcome, Outcome]]] = {name: [] for name in world.names}
    for source, group, view in zip(sources, groups, views, strict=True):
        counted = group_everywhere(world.answers, source.broker, view.deliveries, group)
        for name, outcomes in counted.items():
            found[name].append(outcomes)
    messages = {name: sum(all_.messages for all_, _ in some) for name, some in found.items()}
    delay = {name: sum(own.delay_s for _, own in some) for name, some in found.items()}
    deliveries = sum(map(sum, groups))
    average = {name: value / max(deliveries, 1) for name, value in delay.items()}

    present = data.draw(st.sampled_from(world.names))
    choice = choose_broker_for_group(world.answers, present, sources, goal)
    assert choice.deliveries_per_s == pytest.approx(deliveries)
    assert {candidate.broker for candidate in choice.evidence} == set(world.names)
    for candidate in choice.evidence:
        assert candidate.delay_s == pytest.approx(average[candidate.broker], abs=1e-12)
        assert candidate.load_per_s == pytest.approx(messages[candidate.broker])
    table = {name: (round(average[name] * 1e9), messages[name]) for name in world.names}
    assert choice.chosen.broker == obvious(goal, table, present)


@given(audiences(), st.data())
def test_room_against_a_recount(
    drawn: tuple[World, list[Source], list[list[int]], list[World]], data: st.DataObject
) -> None:
    """How much more a broker receives and sends with the group there, counted message by message."""
    world, sources, groups, views = drawn
    present, *others = data.draw(st.permutations(world.names))
    more_in = dict.fromkeys(world.names, 0)
    more_out = dict.fromkeys(world.names, 0)
    for source, group, view in zip(sources, groups, views, strict=True):
        ways = Ways(world.answers, source.broker)
        for publication, members in enumerate(group):
            if not members:
                continue
            wanting = {name for name, row in view.deliveries.items() if row[publication]}
            now = _carried(ways, wanting | {present})
            for name in others:
                then = _carried(ways, wanting | {name})
                more_in[name] += (name in then[0]) - (name in now[0])
                more_out[name] += then[1].get(name, 0) - now[1].get(name, 0) + members
    # Each broker would be just at the limit, or a half message above it.
    above = {name: data.draw(st.sampled_from(["no", "in", "out"])) for name in others}
    answers = [
        answer
        if answer.broker == present
        else replace(
            answer,
            matching_s=0.01,
            sending_s=0.01,
            input_utilisation=0.9 - 0.01 * (more_in[name] - (above[name] == "in") * 0.5) - 1e-9,
            output_utilisation=0.9 - 0.01 * (more_out[name] - (above[name] == "out") * 0.5) - 1e-9,
        )
        for answer in world.answers
        for name in [answer.broker]
    ]
    choice = choose_broker_for_group(answers, present, sources, Goal())
    assert choice.candidates == 1 + sum(side == "no" for side in above.values())
    for candidate in choice.evidence:
        side = above.get(candidate.broker, "no")
        assert ("utilisation would be" in candidate.outcome) == (side != "no")
        if side != "no":
            assert candidate.outcome.startswith(f"its {side}put utilisation would be 0.9")


def _carried(ways: Ways, receivers: set[str]) -> tuple[set[str], dict[str, int]]:
    """Who receives a publication, and how many neighbours each sends it on to."""
    receiving = {name for receiver in receivers for name in ways.path[receiver]}
    sending: dict[str, int] = {}
    for name in receiving:
        if len(ways.path[name]) > 1:
            before = ways.path[name][-2]
            sending[before] = sending.get(before, 0) + 1
    return receiving, sending


def chain(*names: str) -> list[Answer]:
    return [
        Answer(
            name,
            tuple(
                Neighbour(names[j], latency_s=0.01) for j in (i - 1, i + 1) if 0 <= j < len(names)
            ),
            matching_s=0.001,
            sending_s=0.001,
        )
        for i, name in enumerate(names)
    ]


def source(broker: str, rate: float = 10.0, **others: range) -> Source:
    audience = {name: BitVector(bits).to_bytes() for name, bits in others.items()}
    wanted = BitVector(range(100)).to_bytes()
    return Source(broker, Trace(100, rate), audience, wanted, 100)


def decided(choice: Choice) -> tuple[str, float, float]:
    return choice.chosen.broker, choice.present.load_per_s, choice.chosen.load_per_s


def test_it_moves_to_its_publisher() -> None:
    answers = chain("A", "B", "C", "D")
    choice = choose_broker_for_group(answers, "D", [source("A")], Goal("load"))
    assert decided(choice) == ("A", 40.0, 10.0)


def test_it_joins_others_who_get_the_same_anyway() -> None:
    """C gets half of it for others, so the way to C costs half; and a faster publisher is nearer."""
    answers = chain("A", "B", "C", "D")
    slow, fast = source("A", 2.0, C=range(50)), source("D", 10.0)
    choice = choose_broker_for_group(answers, "B", [slow, fast], Goal("load"))
    # At B: A, B and C get 2 + 2 + 1 of the slow one, and D, C and B 10 of the fast one each.
    # At D: A, B, C and D get 2 each of the slow one, and only D the fast one.
    assert decided(choice) == ("D", 35.0, 18.0)


def test_a_full_broker_is_no_place() -> None:
    answers = chain("A", "B", "C")
    answers[0] = replace(answers[0], output_utilisation=0.895)
    at_once = choose_broker_for_group(answers, "C", [source("A")], Goal("load"))
    assert decided(at_once) == ("A", 30.0, 10.0)  # it sends the same as now, to the group itself
    of_three = replace(source("A"), deliveries=300)
    choice = choose_broker_for_group(answers, "C", [of_three], Goal("load"))
    assert choice.chosen.broker == "B"
    outcomes = {candidate.broker: candidate.outcome for candidate in choice.evidence}
    assert outcomes["A"] == "its output utilisation would be 0.92, above 0.9"
    roomy = choose_broker_for_group(answers, "C", [of_three], Goal("load"), utilisation_max=0.95)
    assert roomy.chosen.broker == "A"


def test_to_stay_is_always_possible() -> None:
    answers = [replace(answer, input_utilisation=0.99) for answer in chain("A", "B", "C")]
    choice = choose_broker_for_group(answers, "C", [source("A")], Goal("load"))
    assert (choice.moves, choice.candidates) == (False, 1)


def test_pings_of_the_group() -> None:
    answers = chain("A", "B")
    pings = {"A": 0.5, "B": 0.0}
    choice = choose_broker_for_group(answers, "B", [source("A")], Goal(), pings)
    assert choice.chosen.broker == "B"
    assert choice.chosen.delay_s == pytest.approx(0.001 + 0.01 + 0.001)


def test_without_publishers_there_is_no_reason() -> None:
    choice = choose_broker_for_group(chain("B", "A"), "B", [], Goal())
    assert (choice.moves, choice.deliveries_per_s) == (False, 0)


def test_sources_that_cannot_be() -> None:
    with pytest.raises(BadAnswersError, match="there is no answer of X"):
        choose_broker_for_group(chain("A"), "A", [source("X")], Goal())
    short = replace(source("A"), trace=Trace(99, 1.0))
    with pytest.raises(BadAnswersError, match="beyond the 99 publications"):
        choose_broker_for_group(chain("A"), "A", [short], Goal())
