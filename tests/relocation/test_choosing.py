"""Selection by priority and weight (000 section 4.2), against the rule written as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import UserError
from roost.optimising.goal import Goal
from roost.optimising.worth import Metric
from roost.relocation.choosing import EVIDENCE_MAX, Choice, choose

Table = dict[str, tuple[int, int]]  # broker -> delay in ms, load
GOALS = st.builds(
    Goal, st.sampled_from(["delay", "load"]), st.sampled_from([0, 1, 25, 33.3, 50, 75, 99, 100])
)
TABLES = st.dictionaries(
    st.sampled_from([f"B{i}" for i in range(12)]),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    min_size=1,
)


def decide(
    goal: Goal, table: Table, present: str, excluded: Mapping[str, str] | None = None
) -> Choice:
    names = list(table)
    delays, loads = np.array(list(table.values()), np.float64).reshape(-1, 2).T
    return choose(
        goal,
        names,
        names.index(present),
        delays / 1000,
        loads,
        deliveries_per_s=1.0,
        excluded={names.index(name): why for name, why in (excluded or {}).items()},
    )


def obvious(goal: Goal, table: Table, present: str) -> str:
    first = 0 if goal.priority == "delay" else 1
    values = [row[first] for row in table.values()]
    span = max(values) - min(values)
    kept = [
        name
        for name, row in table.items()
        if not span
        or Fraction(100 * (row[first] - min(values)), span) <= 100 - Fraction(goal.weight)
    ]
    return min(
        kept, key=lambda name: (table[name][1 - first], table[name][first], name != present, name)
    )


@given(GOALS, TABLES, st.data())
def test_the_rule(goal: Goal, table: Table, data: st.DataObject) -> None:
    present = data.draw(st.sampled_from(sorted(table)))
    choice = decide(goal, table, present)
    assert choice.chosen.broker == obvious(goal, table, present)
    assert choice.present.broker == present
    assert choice.moves == (choice.chosen.broker != present)
    assert choice.candidates == len(table)
    assert choice.evidence[0] == choice.chosen
    assert choice.chosen.outcome == "chosen"
    assert choice.present in choice.evidence
    for candidate in choice.evidence:
        assert (candidate.delay_s, candidate.load_per_s) == (
            table[candidate.broker][0] / 1000,
            table[candidate.broker][1],
        )
    if choice.decided_by == "delay":
        assert choice.present.delay_s > choice.chosen.delay_s
    elif choice.decided_by == "load":
        assert choice.present.load_per_s > choice.chosen.load_per_s
    else:
        assert table[choice.chosen.broker] == table[present]


@given(GOALS, TABLES, st.data())
def test_who_is_excluded_is_as_if_it_were_not_there(
    goal: Goal, table: Table, data: st.DataObject
) -> None:
    present, *others = data.draw(st.permutations(sorted(table)))
    out = data.draw(st.sets(st.sampled_from(others)) if others else st.just(set[str]()))
    choice = decide(goal, table, present, dict.fromkeys(out, "it has no room"))
    left = {name: row for name, row in table.items() if name not in out}
    alone = decide(goal, left, present)
    assert (choice.chosen, choice.decided_by) == (alone.chosen, alone.decided_by)
    assert choice.candidates == len(left)
    for candidate in choice.evidence:
        assert (candidate.outcome == "it has no room") == (candidate.broker in out)


# Between the lowest (A, 10 ms) and the highest (D, 50 ms) the metric is 0, 25, 50, 100.
FOUR: Table = {"A": (10, 9), "B": (20, 8), "C": (30, 7), "D": (50, 6)}


@pytest.mark.parametrize(
    ("priority", "weight", "chosen"),
    [
        ("delay", 100, "A"),
        ("delay", 76, "A"),
        ("delay", 75, "B"),  # just at 100 - 75
        ("delay", 50, "C"),
        ("delay", 1, "C"),  # D has 100, above 99
        ("delay", 0, "D"),
        ("load", 100, "D"),
        ("load", 67, "D"),
        ("load", 66, "C"),
        ("load", 0, "A"),
    ],
)
def test_weights(priority: Metric, weight: float, chosen: str) -> None:
    assert decide(Goal(priority, weight), FOUR, "A").chosen.broker == chosen


def test_dividing_by_the_highest_would_leave_nobody() -> None:
    close: Table = {"A": (90, 2), "B": (95, 1), "C": (100, 0)}
    assert decide(Goal("delay", 50), close, "A").chosen.broker == "B"


def test_the_span_is_that_of_the_candidates() -> None:
    """Without D the metric of A, B and C is 0, 50 and 100."""
    assert decide(Goal("delay", 50), FOUR, "A").chosen.broker == "C"
    assert decide(Goal("delay", 50), FOUR, "A", {"D": "full"}).chosen.broker == "B"


def test_why_each_lost() -> None:
    table: Table = {**FOUR, "C2": (30, 7), "C3": (31, 7), "E": (20, 7)}
    choice = decide(Goal("delay", 50), {**table, "E2": (20, 7)}, "A", {"E": "full"})
    assert {candidate.broker: candidate.outcome for candidate in choice.evidence} == {
        "E2": "chosen",
        "E": "full",
        "A": "a load of 9 messages/s is above 7 messages/s at E2",
        "B": "a load of 8 messages/s is above 7 messages/s at E2",
        "C": "the same load, but a delay of 30 ms is above 20 ms at E2",
        "C2": "the same load, but a delay of 30 ms is above 20 ms at E2",
        "C3": "a delay of 31 ms is above 30 ms, the limit at weight 50 %",
        "D": "a delay of 50 ms is above 30 ms, the limit at weight 50 %",
    }
    assert choice.decided_by == "load"
    equals: Table = {"B": (1, 1), "A": (1, 1), "C": (2, 1)}
    assert [c.outcome for c in decide(Goal(), equals, "C").evidence[:2]] == [
        "chosen",
        "equal to A, which is first by name",
    ]
    assert [c.outcome for c in decide(Goal(), equals, "B").evidence[:2]] == [
        "chosen",
        "equal to B, which is where it is",
    ]


def test_the_evidence_is_bounded() -> None:
    many: Table = {f"B{i}": (1 + i % 97, 1 + i % 89) for i in range(1_000)}
    many |= {"fast": (0, 500), "light": (500, 0), "here": (400, 400)}
    choice = decide(Goal("delay", 50), many, "here")
    names = [candidate.broker for candidate in choice.evidence]
    assert len(names) <= EVIDENCE_MAX + 3
    assert {"fast", "light", "here"} <= set(names)
    assert choice.candidates == 1_003
    # And it can be written into a record of a decision.
    assert msgspec.json.decode(msgspec.json.encode(choice), type=Choice) == choice


def test_rounding_breaks_no_ties() -> None:
    names = ["B", "A"]
    delays = np.array([0.1 + 0.2, 0.3])  # which differ in the last digit
    choice = choose(Goal(), names, 0, delays, np.zeros(2), deliveries_per_s=1.0, excluded={})
    assert (choice.chosen.broker, choice.decided_by) == ("B", None)


@pytest.mark.parametrize("offset_ns", [0, 1, 2, 7])
def test_who_is_exactly_on_the_limit_stays(offset_ns: int) -> None:
    """It lies between two nanoseconds here, and a delay there is rounded to the upper or the lower one."""
    names = ["low", "middle", "high"]
    delays = (np.array([0.0, 1.5, 3.0]) + offset_ns) * 1e-9
    loads = np.array([3.0, 1.0, 2.0])
    goal = Goal("delay", 50)
    choice = choose(goal, names, 0, delays, loads, deliveries_per_s=1.0, excluded={})
    assert choice.chosen.broker == "middle"
    high = next(candidate for candidate in choice.evidence if candidate.broker == "high")
    assert high.outcome.startswith("a delay of")


@pytest.mark.parametrize("weight", [-1.0, 100.5, float("nan")])
def test_bad_weights(weight: float) -> None:
    with pytest.raises(UserError, match="expected 0 to 100"):
        Goal("delay", weight)


def test_a_bad_priority() -> None:
    with pytest.raises(UserError, match="expected delay or load"):
        Goal("speed")  # type: ignore[arg-type]
