"""Which address of a neighbour is dialled, and how long it may take to greet."""

from __future__ import annotations

import pytest

from roost.runtime.places import STANDBY_GREETING_S, Places

MOST_S = 10.0


def test_one_that_is_at_one_place_is_dialled_there() -> None:
    places = Places({"B1": "one:1", "B2": ""}, MOST_S)
    # What the settings say goes before what was heard; who is in neither, nobody knows.
    assert [places.next(name, "heard:1,") for name in ("B1", "B2", "B3")] == [
        ["one:1"],
        ["heard:1"],
        ["heard:1"],
    ]
    assert places.next("B4", "") == []
    assert places.greeting_s("B1") == MOST_S


def test_those_at_two_places_take_turns_and_each_gets_twice_as_long() -> None:
    places = Places({"B1": "one:1"}, MOST_S)
    dialled = []
    for _ in range(14):
        first, _ = places.next("B1", "heard:1,two:2")
        dialled.append((first, places.greeting_s("B1")))
    assert [place for place, _ in dialled] == ["one:1", "two:2"] * 7
    longer = [min(MOST_S, STANDBY_GREETING_S * 2**n) for n in range(7)]
    assert [s for _, s in dialled] == pytest.approx([s for s in longer for _ in range(2)])
    # When one has greeted it begins from the start; of others nothing is changed.
    places.greeted("B2")
    places.greeted("B1")
    places.next("B1", "heard:1,two:2")
    assert places.greeting_s("B1") == STANDBY_GREETING_S
    assert places.greeting_s("B2") == MOST_S
