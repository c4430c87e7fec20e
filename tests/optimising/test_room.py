"""Brokers that would be too busy with one more client."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from roost.optimising.room import without_room


class Load(Struct, frozen=True):
    input_utilisation: float = 0.0
    output_utilisation: float = 0.0
    matching_s: float = 0.01
    sending_s: float = 0.02


def test_input_and_output_each_with_a_reason() -> None:
    brokers = [Load(), Load(0.85), Load(0.0, 0.85), Load(0.5, 0.5)]
    full = without_room(brokers, np.full(4, 10.0), np.full(4, 5.0), limit=0.9)
    assert full == {
        1: "its input utilisation would be 0.95, above 0.9",
        2: "its output utilisation would be 0.95, above 0.9",
    }


def test_to_stay_is_always_possible() -> None:
    assert without_room([Load(2.0, 2.0)], np.zeros(1), np.zeros(1), limit=0.9) == {}
