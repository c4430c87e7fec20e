"""The short ways through broker and client end where `handle` does: the same is said, at the same times."""

from __future__ import annotations

import pytest

from roost.broker.client import Client
from roost.broker.node import Node
from roost.broker.story import Chapter, Storybook
from roost.simulation.fuzz import fuzz

SEEDS = range(10)
MANY_SEEDS = range(60)


def told(seed: int) -> tuple[list[Chapter], int, int]:
    storybook = Storybook()
    _, world, checks = fuzz(seed, storybook=storybook)
    return list(storybook.chapters), checks.delivered, world.hops


SHORT_WAYS = ((Node, "take", None), (Node, "take_ack", False), (Client, "take", None))


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(MANY_SEEDS, marks=pytest.mark.long)])
def test_short_ways_change_nothing(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = dict.fromkeys(SHORT_WAYS, 0)
    for way in SHORT_WAYS:
        kind, name, refused = way

        def counted(self, *rest, _way=way, _original=getattr(kind, name)):  # type: ignore[no-untyped-def]
            found = _original(self, *rest)
            taken[_way] += found is not _way[2]
            return found

        monkeypatch.setattr(kind, name, counted)
    short = [told(seed) for seed in seeds]
    # Or nothing was compared (clients acknowledge once a minute).
    assert min(taken.values()) > len(seeds) / 2, taken
    for kind, name, refused in SHORT_WAYS:
        monkeypatch.setattr(kind, name, lambda *_, _refused=refused: _refused)
    assert [told(seed) for seed in seeds] == short
