"""A simulated run is the same run with chunks and without: the same is said, at the same times."""

from __future__ import annotations

import pytest

from roost.broker.story import Chapter, Storybook
from roost.simulation.chunked import ChunkWay
from roost.simulation.fuzz import fuzz


def told(seed: int, profile: str, *, chunks: bool) -> tuple[list[Chapter], int, int]:
    storybook = Storybook()
    _, world, checks = fuzz(seed, profile, storybook=storybook, chunks=chunks)
    assert checks.clean
    return list(storybook.chapters), checks.delivered, world.hops


@pytest.mark.parametrize(
    ("profile", "seeds"),
    [
        ("all", range(8)),
        ("edges", range(3)),
        ("moves", range(2)),
        ("rewirings", range(3)),
        ("standbys", range(2)),
        pytest.param("all", range(8, 28), marks=pytest.mark.long),
    ],
)
def test_chunks_change_nothing(profile: str, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[ChunkWay] = []
    begin = ChunkWay.__init__

    def noted(self: ChunkWay, *rest: object) -> None:
        begin(self, *rest)  # type: ignore[arg-type]
        ways.append(self)

    monkeypatch.setattr(ChunkWay, "__init__", noted)
    for seed in seeds:
        plain = told(seed, profile, chunks=False)
        assert told(seed, profile, chunks=True) == plain
    # While links are moved, which they always are in one of these, hardly any is taken.
    enough = 0 if profile in ("moves", "rewirings") else 5 * len(seeds)
    assert sum(way.taken for way in ways) > enough, "hardly anything was taken"
    if profile in ("edges", "standbys"):
        durable = [way for way in ways if way.durable]
        assert sum(way.taken for way in durable) > enough, "hardly anything by brokers with a store"
