"""A sorted list of (bound, id) in leaves: cheap to change, and answered by a slice.

An event with value v gets the ids of all bounds <= v: whole leaves and then a part of one, copied as they
lie. Leaves have up to 512 entries, bounds first, then ids; an index block has four columns a leaf: its
first bound, its first id, where it is and how many entries it has. A list with one leaf starts with a small
one. A list without bounds (every event gets everything) is one with all bounds 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels.group import CAPACITY, COUNT, INLINE, LEAF_CAPACITY, LEAVES, ROOT
from roost.matching.kernels.heap import Cells, allocate, copy, release
from roost.matching.kernels.jit import kernel, lean, move_whole, peek

Reals = NDArray[np.float64]

LEAF_MAX = 512
_LEAF_MIN = 4
_COUNTED = 64


@kernel
def _before(a: float, i: int, b: float, j: int) -> bool:
    return a < b or (a == b and i < j)


@kernel
def _leaf_for(cells: Cells, group: int, bound: float, key: int) -> int:
    """The last leaf that does not begin after (bound, key); the first if all do."""
    reals = cells.view(np.float64)
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    low, high = 0, cells[group + LEAVES]
    while high - low > 1:
        middle = (low + high) >> 1
        if _before(bound, key, reals[root + middle], cells[root + capacity + middle]):
            high = middle
        else:
            low = middle
    return low


@kernel
def _position_in(
    cells: Cells, leaf: int, count: int, leaf_capacity: int, bound: float, key: int
) -> int:
    """How many entries of the leaf come before (bound, key)."""
    reals = cells.view(np.float64)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if _before(reals[leaf + middle], cells[leaf + leaf_capacity + middle], bound, key):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert(cells: Cells, group: int, bound: float, key: int) -> None:
    """Add an entry."""
    if cells[group + LEAVES] == 0:
        _first_leaf(cells, group)
    j = _leaf_for(cells, group, bound, key)
    if cells[_count_cell(cells, group, j)] == cells[group + LEAF_CAPACITY]:
        j = _make_room(cells, group, j, bound, key)
    reals = cells.view(np.float64)
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    leaf_capacity = cells[group + LEAF_CAPACITY]
    leaf, count = cells[root + 2 * capacity + j], cells[root + 3 * capacity + j]
    at = _position_in(cells, leaf, count, leaf_capacity, bound, key)
    copy(cells, leaf + at, leaf + at + 1, count - at)
    copy(cells, leaf + leaf_capacity + at, leaf + leaf_capacity + at + 1, count - at)
    reals[leaf + at] = bound
    cells[leaf + leaf_capacity + at] = key
    cells[root + 3 * capacity + j] = count + 1
    _note_first(cells, group, j)
    cells[group + COUNT] += 1


@kernel
def remove(cells: Cells, group: int, bound: float, key: int) -> None:
    """Take out an entry that is there."""
    j = _leaf_for(cells, group, bound, key)
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    leaf_capacity = cells[group + LEAF_CAPACITY]
    leaf, count = cells[root + 2 * capacity + j], cells[root + 3 * capacity + j]
    at = _position_in(cells, leaf, count, leaf_capacity, bound, key)
    copy(cells, leaf + at + 1, leaf + at, count - at - 1)
    copy(cells, leaf + leaf_capacity + at + 1, leaf + leaf_capacity + at, count - at - 1)
    cells[root + 3 * capacity + j] = count - 1
    cells[group + COUNT] -= 1
    if count == 1:
        _drop_leaf(cells, group, j)
        return
    _note_first(cells, group, j)
    last = cells[group + LEAVES] - 1
    if j < last and count + cells[root + 3 * capacity + j + 1] <= LEAF_MAX // 2:
        _merge(cells, group, j)
    elif j > 0 and count + cells[root + 3 * capacity + j - 1] <= LEAF_MAX // 2:
        _merge(cells, group, j - 1)


@lean
def take_all(cells: Cells, group: int, out: Cells, n: int) -> int:
    """Append all ids to `out` from position `n`; the new n."""
    return _take_leaves(cells, group, peek(cells, group + LEAVES), out, n)


@lean
def take_up_to(cells: Cells, reals: Reals, group: int, value: float, out: Cells, n: int) -> int:
    """Append the ids of all bounds <= value to `out` from position `n`; the new n."""
    root, capacity = peek(cells, group + ROOT), peek(cells, group + CAPACITY)
    if not peek(reals, root) <= value:
        return n
    low, high = 0, peek(cells, group + LEAVES)
    while high - low > 1:
        middle = (low + high) >> 1
        if peek(reals, root + middle) <= value:
            low = middle
        else:
            high = middle
    n = _take_leaves(cells, group, low, out, n)
    leaf = peek(cells, root + 2 * capacity + low)
    count = _up_to(reals, leaf, peek(cells, root + 3 * capacity + low), value)
    move_whole(out, n, cells, leaf + peek(cells, group + LEAF_CAPACITY), count)
    return n + count


# Ids are copied by whole vectors: a heap goes on behind every leaf (`heap.reserve`), and so does the room for
# answers (`grid_search.OVERRUN`). Of lists with some dozens of ids an event takes several; to ask the
# system's `memcpy` for each took it a fifth of its time.
@lean
def _take_leaves(cells: Cells, group: int, leaves: int, out: Cells, n: int) -> int:
    root, capacity = peek(cells, group + ROOT), peek(cells, group + CAPACITY)
    leaf_capacity = peek(cells, group + LEAF_CAPACITY)
    for j in range(leaves):
        count = peek(cells, root + 3 * capacity + j)
        move_whole(out, n, cells, peek(cells, root + 2 * capacity + j) + leaf_capacity, count)
        n += count
    return n


@lean
def _up_to(reals: Reals, leaf: int, count: int, value: float) -> int:
    """How many of the leaf's bounds are <= value."""
    base, n = leaf, count
    while n > _COUNTED:
        half = n >> 1
        # Without a branch that the processor could guess wrong.
        base += half if peek(reals, base + half - 1) <= value else 0
        n -= half
    # The rest is counted: many comparisons at once, and no read waits for another.
    found = base - leaf
    for i in range(n):
        found += np.int64(peek(reals, base + i) <= value)
    return found


@kernel
def _count_cell(cells: Cells, group: int, j: int) -> int:
    return cells[group + ROOT] + 3 * cells[group + CAPACITY] + j


@kernel
def _note_first(cells: Cells, group: int, j: int) -> None:
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    leaf = cells[root + 2 * capacity + j]
    cells[root + j] = cells[leaf]
    cells[root + capacity + j] = cells[leaf + cells[group + LEAF_CAPACITY]]


@kernel
def _first_leaf(cells: Cells, group: int) -> None:
    # While there is one leaf, the index block is part of the descriptor: one place less to read.
    root = group + INLINE
    cells[root + 2] = allocate(cells, 2 * _LEAF_MIN)
    cells[root + 3] = 0
    cells[group + ROOT] = root
    cells[group + LEAVES] = 1
    cells[group + CAPACITY] = 1
    cells[group + LEAF_CAPACITY] = _LEAF_MIN


@kernel
def _make_room(cells: Cells, group: int, j: int, bound: float, key: int) -> int:
    """Make leaf `j`, which is full, larger or split it; where the new entry goes now."""
    leaf_capacity = cells[group + LEAF_CAPACITY]
    if leaf_capacity < LEAF_MAX:
        _enlarge_leaf(cells, group)
        return j
    if cells[group + LEAVES] == cells[group + CAPACITY]:
        _enlarge_index(cells, group)
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    leaf = cells[root + 2 * capacity + j]
    at_end = j == cells[group + LEAVES] - 1 and (
        _position_in(cells, leaf, LEAF_MAX, LEAF_MAX, bound, key) == LEAF_MAX
    )
    # Entries that arrive in order leave full leaves behind them.
    kept = LEAF_MAX if at_end else LEAF_MAX // 2
    new = allocate(cells, 2 * LEAF_MAX)
    copy(cells, leaf + kept, new, LEAF_MAX - kept)
    copy(cells, leaf + LEAF_MAX + kept, new + LEAF_MAX, LEAF_MAX - kept)
    for column in range(4):
        start = root + column * capacity + j + 1
        copy(cells, start, start + 1, cells[group + LEAVES] - j - 1)
    cells[root + 2 * capacity + j + 1] = new
    cells[root + 3 * capacity + j] = kept
    cells[root + 3 * capacity + j + 1] = LEAF_MAX - kept
    cells[group + LEAVES] += 1
    if at_end:
        return j + 1
    _note_first(cells, group, j + 1)
    return _leaf_for(cells, group, bound, key)


@kernel
def _enlarge_leaf(cells: Cells, group: int) -> None:
    # Only a list with a single leaf has one below the full size.
    old_capacity = cells[group + LEAF_CAPACITY]
    root = cells[group + ROOT]
    old, count = cells[root + 2], cells[root + 3]
    new = allocate(cells, 4 * old_capacity)
    copy(cells, old, new, count)
    copy(cells, old + old_capacity, new + 2 * old_capacity, count)
    release(cells, old, 2 * old_capacity)
    cells[root + 2] = new
    cells[group + LEAF_CAPACITY] = 2 * old_capacity


@kernel
def _enlarge_index(cells: Cells, group: int) -> None:
    old, old_capacity = cells[group + ROOT], cells[group + CAPACITY]
    new = allocate(cells, 8 * old_capacity)
    for column in range(4):
        copy(cells, old + column * old_capacity, new + 2 * column * old_capacity, old_capacity)
    if old_capacity > 1:
        release(cells, old, 4 * old_capacity)
    cells[group + ROOT] = new
    cells[group + CAPACITY] = 2 * old_capacity


@kernel
def _merge(cells: Cells, group: int, j: int) -> None:
    """Append leaf j + 1 to leaf j."""
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    leaf_capacity = cells[group + LEAF_CAPACITY]
    left, n = cells[root + 2 * capacity + j], cells[root + 3 * capacity + j]
    right, m = cells[root + 2 * capacity + j + 1], cells[root + 3 * capacity + j + 1]
    copy(cells, right, left + n, m)
    copy(cells, right + leaf_capacity, left + leaf_capacity + n, m)
    cells[root + 3 * capacity + j] = n + m
    _drop_leaf(cells, group, j + 1)


@kernel
def _drop_leaf(cells: Cells, group: int, j: int) -> None:
    root, capacity, leaves = cells[group + ROOT], cells[group + CAPACITY], cells[group + LEAVES]
    release(cells, cells[root + 2 * capacity + j], 2 * cells[group + LEAF_CAPACITY])
    for column in range(4):
        start = root + column * capacity + j
        copy(cells, start + 1, start, leaves - j - 1)
    cells[group + LEAVES] = leaves - 1
    if leaves == 1 and capacity > 1:
        release(cells, root, 4 * capacity)
