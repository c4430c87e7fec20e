"""The short ways through broker and client end where `handle` does: the same is said, at the same times."""

from __future__ import annotations

import pytest

from roost.broker.client import Client
from roost.broker.core import Broker
from roost.broker.story import Chapter, Storybook
from roost.simulation.fuzz import fuzz

SEEDS = range(40)


def told(seed: int) -> tuple[list[Chapter], int, int]:
    storybook = Storybook()
    _, world, checks = fuzz(seed, storybook=storybook)
    return list(storybook.chapters), checks.delivered, world.hops


def test_short_ways_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {Broker: 0, Client: 0}
    for kind in (Broker, Client):
        original = kind.take

        def counted(self: Broker | Client, *rest: object, _original=original, _kind=kind):  # type: ignore[no-untyped-def]
            found = _original(self, *rest)
            taken[_kind] += found is not None
            return found

        monkeypatch.setattr(kind, "take", counted)
    short = [told(seed) for seed in SEEDS]
    assert all(count > 100 for count in taken.values())  # or nothing was compared
    for kind in (Broker, Client):
        monkeypatch.setattr(kind, "take", lambda *_: None)
    assert [told(seed) for seed in SEEDS] == short
