"""What a group of subscriptions is.

A group holds the subscriptions that are alike: the same access token, the same further tokens needed or
banned, the same numeric attributes. Those common parts stand once in its descriptor, and only bounds and
ids are stored a subscription. A group is kept in one of two ways:

- SORTED (see `sortedlist`): at most one one-sided bound; an event takes a prefix of the sorted ids;
- BOXES (see `boxes`): an interval a numeric attribute.

Descriptor: the fixed fields below, then the needed tokens, the banned tokens and the slots of the numeric
attributes, in this order.
"""

from __future__ import annotations

from roost.matching.kernels.heap import Cells, allocate, release
from roost.matching.kernels.jit import kernel, lean, peek

SORTED, BOXES = 1, 2

KIND, COUNT, ROOT, LEAVES, CAPACITY, LEAF_CAPACITY = 0, 1, 2, 3, 4, 5
SIGN = 6  # SORTED: +1 for lower bounds, -1 for upper bounds, which are stored negated
CUTS, SUMMARY = 7, 8  # BOXES, once they form a grid
NEEDED, BANNED, DIMENSIONS = 9, 10, 11
INLINE = 12  # SORTED: four cells for the index block of a list with a single leaf
LISTS = 16


@kernel
def new_group(cells: Cells, kind: int, sign: int, needed: int, banned: int, dimensions: int) -> int:
    """An empty group; the caller fills in its lists."""
    group = allocate(cells, LISTS + needed + banned + dimensions)
    for i in range(LISTS):
        cells[group + i] = 0
    cells[group + KIND] = kind
    cells[group + SIGN] = sign
    cells[group + NEEDED] = needed
    cells[group + BANNED] = banned
    cells[group + DIMENSIONS] = dimensions
    return group


@kernel
def free_group(cells: Cells, group: int) -> None:
    """Give back the descriptor of a group that is empty."""
    n = cells[group + NEEDED] + cells[group + BANNED] + cells[group + DIMENSIONS]
    release(cells, group, LISTS + n)


@lean
def slots_of(cells: Cells, group: int) -> int:
    """Where the slots of the group's numeric attributes stand."""
    return group + LISTS + peek(cells, group + NEEDED) + peek(cells, group + BANNED)
