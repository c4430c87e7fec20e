"""Sets of numbers as ranges, each with its first number and the one behind its last."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]


def overlap(ranges: Iterable[Range], first: int, end: int) -> list[Range]:
    """What of them lies in there.

    >>> overlap([(1, 4), (7, 9)], 3, 8)
    [(3, 4), (7, 8)]
    """
    cut = ((max(a, first), min(b, end)) for a, b in ranges)
    return [(a, b) for a, b in cut if a < b]


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """What of them is not taken.

    >>> without([(1, 9)], [(3, 5), (8, 20)])
    [(1, 3), (5, 8)]
    """
    left = list(ranges)
    for first, end in taken:
        left = [
            part
            for a, b in left
            for part in ((a, min(b, first)), (max(a, end), b))
            if part[0] < part[1]
        ]
    return left
