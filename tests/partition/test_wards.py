"""What a matcher knows is complete for all that has been promised, at every step of being told."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from roost.language import Event, Subscription, Value, parse_subscription
from roost.partition.batch import Batch
from roost.partition.dimensions import Dimension
from roost.partition.notes import Asks, Fill
from roost.partition.segments import even_table, owners, regions_of
from roost.partition.shares import Shares
from roost.partition.wards import WIDE, Wards
from tests.partition.test_segments import a_filter, changed

ME = "D0"


def an_event(random: Random) -> dict[str, Value]:
    values: list[Value] = [random.randint(0, 9), random.randint(0, 9), "x", "y"]
    return {n: random.choice(values) for n in "abc" if random.random() < 0.8}


@pytest.mark.parametrize("seed", range(4))
def test_every_set_alone_finds_every_match_at_every_step(seed: int) -> None:
    """Segments, dimensions and subscriptions come and go, one is wide and then is not: none is missed."""
    random = Random(seed)
    dimensions = tuple(Dimension(name, 0, 9) for name in random.sample("abc", 2))
    table = even_table(dimensions, owners(["M0", "M1", "M2"], 2))
    told: list[Fill] = []
    shares, wards = Shares(dimensions, lambda _, fill: told.append(fill)), Wards()
    shares.begin("M0", "", regions_of(table, "M0"))
    kept: dict[str, tuple[Subscription, int]] = {}
    matches = wide = 0
    for round_ in range(5):
        for id_ in random.sample(list(kept), len(kept) // 3):
            shares.remove(id_)
            del kept[id_]
        for number in range(12):
            id_ = f"s{number}"
            if id_ not in kept:
                kept[id_] = (parse_subscription(a_filter(random)), 100 * round_ + number)
                shares.add(id_, *kept[id_])
        shares.flush()
        table = changed(table, random)
        shares.adopt(table.dimensions)
        shares.promise("M0", regions_of(table, "M0"))
        for fill in told:
            for _ in wards.filling(ME, fill):
                if fill.promised is not None and ME in wards.wards:
                    matches += check(wards, kept, random, events=3)
        told.clear()
        matches += check(wards, kept, random, events=20)
        wide += wards.wide
        assert all(size >= wards.wide for size in wards.sizes().values())
    assert matches > 100
    assert wide > 0
    assert WIDE not in wards.sizes()


def check(
    wards: Wards, kept: dict[str, tuple[Subscription, int]], random: Random, *, events: int
) -> int:
    """Every set says for the events that it covers just what matches, each once; how much that was."""
    batch = [an_event(random) for _ in range(events)]
    wanted = [
        sorted(slot for one, slot in kept.values() if one.matches(Event.trusted(event)))
        for event in batch
    ]
    total = 0
    for key in list(wards.wards[ME].keys):
        asks = Asks("", 1, key, {ME: ("", 0)}, Batch.of(batch).written())
        read = Batch.read(asks.events)
        covered = wards.covered(asks, read)
        ends, slots, others = wards.match(ME, key, read)
        assert others == {}
        found = np.split(np.frombuffer(slots, np.uint32), np.frombuffer(ends, np.uint32)[:-1])
        for is_covered, its, expected in zip(covered.tolist(), found, wanted, strict=True):
            if is_covered:
                assert sorted(its.tolist()) == expected
                total += len(expected)
    return total


def test_a_new_epoch_replaces_the_one_before_and_never_mixes_with_it() -> None:
    wards, dimensions = Wards(), (Dimension("a", 0, 9),)
    region = (((0, -np.inf, np.inf),),)
    for epoch, slot in (("1", 1), ("2", 2)):
        wards.fill(ME, Fill("", epoch, 1, added=(("s", "a > 1", slot),)))
        steps = wards.filling(ME, Fill("", epoch, 1, promised=region, dimensions=dimensions))
        for _ in steps:
            there = wards.wards.get(ME)
            if there is not None and there.epoch == "2":
                assert len(wards.entries) == 1  # nothing of the other is left by then
        assert wards.wards[ME].epoch == epoch
        _, slots, _ = wards.match(ME, (0,), Batch.of([{"a": 5}]))
        assert np.frombuffer(slots, np.uint32).tolist() == [slot]
    wards.forget(ME)
    assert wards.entries == {}
    assert wards.match(ME, (0,), Batch.of([{"a": 5}]))[1] == b""
