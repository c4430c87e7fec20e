"""`roost sim fuzz --profile partition`: clean as it is, and not with any of the planted bugs."""

from __future__ import annotations

import pytest

from roost.partition import matcher
from roost.partition.naming import DISPATCHER, MATCHER
from roost.simulation.fuzz import fuzz, scenario_of
from roost.simulation.run import Checks, check, rest
from roost.simulation.service_scenario import ServiceScenario
from roost.simulation.workload_file import parse_workload
from roost.simulation.world import World


# 26 and 44: answers to a dispatcher's earlier life; 87: a durable subscription that is said again.
@pytest.mark.parametrize("seed", [0, 1, 2, 26, 44, 87])
def test_seeds_are_clean(seed: int) -> None:
    _, _, checks = fuzz(seed, "partition")
    assert checks.violations == ()
    assert checks.clean
    assert checks.rested


@pytest.mark.parametrize("seed", [7, 23])
def test_a_matcher_that_is_told_little_by_little(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that dispatchers tell is entered a subscription at a time, and questions come in between."""
    monkeypatch.setattr(matcher, "STEPS", 1)
    _, _, checks = fuzz(seed, "partition")
    assert checks.violations == ()
    assert checks.clean
    assert checks.delivered > 1_000


PLANTED = "tests.partition.planted"


@pytest.mark.parametrize(
    ("bug", "seed"),
    [
        ("ForgetsEarly", 1),
        ("StaleTable", 1),
        ("ConfirmsEarly", 15),
        ("TakesAnyAnswer", 11),
        ("LetsGoAtOnce", 4),
        ("RepeatsItself", 15),
        ("OldFootprints", 23),
    ],
)
def test_planted_bugs_are_caught(bug: str, seed: int) -> None:
    ours = {"dispatcher": DISPATCHER, "matcher": MATCHER}
    role = "matcher" if bug in ("ForgetsEarly", "TakesAnyAnswer") else "dispatcher"
    scenario = ServiceScenario(seed, **{**ours, role: f"{PLANTED}:{bug}"})
    assert judged(scenario).lost > 0


def judged(scenario: ServiceScenario) -> Checks:
    world = World(scenario.settings, scenario.statements, seed=scenario.seed)
    world.run(scenario.until)
    return check(world, rested=rest(world))


def test_the_file_of_a_scenario_says_the_same() -> None:
    scenario = scenario_of(5, "partition")
    again = parse_workload(scenario.text(), "again", None)
    assert [type(s) for s in again.statements] == [type(s) for s in scenario.statements]
    assert "--profile partition" in scenario.text().splitlines()[0]
