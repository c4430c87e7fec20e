"""Three hundred random scenarios with faults: every promise holds. `roost sim fuzz` runs more."""

from __future__ import annotations

import pytest

from roost.simulation.fuzz import fuzz

SEEDS = 300
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_is_lost_doubled_or_reordered(first: int) -> None:
    expected = 0
    for seed in range(first, first + AT_ONCE):
        _, world, checks = fuzz(seed)
        replay = f"replay it: roost sim fuzz --first {seed} --seeds 1"
        assert checks.clean, (checks.violations, replay)
        assert checks.rested, replay
        expected += world.oracle.expected
    # A scenario in which nothing is promised can't fail.
    assert expected > 100 * AT_ONCE
