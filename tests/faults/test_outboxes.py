"""Random scenarios with faults, and applications that publish from a log while their processes are killed."""

from __future__ import annotations

import pytest

from tests.faults.outboxes import fuzz_outboxes

AT_ONCE = 20


@pytest.mark.parametrize("profile", ["crash", "network", "all"])
@pytest.mark.parametrize("first", [0, pytest.param(AT_ONCE, marks=pytest.mark.long)])
def test_every_event_of_a_log_comes_once_and_in_order(first: int, profile: str) -> None:
    expected = processes = 0
    for seed in range(first, first + AT_ONCE):
        outboxes, world, checks = fuzz_outboxes(seed, profile)
        assert checks.clean, (seed, checks.violations)
        assert checks.rested, seed
        expected += world.oracle.expected
        for outbox in outboxes:
            processes += outbox.processes
            assert outbox.accepted == len(outbox.log), seed
            if profile == "network" or (profile == "crash" and world.settings.durability):
                # No broker has lost its store: the numbers go on from process to process.
                assert len(outbox.lives) == 1, seed
    # A scenario in which nothing is promised can't fail.
    assert expected > 200 * AT_ONCE
    assert processes > 10 * AT_ONCE
