"""Numbers of subscriptions, and back, against a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np

from roost.partition.names import FIRST_SIZE, Names
from roost.partition.notes import BULK_BYTES, Found, encode, in_bulk


def test_numbers_are_used_again_and_mean_the_last() -> None:
    r, names = Random(1), Names()
    kept: dict[int, tuple[str, str]] = {}
    for step in range(3 * FIRST_SIZE):
        if kept and r.random() < 0.3:
            number = r.choice(list(kept))
            del kept[number]
            names.remove(number)
        else:
            whose = r.choice(["D2", "D0", "D1"])
            number = names.add(whose, f"s{step}")
            assert number not in kept
            kept[number] = (whose, f"s{step}")
    assert max(kept) > FIRST_SIZE
    asked = r.sample(list(kept), 500)
    found = names.of(np.array(asked))
    assert list(found) == ["D0", "D1", "D2"]
    for whose, ids in found.items():
        assert list(ids) == [kept[number][1] for number in asked if kept[number][0] == whose]
    assert names.of(np.array([], np.int64)) == {}


def test_parts_fit_a_note() -> None:
    answers = [Found(f"{n}", {"D0": ("s" * 1_000,) * (n % 60)}) for n in range(100)]
    parts = list(in_bulk(answers))
    assert 20 < len(parts) < 60
    assert b"".join(bytes(raw) for part in parts for raw in part) == b"".join(map(encode, answers))
    assert all(sum(len(bytes(raw)) for raw in part) <= BULK_BYTES for part in parts)
    assert list(in_bulk([])) == []
