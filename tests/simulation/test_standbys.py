"""Federations in which every broker has a standby: nothing is lost, doubled or reordered, whichever fails."""

from __future__ import annotations

import pytest

from roost.broker.epochs import Epochs
from roost.overlay.twin import Twin
from roost.simulation.fuzz import fuzz
from roost.simulation.run import Checks
from roost.simulation.standbys import PairedHost
from roost.simulation.world import World

PROFILE = "standbys"


def epochs(world: World) -> int:
    """How often somebody else, or somebody alone, has gone on."""
    pairs = [host for host in world.hosts.values() if isinstance(host, PairedHost)]
    return sum(max(node.twin.epoch for node in pair.nodes) - 1 for pair in pairs)


@pytest.mark.parametrize("seed", range(15))
def test_random_scenarios(seed: int) -> None:
    scenario, world, checks = fuzz(seed, PROFILE)
    assert checks.rested
    assert checks.violations == (), scenario.text()
    assert all(isinstance(host, PairedHost) for host in world.hosts.values())


class SaysAtOnce(Twin):
    """What is on one disk is said."""

    def _release(self) -> None:
        self._gated = False
        super()._release()


class SpeaksOn(Twin):
    """A leader that has lost its standby, or hears that its time is over, goes on."""

    def _quit(self, reason: str) -> None:
        del reason
        self._gated = False
        self._release()


def caught(seeds: range) -> list[Checks]:
    found = []
    for seed in seeds:
        checks = fuzz(seed, PROFILE)[2]
        if checks.violations:
            found.append(checks)
            break
    return found


def test_a_commit_that_is_said_before_the_standby_has_it_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PairedHost, "twin", SaysAtOnce)
    assert caught(range(30))


def test_a_node_that_speaks_on_without_a_fence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PairedHost, "twin", SpeaksOn)
    monkeypatch.setattr(Epochs, "objection_to_neighbour", lambda *_: "")
    monkeypatch.setattr(Epochs, "objection_to_client", lambda *_: "")
    assert caught(range(30))
