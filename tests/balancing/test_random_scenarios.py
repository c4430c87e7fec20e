"""Random scenarios in which brokers balance load all the time; and planted bugs, each of which is caught."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest

from roost.balancing.edge import Edge
from roost.balancing.mediation import ACCEPTING, OFFLOADING, Mediator
from roost.balancing.press import Press
from roost.simulation.fuzz import Scenario
from roost.simulation.workload_file import parse_workload
from tests.balancing.judging import PROFILE, problems_of

SEEDS = range(4)
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    replay = f"replay it: roost sim fuzz --profile {PROFILE} --first {seed} --seeds 1"
    assert not problems_of(seed), replay


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_nothing_goes_wrong_in_many(seed: int) -> None:
    assert not problems_of(seed)


def test_a_scenario_is_a_workload_like_any_other() -> None:
    scenario = Scenario(3, PROFILE)
    read = parse_workload(scenario.text(), "fuzz", None)
    assert read.settings == scenario.settings
    assert list(read.statements) == scenario.statements


# --- planted bugs -----------------------------------------------------------------------------------


def takes_part_in_two(planted: pytest.MonkeyPatch) -> None:
    """It agrees to be asked while it asks."""
    planted.setattr(Mediator, "is_free", property(lambda _: True))


def waits_for_clients_for_ever(planted: pytest.MonkeyPatch) -> None:
    """Nobody looks at the clock while a promise stands."""
    timer = Mediator.timer
    planted.setattr(
        Mediator, "timer", lambda self, name, now: name == ACCEPTING or timer(self, name, now)
    )


def waits_for_the_other_for_ever(planted: pytest.MonkeyPatch) -> None:
    """... or while clients are on their way."""
    timer = Mediator.timer

    def deaf(self: Mediator, name: str, now: float) -> bool:
        session = self.offloading
        waits = session is not None and session.stage == "migrating"
        return (name == OFFLOADING and waits) or timer(self, name, now)

    planted.setattr(Mediator, "timer", deaf)
    planted.setattr(Mediator, "done", lambda self, message, now: None)  # noqa: ARG005


def leaves_its_samples_behind(planted: pytest.MonkeyPatch) -> None:
    """The local subscriptions of PRESS stay."""
    planted.setattr(Press, "cancel", lambda _: None)


def never_disengages(planted: pytest.MonkeyPatch) -> None:
    """What a cluster-head does not say again holds all the same."""
    planted.setattr(Edge, "disengage", lambda self, cluster: None)  # noqa: ARG005


SEEDS_MAX = 100
# Where each was caught before, which is tried first.
BUGS: dict[Plant, int] = {
    takes_part_in_two: 0,
    waits_for_clients_for_ever: 34,
    waits_for_the_other_for_ever: 1,
    leaves_its_samples_behind: 0,
    never_disengages: 3,
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    for seed in chain([BUGS[bug]], range(SEEDS_MAX)):
        if problems_of(seed):
            print(f"{bug.__name__}: caught at seed {seed}")  # pytest -rP shows it
            return
    pytest.fail(f"not caught by {SEEDS_MAX} seeds")
