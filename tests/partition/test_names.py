"""Numbers of subscriptions, and back, against a dictionary."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from roost.partition.names import FIRST_SIZE, Names


def test_numbers_are_used_again_and_mean_the_last() -> None:
    r, names = Random(1), Names()
    kept: dict[int, tuple[str, str, int]] = {}
    for step in range(3 * FIRST_SIZE):
        if kept and r.random() < 0.3:
            number = r.choice(list(kept))
            del kept[number]
            names.remove(number)
        else:
            whose = r.choice(["D2", "D0", "D1"])
            number = names.add(whose, f"s{step}", 2 * step)
            assert number not in kept
            kept[number] = (whose, f"s{step}", 2 * step)
    assert max(kept) > FIRST_SIZE
    asked = [r.sample(list(kept), 100) for _ in range(5)] + [[]]
    offsets = np.cumsum([0, *map(len, asked)])
    numbers = np.array([number for some in asked for number in some])
    ends, slots, others = names.found("D1", offsets, numbers)
    assert list(others) == ["D0", "D2"]
    assert _cut(ends, np.frombuffer(slots, np.uint32).tolist()) == [
        [kept[n][2] for n in some if kept[n][0] == "D1"] for some in asked
    ]
    for whose, (its_ends, ids) in others.items():
        assert _cut(its_ends, list(ids)) == [
            [kept[n][1] for n in some if kept[n][0] == whose] for some in asked
        ]
    assert names.found("D7", np.array([0, 0]), np.array([], np.int64)) == (bytes(4), b"", {})
    assert names.found("D7", offsets, numbers)[1] == b""


def test_whoever_is_alone_gets_its_own_numbers() -> None:
    names = Names()
    numbers = [names.add("D0", f"s{n}", 7 * n) for n in range(3)]
    ends, slots, others = names.found("D0", np.array([0, 1, 3]), np.array(numbers))
    assert np.frombuffer(ends, np.uint32).tolist() == [1, 3]
    assert np.frombuffer(slots, np.uint32).tolist() == [0, 7, 14]
    assert others == {}


def _cut(ends: bytes, items: list[Any]) -> list[list[Any]]:
    """By event."""
    return [items[a:b] for a, b in pairwise([0, *np.frombuffer(ends, np.uint32).tolist()])]
