"""How far a mean over a few seeds may be off: intervals of confidence, by Student's distribution.

Seeds are few, so the spread of the figures is itself only estimated; the quantiles of the normal distribution
would promise too much (1.96 where five seeds ask for 2.78). The distribution of a whole number of degrees of
freedom is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4), so that no library is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev

CONFIDENCE = 0.95


def central_share(angle: float, degrees: int) -> float:
    """Which share of the distribution lies within t of 0, where t = tan(angle) sqrt(degrees)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    if degrees == 1:
        return 2 * angle / math.pi
    term = total = cosine if degrees % 2 else 1.0
    for power in range(2 + degrees % 2, degrees, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    return 2 / math.pi * (angle + sine * total) if degrees % 2 else sine * total


@cache
def quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The t within which that share lies.

    >>> [round(quantile(degrees), 3) for degrees in (1, 2, 4, 9, 30)]
    [12.706, 4.303, 2.776, 2.262, 2.042]
    """
    low, high = 0.0, math.pi / 2
    for _ in range(100):  # halves down to what a float can tell apart
        middle = (low + high) / 2
        if central_share(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(degrees)


def half_width(std: float, count: int) -> float | None:
    """By how much a mean may be off, from the standard deviation of the sample; None of one figure alone."""
    return None if count < 2 else quantile(count - 1) * std / math.sqrt(count)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Where the mean lies, with 95 % confidence; None of one figure alone.

    >>> [round(end, 3) for end in interval([10.0, 12.0, 11.0]) or ()]
    [8.516, 13.484]
    """
    if len(values) < 2:
        return None
    mean, half = fmean(values), half_width(stdev(values), len(values))
    assert half is not None
    return mean - half, mean + half
