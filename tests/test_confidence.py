"""Intervals of confidence, against the printed tables, and against what they promise."""

from __future__ import annotations

import math
from random import Random

import pytest

from roost.confidence import central_share, half_width, interval, quantile

# Two-sided, 95 %, as textbooks print them.
TABLE = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    9: 2.262,
    19: 2.093,
    30: 2.042,
    120: 1.980,
}


@pytest.mark.parametrize(("degrees", "t"), TABLE.items())
def test_quantiles_are_those_of_the_tables(degrees: int, t: float) -> None:
    assert quantile(degrees) == pytest.approx(t, abs=0.0006)
    assert central_share(math.atan(quantile(degrees) / math.sqrt(degrees)), degrees) == (
        pytest.approx(0.95)
    )


def test_other_confidences() -> None:
    assert quantile(10, 0.99) == pytest.approx(3.169, abs=0.0006)
    assert quantile(7, 0.5) == pytest.approx(0.711, abs=0.0006)


def test_one_figure_alone_says_nothing() -> None:
    assert interval([5.0]) is None
    assert half_width(0.0, 1) is None
    assert interval([5.0, 5.0]) == (5.0, 5.0)


def test_they_hold_as_often_as_they_say() -> None:
    """Of few figures each, where the normal distribution's would hold in 88 % only."""
    random = Random(1)
    held = 0
    for _ in range(4_000):
        found = interval([random.gauss(10, 3) for _ in range(5)])
        assert found is not None
        held += found[0] <= 10 <= found[1]
    assert held / 4_000 == pytest.approx(0.95, abs=0.012)
