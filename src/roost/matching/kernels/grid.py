"""Many boxes: leaves of 64 rows, of which an event looks only into those near it.

Each dimension's line is cut into 128 buckets at quantiles of the bounds, and each bucket into 256 levels,
so that a number becomes a *level* of 15 bits; levels rise with the numbers. An event is answered in three
steps, each with less left to do than the one before:

1. *Summary*: a bit a leaf, dimension and bucket, set where the leaf's hull (in buckets) reaches. ANDing
   the event's words tells which leaves to visit. That is worth something only if boxes in a leaf lie near
   each other: a new box goes to the leaf whose hull it enlarges least, and a full leaf is split across its
   longest side.
2. *Levels*: a row's lows and highs as levels, four dimensions to a 64-bit word. The top bit of each 16 is
   free, and (value | top) - low keeps it just if low <= value: so two subtractions compare a box, eight
   rows at a time, without a branch.
3. Only where a level is equal are the real numbers compared.

Nothing is rebuilt for an addition or a removal but the leaf it touches, except when a grid outgrows its
table of leaves (8, 64, 256, 1,024, ...): while it is small, it is then packed anew.

`grid_layout` says where things stand, `grid_search` answers events.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels import idmap
from roost.matching.kernels.grid_layout import (
    BUCKETS,
    CUTS_CELLS,
    LANES,
    LEVEL_BITS,
    LEVEL_MAX,
    PIVOTS,
    ROWS,
    TOP,
    Reals,
    bounds_of,
    bucket_of,
    count_cell,
    cuts_of,
    high_level,
    hull_cell,
    index_cells,
    keys_of,
    leaf_cells,
    level_words_for,
    low_level,
    summary_cells,
    words_for,
)
from roost.matching.kernels.grid_order import near_order
from roost.matching.kernels.group import (
    CAPACITY,
    COUNT,
    CUTS,
    DIMENSIONS,
    LEAVES,
    ROOT,
    SUMMARY,
)
from roost.matching.kernels.heap import SCRATCH, Cells, allocate, copy, release
from roost.matching.kernels.jit import kernel

# A group takes no more than this; the index opens another one beside it.
COUNT_MAX = 1 << 17

_SAMPLE = 1024
# A grid of more leaves than this is not packed anew when it grows: it would take too long at once.
_REPACK_LEAVES_MAX = 256
# How full leaves are packed when more is to come.
_FILL = 48


@kernel
def create(cells: Cells, group: int) -> int:
    """Make the group an empty grid; its first leaf. `requantise` must follow once there are rows."""
    cells[group + COUNT] = 0
    cells[group + LEAVES] = 0
    cells[group + CUTS] = allocate(cells, CUTS_CELLS * cells[group + DIMENSIONS])
    _resize(cells, group, 8)
    return _empty_leaf(cells, group)


@kernel
def _resize(cells: Cells, group: int, capacity: int) -> None:
    """Give the index block and the summary room for `capacity` leaves; the summary is left empty."""
    dimensions = cells[group + DIMENSIONS]
    old, old_capacity = cells[group + ROOT], cells[group + CAPACITY]
    new = allocate(cells, index_cells(capacity, dimensions))
    if old_capacity > 0:
        for column in range(3 + 2 * dimensions):
            copy(cells, old + column * old_capacity, new + column * capacity, old_capacity)
        release(cells, old, index_cells(old_capacity, dimensions))
        release(cells, cells[group + SUMMARY], summary_cells(old_capacity, dimensions))
    cells[group + ROOT] = new
    cells[group + CAPACITY] = capacity
    summary = allocate(cells, summary_cells(capacity, dimensions))
    for i in range(dimensions * BUCKETS * words_for(capacity)):
        cells[summary + i] = 0
    cells[group + SUMMARY] = summary


@kernel
def _has_empty_leaf(cells: Cells, group: int) -> bool:
    leaves = cells[group + LEAVES]
    if leaves < cells[group + CAPACITY]:
        return True
    for leaf in range(leaves):
        if cells[count_cell(cells, group, leaf)] == 0:
            return True
    return False


@kernel
def _grow(cells: Cells, group: int) -> None:
    """Make room for more leaves."""
    leaves = cells[group + LEAVES]
    _resize(cells, group, 64 if leaves == 8 else 4 * leaves)
    if leaves <= _REPACK_LEAVES_MAX:
        # Never more leaves than there are: packing allocates nothing.
        pack(cells, group, max(_FILL, (cells[group + COUNT] + leaves - 1) // leaves))
    else:
        for leaf in range(leaves):
            _enter_in_summary(cells, group, leaf)


@kernel
def _empty_leaf(cells: Cells, group: int) -> int:
    """A leaf without rows; there must be one, or room for one."""
    leaves = cells[group + LEAVES]
    for leaf in range(leaves):
        if cells[count_cell(cells, group, leaf)] == 0:
            return leaf
    _new_leaf(cells, group)
    return leaves


@kernel
def _new_leaf(cells: Cells, group: int) -> None:
    leaves = cells[group + LEAVES]
    dimensions = cells[group + DIMENSIONS]
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    cells[root + leaves] = allocate(cells, leaf_cells(dimensions))
    cells[root + capacity + leaves] = allocate(cells, ROWS * 2 * dimensions)
    cells[group + LEAVES] = leaves + 1
    cells[count_cell(cells, group, leaves)] = 0
    for row in range(ROWS):
        _blank_row(cells, group, leaves, row)
    for d in range(dimensions):
        hull = hull_cell(cells, group, d, leaves)
        cells[hull] = BUCKETS
        cells[hull + capacity] = -1


@kernel
def _release_leaf(cells: Cells, group: int, leaf: int) -> None:
    dimensions = cells[group + DIMENSIONS]
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    release(cells, cells[root + leaf], leaf_cells(dimensions))
    release(cells, cells[root + capacity + leaf], ROWS * 2 * dimensions)


@kernel
def _clear(cells: Cells, group: int) -> None:
    """Give back all blocks of a grid that has become empty."""
    dimensions = cells[group + DIMENSIONS]
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    for leaf in range(cells[group + LEAVES]):
        _release_leaf(cells, group, leaf)
    release(cells, root, index_cells(capacity, dimensions))
    release(cells, cells[group + SUMMARY], summary_cells(capacity, dimensions))
    release(cells, cells[group + CUTS], CUTS_CELLS * dimensions)
    cells[group + LEAVES] = 0
    cells[group + CAPACITY] = 0


@kernel
def pack(cells: Cells, group: int, fill: int) -> None:
    """Lay all boxes out anew, `fill` to a leaf, so that boxes in a leaf are near each other.

    `fill` must be enough for them to find place in the leaves there are.
    """
    requantise(cells, group)
    count, dimensions = cells[group + COUNT], cells[group + DIMENSIONS]
    # The leaves are about to be written over: take keys and bounds out first.
    keys = np.empty(count, np.int64)
    bounds = np.empty((count, 2 * dimensions), np.int64)
    centres = np.empty((dimensions, count), np.int64)
    n = 0
    for leaf in range(cells[group + LEAVES]):
        for row in range(cells[count_cell(cells, group, leaf)]):
            keys[n] = cells[keys_of(cells, group, leaf) + row]
            for i in range(2 * dimensions):
                bounds[n, i] = cells[bounds_of(cells, group, leaf, row) + i]
            for d in range(dimensions):
                centres[d, n] = _centre(cells, group, leaf, row, d)
            n += 1
        cells[count_cell(cells, group, leaf)] = 0
    order = near_order(centres, fill)
    cells[group + COUNT] = 0
    for n in range(count):
        leaf, row = n // fill, n % fill
        target = bounds_of(cells, group, leaf, row)
        for i in range(2 * dimensions):
            cells[target + i] = bounds[order[n], i]
        put_row(cells, group, leaf, row, keys[order[n]], target)
    leaves = (count + fill - 1) // fill
    for leaf in range(leaves):
        _rebuild_leaf(cells, group, leaf)
    while cells[group + LEAVES] > leaves:
        cells[group + LEAVES] -= 1
        _rebuild_leaf(cells, group, cells[group + LEAVES])  # takes it out of the summary
        _release_leaf(cells, group, cells[group + LEAVES])


@kernel
def requantise(cells: Cells, group: int) -> None:
    """Cut each dimension at quantiles of a sample of its finite bounds, and rebuild all leaves."""
    reals = cells.view(np.float64)
    leaves, dimensions = cells[group + LEAVES], cells[group + DIMENSIONS]
    step = max(1, cells[group + COUNT] // _SAMPLE)
    sample = np.empty(2 * (cells[group + COUNT] // step + 1), np.float64)
    for d in range(dimensions):
        n, seen = 0, 0
        for leaf in range(leaves):
            for row in range(cells[count_cell(cells, group, leaf)]):
                seen += 1
                if seen % step == 0:
                    for side in range(2):
                        x = reals[bounds_of(cells, group, leaf, row) + 2 * d + side]
                        if np.isfinite(x):
                            sample[n] = x
                            n += 1
        cuts = cuts_of(cells, group, d)
        ordered = np.sort(sample[:n])
        for b in range(BUCKETS - 1):
            # From the least to the greatest: the two outermost buckets, which have no levels, stay empty.
            reals[cuts + b] = ordered[b * (n - 1) // (BUCKETS - 2)] if n > 0 else 0.0
        reals[cuts + BUCKETS - 1] = np.inf
        for i in range(PIVOTS):
            reals[cuts + 2 * BUCKETS + i] = reals[cuts + 8 * i + 7]
        for b in range(1, BUCKETS - 1):
            width = reals[cuts + b] - reals[cuts + b - 1]
            known = 0.0 < width < np.inf
            reals[cuts + BUCKETS + b] = (1 << LEVEL_BITS) / width if known else 0.0
    for leaf in range(leaves):
        _rebuild_leaf(cells, group, leaf)


@kernel
def insert(cells: Cells, group: int, lows: Reals, highs: Reals, key: int) -> None:
    """Add a box."""
    leaf = _choose(cells, group, lows, highs)
    while cells[count_cell(cells, group, leaf)] == ROWS:
        if _has_empty_leaf(cells, group):
            _split(cells, group, leaf)
        else:
            _grow(cells, group)
        leaf = _choose(cells, group, lows, highs)
    reals = cells.view(np.float64)
    row = cells[count_cell(cells, group, leaf)]
    bounds = bounds_of(cells, group, leaf, row)
    for d in range(len(lows)):
        reals[bounds + 2 * d] = lows[d]
        reals[bounds + 2 * d + 1] = highs[d]
    put_row(cells, group, leaf, row, key, bounds)
    _enter(cells, group, leaf, row)


@kernel
def put_row(cells: Cells, group: int, leaf: int, row: int, key: int, bounds: int) -> None:
    """Write a row at the end of a leaf, with the bounds that stand at `bounds`, without its levels."""
    dimensions = cells[group + DIMENSIONS]
    cells[keys_of(cells, group, leaf) + row] = key
    target = bounds_of(cells, group, leaf, row)
    if target != bounds:
        copy(cells, bounds, target, 2 * dimensions)
    idmap.set_hint(cells, key, leaf)
    cells[count_cell(cells, group, leaf)] = row + 1
    cells[group + COUNT] += 1


@kernel
def _blank_row(cells: Cells, group: int, leaf: int, row: int) -> None:
    """Give a row levels that hold nothing: lows above all values, highs below."""
    levels = keys_of(cells, group, leaf) + ROWS + row
    for _ in range(level_words_for(cells[group + DIMENSIONS])):
        cells[levels] = ~TOP
        cells[levels + ROWS] = TOP
        levels += 2 * ROWS


@kernel
def _enter(cells: Cells, group: int, leaf: int, row: int) -> None:
    """Write the row's levels, and extend the leaf's hull and its bits in the summary."""
    reals = cells.view(np.float64)
    dimensions, capacity = cells[group + DIMENSIONS], cells[group + CAPACITY]
    bounds = bounds_of(cells, group, leaf, row)
    levels = keys_of(cells, group, leaf) + ROWS + row
    for d in range(dimensions):
        cuts = cuts_of(cells, group, d)
        low, high = reals[bounds + 2 * d], reals[bounds + 2 * d + 1]
        shift = 16 * (d % LANES)
        if shift == 0:
            cells[levels] = 0
            # The tops of highs are set: the comparison needs them so. Lanes not in use hold anything.
            cells[levels + ROWS] = -1
        cells[levels] |= low_level(reals, cuts, low) << shift
        cells[levels + ROWS] &= ~((LEVEL_MAX - high_level(reals, cuts, high)) << shift)
        if shift == 16 * (LANES - 1):
            levels += 2 * ROWS
        first, last = bucket_of(reals, cuts, low), bucket_of(reals, cuts, high)
        hull = hull_cell(cells, group, d, leaf)
        if first < cells[hull] or last > cells[hull + capacity]:
            cells[hull] = min(cells[hull], first)
            cells[hull + capacity] = max(cells[hull + capacity], last)
            _enter_side(cells, group, leaf, d)


@kernel
def _enter_side(cells: Cells, group: int, leaf: int, d: int) -> None:
    capacity = cells[group + CAPACITY]
    words = words_for(capacity)
    summary = cells[group + SUMMARY] + d * BUCKETS * words + (leaf >> 6)
    hull = hull_cell(cells, group, d, leaf)
    for b in range(cells[hull], cells[hull + capacity] + 1):
        cells[summary + b * words] |= np.int64(1) << (leaf & 63)


@kernel
def _enter_in_summary(cells: Cells, group: int, leaf: int) -> None:
    for d in range(cells[group + DIMENSIONS]):
        _enter_side(cells, group, leaf, d)


@kernel
def _rebuild_leaf(cells: Cells, group: int, leaf: int) -> None:
    """Make the leaf's levels, hull and summary bits from its bounds."""
    capacity, dimensions = cells[group + CAPACITY], cells[group + DIMENSIONS]
    words = words_for(capacity)
    for i in range(BUCKETS * dimensions):
        cells[cells[group + SUMMARY] + i * words + (leaf >> 6)] &= ~(np.int64(1) << (leaf & 63))
    for d in range(dimensions):
        hull = hull_cell(cells, group, d, leaf)
        cells[hull] = BUCKETS
        cells[hull + capacity] = -1
    count = cells[count_cell(cells, group, leaf)]
    for row in range(count):
        _enter(cells, group, leaf, row)
    for row in range(count, ROWS):
        _blank_row(cells, group, leaf, row)


@kernel
def remove(cells: Cells, group: int, key: int, leaf: int) -> None:
    """Take out the box of `key`, which is in `leaf`."""
    keys = keys_of(cells, group, leaf)
    row = 0
    while cells[keys + row] != key:
        row += 1
    at = count_cell(cells, group, leaf)
    last = cells[at] - 1
    cells[at] = last
    cells[group + COUNT] -= 1
    if cells[group + COUNT] == 0:
        _clear(cells, group)
        return
    if row != last:
        cells[keys + row] = cells[keys + last]
        source = bounds_of(cells, group, leaf, last)
        copy(cells, source, bounds_of(cells, group, leaf, row), 2 * cells[group + DIMENSIONS])
        _enter(cells, group, leaf, row)
    _blank_row(cells, group, leaf, last)
    # Hulls only grow with additions; draw them in now and then.
    if last & 15 == 0:
        _rebuild_leaf(cells, group, leaf)


@kernel
def _choose(cells: Cells, group: int, lows: Reals, highs: Reals) -> int:
    """The leaf whose hull grows least, the smallest of those; never an empty one."""
    reals = cells.view(np.float64)
    capacity = cells[group + CAPACITY]
    for d in range(len(lows)):
        cuts = cuts_of(cells, group, d)
        cells[SCRATCH + 2 * d] = bucket_of(reals, cuts, lows[d])
        cells[SCRATCH + 2 * d + 1] = bucket_of(reals, cuts, highs[d])
    best, best_cost = 0, np.int64(1) << 60
    for leaf in range(cells[group + LEAVES]):
        if cells[count_cell(cells, group, leaf)] == 0:
            continue
        growth, extent = 0, 0
        for d in range(len(lows)):
            hull = hull_cell(cells, group, d, leaf)
            low, high = cells[hull], cells[hull + capacity]
            growth += max(0, low - cells[SCRATCH + 2 * d])
            growth += max(0, cells[SCRATCH + 2 * d + 1] - high)
            extent += high - low
        cost = growth * (1 << 20) + extent
        if cost < best_cost:
            best, best_cost = leaf, cost
    return best


@kernel
def _split(cells: Cells, group: int, leaf: int) -> None:
    """Move half of a full leaf into an empty one."""
    other = _empty_leaf(cells, group)
    order = _order_along_longest_side(cells, group, leaf)
    moves = np.zeros(ROWS, np.bool_)
    for i in range(ROWS // 2, ROWS):
        moves[order[i]] = True
    keys = keys_of(cells, group, leaf)
    cells[group + COUNT] -= ROWS
    kept, moved = 0, 0
    for row in range(ROWS):
        bounds = bounds_of(cells, group, leaf, row)
        if moves[row]:
            put_row(cells, group, other, moved, cells[keys + row], bounds)
            moved += 1
        else:
            put_row(cells, group, leaf, kept, cells[keys + row], bounds)
            kept += 1
    _rebuild_leaf(cells, group, leaf)
    _rebuild_leaf(cells, group, other)


@kernel
def _centre(cells: Cells, group: int, leaf: int, row: int, d: int) -> int:
    """The middle of a box in one dimension, in units that make dimensions comparable.

    A unit is a small part of the span in which nine tenths of the bounds lie; what is far out counts as
    one such span away.
    """
    reals = cells.view(np.float64)
    cuts, bounds = cuts_of(cells, group, d), bounds_of(cells, group, leaf, row) + 2 * d
    left, right = reals[cuts + BUCKETS // 20], reals[cuts + BUCKETS - BUCKETS // 20 - 2]
    span = right - left
    if not 0.0 < span < 1e300:
        return 0
    low = min(max(reals[bounds], left - span), right + span)
    high = min(max(reals[bounds + 1], left - span), right + span)
    return np.int64(((low - left) + (high - left)) / span * (1 << 20))


@kernel
def _order_along_longest_side(cells: Cells, group: int, leaf: int) -> NDArray[np.int64]:
    best_spread = np.int64(-1)
    best = np.zeros(ROWS, np.int64)
    centres = np.empty(ROWS, np.int64)
    for d in range(cells[group + DIMENSIONS]):
        for row in range(ROWS):
            centres[row] = _centre(cells, group, leaf, row, d)
        spread = centres.max() - centres.min()
        if spread > best_spread:
            best_spread = spread
            best[:] = centres
    return np.argsort(best, kind="mergesort")
