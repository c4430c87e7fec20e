"""Brokers that rewire themselves while everything else goes wrong: all faults, clients that move, churn.

The oracle forgives nothing, and there is a tree after each rewiring.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from roost.broker.channel import Lane
from roost.broker.messages import Message, Note, Publication, Rewire
from roost.simulation.fuzz import Scenario
from roost.simulation.optimisers import modules_of
from roost.simulation.run import Checks, check, rest, run
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World
from tests.overlay.organised import check_tree

SEEDS = range(6)
BROKERS = 63
REWIRINGS = 2_000


class Watched(World):
    """Looks at the tree whenever a link has moved."""

    def __init__(self, seed: int) -> None:
        self.scenario = scenario = Scenario(seed, "overlay")
        settings, said = scenario.settings, scenario.statements
        super().__init__(settings, said, seed=seed, modules=modules_of(settings))

    def rewired(self, middle: str, mover: str, anchor: str) -> None:
        super().rewired(middle, mover, anchor)
        check_tree(self)

    def judged(self) -> Checks:
        run(self, self.scenario.until)
        return check(self, rested=rest(self), must_rest=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_brokers_decide(seed: int) -> None:
    world = Watched(seed)
    checks = world.judged()
    assert checks.clean, checks.violations
    assert world.rewirings > 0


def test_the_file_of_a_scenario_says_the_same() -> None:
    scenario = Scenario(1, "overlay")
    parsed = parse_workload(scenario.text(), "overlay", None)
    assert parsed.settings == scenario.settings
    assert len(parsed.statements) == len(scenario.statements)


@pytest.mark.long
def test_two_thousand_rewirings_of_63_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many seeds as it takes; what it cost is printed (-rP)."""
    said: Counter[str] = Counter()
    push = Lane.push

    def counted(self: Lane, message: Message, *more: Any) -> Any:
        kind = type(message).__name__
        said[f"{kind} {message.module}" if isinstance(message, Note) else kind] += 1
        return push(self, message, *more)

    monkeypatch.setattr(Lane, "push", counted)
    rewirings = seeds = 0
    seed = -1
    while rewirings < REWIRINGS:
        seed += 1
        if (
            sum("broker add" in line for line in Scenario(seed, "overlay").text().splitlines())
            < BROKERS
        ):
            continue
        world = Watched(seed)
        checks = world.judged()
        assert checks.clean, (seed, checks.violations)
        rewirings, seeds = rewirings + world.rewirings, seeds + 1
    print(f"{rewirings} rewirings in {seeds} scenarios of {BROKERS} brokers")
    for kind, count in said.most_common():
        print(f"{count:8,} {kind}: {count / rewirings:.1f} a rewiring")
    assert said[Publication.__name__]
    assert said[Rewire.__name__]
