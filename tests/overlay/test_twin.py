"""A pair of nodes: whoever speaks knows all that was said, and nobody speaks whose time is over."""

from __future__ import annotations

from typing import Any

import pytest

from roost.overlay.twin import Twin
from tests.overlay.pair_lab import Lab, play

WAYS: tuple[dict[str, Any], ...] = ({}, {"alone": True, "witness": "W"})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_was_said_is_lost_whoever_fails(seed: int, way: dict[str, Any]) -> None:
    lab = play(seed, Lab(seed, **way), lose=not way)
    assert lab.wrong == []
    # In the end one of them speaks, and the other has all that it says.
    roles = sorted(node.twin.role for node in lab.nodes.values())
    assert roles == ["leader", "standby"]
    assert not any(node.twin.alone for node in lab.nodes.values())
    assert len(lab.said) > 100


class SaysBeforeTheOtherHasIt(Twin):
    """A planted bug: what is on one disk is said."""

    def _release(self) -> None:
        self._gated = False
        super()._release()


class GoesOnAlone(Twin):
    """A planted bug: no fence. A leader without its standby says so, and goes on."""

    def _quit(self, reason: str) -> None:
        del reason
        self._gated = False
        self._release()


@pytest.mark.parametrize("bug", [SaysBeforeTheOtherHasIt, GoesOnAlone])
def test_planted_bugs_are_caught(bug: type[Twin]) -> None:
    assert any(play(seed, Lab(seed, twin=bug), until=40.0).wrong for seed in range(12))
