"""Random scenarios with faults: every promise holds.

Four hundred of them always, six hundred by `script/test -m long`; `roost sim fuzz` runs more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from roost.broker.absence import Absence
from roost.broker.channel import Lane
from roost.broker.draining import Draining
from roost.broker.flow import Flow
from roost.broker.links import Links
from roost.broker.router import Flooding
from roost.broker.sessions import Sessions
from roost.broker.spares import Spares
from roost.broker.work import Work
from roost.simulation.fuzz import fuzz
from roost.simulation.oracle import Oracle
from roost.simulation.scenario_settings import CLUSTERS, EDGES, MOVES, REWIRINGS

# How many always, and how many if it may take minutes.
SEEDS = (50, 100)
EDGE_SEEDS = (300, 300)
CLUSTER_SEEDS = (25, 50)
REWIRING_SEEDS = (25, 50)
MOVING_SEEDS = 15
AT_ONCE = 25
CORNER_SEEDS = 40
# A queue of a client overflows; a durable session is taken over; a permission changes, and what waited is
# withheld; a store is full; what has spilled for a neighbour is fetched; an id from a second side is kept,
# takes the place of the first, is there after a crash; a neighbour begins anew, asks, wants everything, is
# excused.
CORNERS = (
    (Sessions, "overflow"),
    (Sessions, "_take_over"),
    (Sessions, "permit"),
    (Lane, "replace"),
    (Work, "say_instead"),
    (Oracle, "_comes_again"),
    (Oracle, "not_accepted"),
    (Flooding, "restore_spare"),
    (Flow, "fetched"),
    (Spares, "keep"),
    (Spares, "_take"),
    (Links, "_begin"),
    (Absence, "inquiry"),
    (Absence, "wants"),
    (Draining, "excuse"),
)


def parts(seeds: tuple[int, int], *profile: str) -> Iterator[Any]:
    """The first seed of each part."""
    always, most = seeds
    for first in range(0, most, AT_ONCE):
        yield pytest.param(*profile, first, marks=() if first < always else pytest.mark.long)


@pytest.mark.parametrize(
    ("profile", "first"),
    [*parts(SEEDS, "all"), *parts(EDGE_SEEDS, EDGES), *parts(CLUSTER_SEEDS, CLUSTERS)],
)
def test_nothing_is_lost_doubled_or_reordered(profile: str, first: int) -> None:
    expected = 0
    for seed in range(first, first + AT_ONCE):
        _, world, checks = fuzz(seed, profile)
        replay = f"replay it: roost sim fuzz --profile {profile} --first {seed} --seeds 1"
        assert checks.clean, (checks.violations, replay)
        assert checks.rested, replay
        expected += world.oracle.expected
    # A scenario in which nothing is promised can't fail.
    assert expected > 100 * AT_ONCE


def test_scenarios_reach_the_corners(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no scenario does can't be found wrong by any."""
    reached = dict.fromkeys(CORNERS, 0)

    def counted(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def count(self: object, *arguments: object, **named: object) -> object:
            reached[kind, name] += 1
            return original(self, *arguments, **named)

        monkeypatch.setattr(kind, name, count)

    for kind, name in CORNERS:
        counted(kind, name)
    for seed in range(CORNER_SEEDS):
        for profile in ("all", EDGES, REWIRINGS):
            fuzz(seed, profile)
        if all(reached.values()):
            return
    pytest.fail(f"not by {CORNER_SEEDS} seeds: {reached}")


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


@pytest.mark.parametrize("first", [*parts(REWIRING_SEEDS)])
def test_links_that_move_all_the_time(first: int) -> None:
    """All faults, and clients that move: nobody notices, and there is a tree afterwards."""
    moved = 0
    for seed in range(first, first + AT_ONCE):
        _, world, checks = fuzz(seed, REWIRINGS)
        replay = f"replay it: roost sim fuzz --profile {REWIRINGS} --first {seed} --seeds 1"
        assert checks.clean, f"{replay}: {checks.violations[:3]}"
        assert checks.rested, replay
        moved += world.rewirings
        for name, host in world.hosts.items():
            assert host.life is not None
            links = sorted(host.life.machine.links)
            assert links == sorted(world.overlay.neighbours(name)), replay
        assert sum(1 for _ in world.overlay.links()) == len(world.hosts) - 1, replay
    assert moved > AT_ONCE
