"""Applications that share a service (004 section VI): nothing of one space reaches another."""

from __future__ import annotations

import re
from collections.abc import Collection
from random import Random

import pytest

from roost.broker.messages import Publication
from roost.errors import UserError
from roost.partition.dimensions import Dimension
from roost.partition.naming import ServicePlan, SpacePlan, parse_space, plan_spaces
from roost.simulation.oracle import Party
from roost.simulation.run import verdict
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.partition.worlds import dispatcher_of, matcher_of

X, Y = Dimension("x", 0, 100), Dimension("y", 0, 100)
SPACES = [
    SpacePlan("red", 2, 0, [X]),
    SpacePlan("blue", 1, 0, [Y]),
    SpacePlan("own", 1, 2, [X, Y]),
]
PLAN = plan_spaces(SPACES, 3)


def lines_of(plan: ServicePlan) -> list[str]:
    lines = ["0.0 federation set asking on", "0.0 federation set ack_delay_s 0"]
    lines += [f"0.0 broker add {n} 1000 64 1000 {plan.machines[n]}" for n in plan.names]
    return [*lines, *(f"0.0 link add {a} {b} 2" for a, b in plan.links)]


def space_of(client: str) -> str:
    return re.split("[-~@]", client)[1]


@pytest.mark.parametrize(
    ("delivery", "matcher"),
    [("ordered", ""), ("direct", ""), ("direct", "tests.partition.planted:MixesSpaces")],
)
def test_nothing_of_one_space_reaches_another(delivery: str, matcher: str) -> None:
    """All want about the same, and publish it: each gets what its own space publishes."""
    r = Random(1)
    lines = lines_of(plan_spaces(SPACES, 3, f"delivery={delivery}"))
    if matcher:
        lines = [line.replace("roost.partition.matcher:Matcher", matcher) for line in lines]
    homes = {"red": ["red.D0", "red.D1"], "blue": ["blue.D0"], "own": ["own.D0"]}
    for space, fronts in homes.items():
        lines.append(f"1.0 publisher add P-{space} - 0 {fronts[0]}")
        for n in range(4):
            text = r.choice(["x present", f"x < {r.randint(20, 90)}", f"y > {r.randint(10, 60)}"])
            lines.append(f"1.0 subscriber add S{n}-{space} {fronts[n % len(fronts)]} {text}")
    for n in range(300):
        who = r.choice(list(homes))
        point = f"[x,{r.uniform(0, 100):.2f}],[y,{r.uniform(0, 100):.2f}]"
        lines.append(f"{3 + n * 0.05:.2f} publisher publish P-{who} {point}")
    text = "\n".join([*sorted(lines, key=lambda line: float(line.split()[0])), "25.0 end"])
    workload = parse_workload(text, "spaces", None)
    world = World(workload.settings, workload.statements)
    world.run(2.5)  # all links are there, and nobody takes this for who is connected any more:
    world.oracle.connected = lambda a, b: space_of(a) == space_of(b)
    crossed = []
    arrived = world.oracle.arrived

    def watched(party: Party, publication: Publication, names: Collection[str], now: float) -> None:
        if space_of(party.name) != space_of(publication.publisher):
            crossed.append((party.name, publication.id))
        arrived(party, publication, names, now)

    world.oracle.arrived = watched  # type: ignore[method-assign]
    world.run(25.0)
    if matcher:
        assert crossed
        return
    checks, _ = verdict(world, workload)
    assert crossed == []
    assert checks.doubled == checks.reordered == checks.unwanted == 0
    assert checks.lost == 0 or delivery == "direct"
    assert checks.delivered > 300
    assert matcher_of(world, "M0").figures()["spaces"] == ["blue", "red"]
    assert matcher_of(world, "own.M0").figures()["spaces"] == ["own"]
    assert dispatcher_of(world, "red.D0").figures()["space"] == "red"
    assert dispatcher_of(world, "blue.D0").figures()["matchers"] == ["M0", "M1", "M2"]
    assert dispatcher_of(world, "own.D0").figures()["matchers"] == ["own.M0", "own.M1"]


def test_a_matcher_that_joins_and_leaves_does_so_in_all_its_spaces() -> None:
    lines = lines_of(PLAN)
    machine = PLAN.machines["M0"]
    others = [n for n in PLAN.names if not n.startswith("own")]
    lines += [f"5.0 broker add M9 1000 64 1000 {machine}"]
    lines += [f"5.0 link add {other} M9 2" for other in others]
    lines += ["15.0 broker ask M0 leave"]
    text = "\n".join([*sorted(lines, key=lambda line: float(line.split()[0])), "30.0 end"])
    workload = parse_workload(text, "spaces", None)
    world = World(workload.settings, workload.statements)
    world.run(30.0)
    for front in ("red.D0", "red.D1", "blue.D0"):
        assert dispatcher_of(world, front).figures()["matchers"] == ["M1", "M2", "M9"]
    assert matcher_of(world, "M0").has_left()
    assert dispatcher_of(world, "own.D0").figures()["matchers"] == ["own.M0", "own.M1"]


def test_who_is_linked_with_whom() -> None:
    linked = {frozenset(pair) for pair in PLAN.links}
    assert frozenset(("red.D0", "M1")) in linked
    assert frozenset(("red.D0", "blue.D0")) not in linked
    assert frozenset(("own.D0", "M0")) not in linked
    assert frozenset(("own.M0", "own.M1")) in linked


def test_what_people_say() -> None:
    said = ["trading/price:0:9", "x:0:1"]
    assert parse_space("trading:2:4", said, 1) == SpacePlan(
        "trading", 2, 4, [Dimension("price", 0, 9)]
    )
    assert parse_space("chat", said, 3) == SpacePlan("chat", 3, 0, [Dimension("x", 0, 1)])
    for wrong in ("", "a b", "a:x", "a:1:2:3"):
        with pytest.raises(UserError, match="expected NAME"):
            parse_space(wrong, said, 1)
    with pytest.raises(UserError, match="two spaces have one name"):
        plan_spaces([SpacePlan("a", 1, 1, [X]), SpacePlan("a", 1, 1, [X])], 1)
    with pytest.raises(UserError, match="0 matchers"):
        plan_spaces([SpacePlan("a", 1, 0, [X])], 0)
