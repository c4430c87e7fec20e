"""Six hundred random scenarios with faults: every promise holds. `roost sim fuzz` runs more."""

from __future__ import annotations

import pytest

from roost.simulation.fuzz import EDGES, MOVES, fuzz

SEEDS = 300
MOVING_SEEDS = 15
AT_ONCE = 50


@pytest.mark.parametrize("profile", ["all", EDGES])
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_is_lost_doubled_or_reordered(first: int, profile: str) -> None:
    expected = 0
    for seed in range(first, first + AT_ONCE):
        _, world, checks = fuzz(seed, profile)
        replay = f"replay it: roost sim fuzz --profile {profile} --first {seed} --seeds 1"
        assert checks.clean, (checks.violations, replay)
        assert checks.rested, replay
        expected += world.oracle.expected
    # A scenario in which nothing is promised can't fail.
    assert expected > 100 * AT_ONCE


def test_nor_while_clients_move_all_the_time() -> None:
    finished = migrated = abandoned = 0
    for seed in range(MOVING_SEEDS):
        _, world, checks = fuzz(seed, MOVES)
        replay = f"replay it: roost sim fuzz --profile moves --first {seed} --seeds 1"
        assert checks.clean, (checks.violations, replay)
        assert checks.rested, replay
        for client in world.clients.values():
            finished += client.machine.move_counts.finished
            migrated += client.machine.move_counts.migrated
            abandoned += client.machine.move_counts.abandoned
    assert finished > 20 * MOVING_SEEDS
    assert 0 < migrated < finished  # also such that can't migrate
    assert abandoned > 0
