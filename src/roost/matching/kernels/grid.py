"""Many boxes: leaves of 64 with bitsets, and an event looks only into leaves and rows near it.

Each dimension's line is cut into 64 buckets at quantiles of the bounds, and each bucket into 512 levels, so
that a number becomes a *level* of 15 bits; levels rise with the numbers. An event is answered in four
steps, each with less left to do than the one before:

1. *Summary*: a bit a leaf, dimension and bucket, set where the leaf's hull (in buckets) reaches. ANDing the
   event's words tells which leaves to visit. That is worth something only if boxes in a leaf lie near each
   other: a new box goes to the leaf whose hull it enlarges least, and a full leaf is split across its
   longest side.
2. *Table*: a leaf's word a dimension and bucket, with a bit a row, set where the row's interval touches the
   bucket. ANDing leaves the candidates.
3. *Levels*: a row's lows and highs as levels, four dimensions to a 64-bit word, compared all at once: the
   top bit of each 16 is free, and (value | top) - low keeps it just if low <= value.
4. Only where a level is equal are the real numbers compared.

Nothing is rebuilt for an addition or a removal but the leaf it touches, except when a grid outgrows its
table of leaves (8, 64, 256, 1,024, ...): while it is small, the quantiles are taken anew then.

A leaf is three blocks: the rows that an event reads (the id, then the words of lows, then those of highs),
the exact bounds (low and high a dimension, row by row), and the table. The index block has four columns a
leaf (these three and the count of rows) and then its hull, a lowest and a highest bucket a dimension.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels import idmap
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
from roost.matching.kernels.jit import kernel, lowest_bit, peek, poke

Reals = NDArray[np.float64]

ROWS = 64
BUCKETS = 64
# A group takes no more than this; the index opens another one beside it.
COUNT_MAX = 1 << 17
# `out` must have room for so many ids more than the index has filters.
OVERRUN = 1

_LEVEL_BITS = 9
_LEVEL_MAX = (1 << 15) - 1
_LANES = 4
_TOP = np.int64(np.uint64(0x8000800080008000).view(np.int64))
_ONES = np.int64(0x0001000100010001)
_SAMPLE = 2048
_REQUANTISE_LEAVES_MAX = 256


@kernel
def _words(n: int) -> int:
    return (n + 63) >> 6


@kernel
def _level_words(dimensions: int) -> int:
    return (dimensions + _LANES - 1) // _LANES


@kernel
def _row_cells(dimensions: int) -> int:
    return 1 + 2 * _level_words(dimensions)


@kernel
def _index_cells(capacity: int, dimensions: int) -> int:
    return capacity * (4 + 2 * dimensions)


# Behind the summary there is room for a list of leaves and words, which `take` uses.
@kernel
def _summary_cells(capacity: int, dimensions: int) -> int:
    return dimensions * BUCKETS * _words(capacity) + 2 * capacity


@kernel
def _rows_of(cells: Cells, group: int, leaf: int) -> int:
    return cells[cells[group + ROOT] + leaf]  # type: ignore[no-any-return]


@kernel
def _bounds_of(cells: Cells, group: int, leaf: int, row: int) -> int:
    start = cells[cells[group + ROOT] + cells[group + CAPACITY] + leaf]
    return start + row * 2 * cells[group + DIMENSIONS]  # type: ignore[no-any-return]


@kernel
def _table_of(cells: Cells, group: int, leaf: int) -> int:
    return cells[cells[group + ROOT] + 2 * cells[group + CAPACITY] + leaf]  # type: ignore[no-any-return]


@kernel
def _count_cell(cells: Cells, group: int, leaf: int) -> int:
    return cells[group + ROOT] + 3 * cells[group + CAPACITY] + leaf  # type: ignore[no-any-return]


@kernel
def _hull_cell(cells: Cells, group: int, d: int, leaf: int) -> int:
    """The lowest bucket of the leaf in dimension d; the highest is CAPACITY cells on."""
    return cells[group + ROOT] + (4 + 2 * d) * cells[group + CAPACITY] + leaf  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- buckets and levels


@kernel
def _cuts_of(cells: Cells, group: int, d: int) -> int:
    """The dimension's 63 boundaries; 64 cells on, how many levels a unit each bucket has."""
    return cells[group + CUTS] + 2 * BUCKETS * d  # type: ignore[no-any-return]


@kernel
def _bucket(reals: Reals, cuts: int, x: float) -> int:
    """How many of the 63 boundaries are <= x."""
    bucket = 0
    for step in (32, 16, 8, 4, 2, 1):
        bucket += step if peek(reals, cuts + bucket + step - 1) <= x else 0
    return bucket


@kernel
def _level(reals: Reals, cuts: int, bucket: int, x: float) -> int:
    """The level of a number of an event: never the first nor the last, which stand for infinity."""
    within = np.int64(1)
    if 0 < bucket < BUCKETS - 1:
        # Both operations keep order, so levels rise with x; the last may be rounded up too far.
        steps = (x - peek(reals, cuts + bucket - 1)) * peek(reals, cuts + BUCKETS + bucket)
        within = np.int64(min(steps, (1 << _LEVEL_BITS) - 1.0))
    return (bucket << _LEVEL_BITS) + within  # type: ignore[no-any-return]


@kernel
def _low_level(reals: Reals, cuts: int, low: float) -> int:
    return 0 if low == -np.inf else _level(reals, cuts, _bucket(reals, cuts, low), low)


@kernel
def _high_level(reals: Reals, cuts: int, high: float) -> int:
    if high == np.inf:
        return _LEVEL_MAX
    return _level(reals, cuts, _bucket(reals, cuts, high), high)  # type: ignore[no-any-return]


@kernel
def requantise(cells: Cells, group: int) -> None:
    """Cut each dimension at quantiles of a sample of its finite bounds, and rebuild all leaves."""
    reals = cells.view(np.float64)
    leaves, dimensions = cells[group + LEAVES], cells[group + DIMENSIONS]
    step = max(1, 2 * cells[group + COUNT] // _SAMPLE)
    sample = np.empty(2 * cells[group + COUNT] // step + 1, np.float64)
    for d in range(dimensions):
        n, seen = 0, 0
        for leaf in range(leaves):
            for row in range(cells[_count_cell(cells, group, leaf)]):
                for side in range(2):
                    x = reals[_bounds_of(cells, group, leaf, row) + 2 * d + side]
                    seen += 1
                    if seen % step == 0 and np.isfinite(x):
                        sample[n] = x
                        n += 1
        cuts = _cuts_of(cells, group, d)
        ordered = np.sort(sample[:n])
        for b in range(BUCKETS - 1):
            # From the least to the greatest: the two outermost buckets, which have no levels, stay empty.
            reals[cuts + b] = ordered[b * (n - 1) // (BUCKETS - 2)] if n > 0 else 0.0
        for b in range(1, BUCKETS - 1):
            width = reals[cuts + b] - reals[cuts + b - 1]
            known = 0.0 < width < np.inf
            reals[cuts + BUCKETS + b] = (1 << _LEVEL_BITS) / width if known else 0.0
    for leaf in range(leaves):
        _rebuild_leaf(cells, group, leaf)


# ---------------------------------------------------------------------- growing


@kernel
def create(cells: Cells, group: int) -> int:
    """Make the group an empty grid; its first leaf. `requantise` must follow once there are rows."""
    cells[group + COUNT] = 0
    cells[group + LEAVES] = 0
    cells[group + CUTS] = allocate(cells, 2 * BUCKETS * cells[group + DIMENSIONS])
    _resize(cells, group, 8)
    return _empty_leaf(cells, group)  # type: ignore[no-any-return]


@kernel
def _resize(cells: Cells, group: int, capacity: int) -> None:
    """Give the index block and the summary room for `capacity` leaves; the summary is left empty."""
    dimensions = cells[group + DIMENSIONS]
    old, old_capacity = cells[group + ROOT], cells[group + CAPACITY]
    new = allocate(cells, _index_cells(capacity, dimensions))
    if old_capacity > 0:
        for column in range(4 + 2 * dimensions):
            copy(cells, old + column * old_capacity, new + column * capacity, old_capacity)
        release(cells, old, _index_cells(old_capacity, dimensions))
        release(cells, cells[group + SUMMARY], _summary_cells(old_capacity, dimensions))
    cells[group + ROOT] = new
    cells[group + CAPACITY] = capacity
    summary = allocate(cells, _summary_cells(capacity, dimensions))
    for i in range(dimensions * BUCKETS * _words(capacity)):
        cells[summary + i] = 0
    cells[group + SUMMARY] = summary


@kernel
def _empty_leaf(cells: Cells, group: int) -> int:
    leaves = cells[group + LEAVES]
    for leaf in range(leaves):
        if cells[_count_cell(cells, group, leaf)] == 0:
            return leaf
    if leaves > 0 and leaves == cells[group + CAPACITY]:
        _resize(cells, group, 64 if leaves == 8 else 4 * leaves)
        if leaves <= _REQUANTISE_LEAVES_MAX:
            requantise(cells, group)
        else:
            for leaf in range(leaves):
                _enter_in_summary(cells, group, leaf)
    dimensions = cells[group + DIMENSIONS]
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    cells[root + leaves] = allocate(cells, ROWS * _row_cells(dimensions))
    cells[root + capacity + leaves] = allocate(cells, ROWS * 2 * dimensions)
    cells[root + 2 * capacity + leaves] = allocate(cells, BUCKETS * dimensions)
    cells[group + LEAVES] = leaves + 1
    cells[_count_cell(cells, group, leaves)] = 0
    for d in range(dimensions):
        hull = _hull_cell(cells, group, d, leaves)
        cells[hull] = BUCKETS
        cells[hull + capacity] = -1
    return leaves  # type: ignore[no-any-return]


@kernel
def _clear(cells: Cells, group: int) -> None:
    """Give back all blocks of a grid that has become empty."""
    dimensions = cells[group + DIMENSIONS]
    root, capacity = cells[group + ROOT], cells[group + CAPACITY]
    for leaf in range(cells[group + LEAVES]):
        release(cells, cells[root + leaf], ROWS * _row_cells(dimensions))
        release(cells, cells[root + capacity + leaf], ROWS * 2 * dimensions)
        release(cells, cells[root + 2 * capacity + leaf], BUCKETS * dimensions)
    release(cells, root, _index_cells(capacity, dimensions))
    release(cells, cells[group + SUMMARY], _summary_cells(capacity, dimensions))
    release(cells, cells[group + CUTS], 2 * BUCKETS * dimensions)
    cells[group + LEAVES] = 0
    cells[group + CAPACITY] = 0


# ---------------------------------------------------------------------- rows and leaves


@kernel
def insert(cells: Cells, group: int, lows: Reals, highs: Reals, key: int) -> None:
    """Add a box."""
    leaf = _choose(cells, group, lows, highs)
    while cells[_count_cell(cells, group, leaf)] == ROWS:
        _split(cells, group, leaf)
        leaf = _choose(cells, group, lows, highs)
    reals = cells.view(np.float64)
    row = cells[_count_cell(cells, group, leaf)]
    bounds = _bounds_of(cells, group, leaf, row)
    for d in range(len(lows)):
        reals[bounds + 2 * d] = lows[d]
        reals[bounds + 2 * d + 1] = highs[d]
    put_row(cells, group, leaf, row, key, bounds)
    _enter(cells, group, leaf, row)


@kernel
def put_row(cells: Cells, group: int, leaf: int, row: int, key: int, bounds: int) -> None:
    """Write a row at the end of a leaf, with the bounds that stand at `bounds`, without its bits."""
    dimensions = cells[group + DIMENSIONS]
    cells[_rows_of(cells, group, leaf) + row * _row_cells(dimensions)] = key
    target = _bounds_of(cells, group, leaf, row)
    if target != bounds:
        copy(cells, bounds, target, 2 * dimensions)
    idmap.set_hint(cells, key, leaf)
    cells[_count_cell(cells, group, leaf)] = row + 1
    cells[group + COUNT] += 1


@kernel
def _enter(cells: Cells, group: int, leaf: int, row: int) -> None:
    """Write the row's levels, and its bits into the leaf's table, hull and summary."""
    reals = cells.view(np.float64)
    dimensions, capacity = cells[group + DIMENSIONS], cells[group + CAPACITY]
    bounds, table = _bounds_of(cells, group, leaf, row), _table_of(cells, group, leaf)
    words = _level_words(dimensions)
    levels = _rows_of(cells, group, leaf) + row * _row_cells(dimensions) + 1
    for w in range(words):
        cells[levels + w] = 0
        cells[levels + words + w] = -1
    for d in range(dimensions):
        cuts = _cuts_of(cells, group, d)
        low, high = reals[bounds + 2 * d], reals[bounds + 2 * d + 1]
        first, last = _bucket(reals, cuts, low), _bucket(reals, cuts, high)
        shift = 16 * (d % _LANES)
        w = levels + d // _LANES
        cells[w] |= _low_level(reals, cuts, low) << shift
        # The tops of highs are set already: the comparison needs them so.
        cells[w + words] &= ~((_LEVEL_MAX - _high_level(reals, cuts, high)) << shift)
        for b in range(first, last + 1):
            cells[table + d * BUCKETS + b] |= np.int64(1) << row
        hull = _hull_cell(cells, group, d, leaf)
        if first < cells[hull] or last > cells[hull + capacity]:
            cells[hull] = min(cells[hull], first)
            cells[hull + capacity] = max(cells[hull + capacity], last)
            _enter_side(cells, group, leaf, d)


@kernel
def _enter_side(cells: Cells, group: int, leaf: int, d: int) -> None:
    capacity = cells[group + CAPACITY]
    words = _words(capacity)
    summary = cells[group + SUMMARY] + d * BUCKETS * words + (leaf >> 6)
    hull = _hull_cell(cells, group, d, leaf)
    for b in range(cells[hull], cells[hull + capacity] + 1):
        cells[summary + b * words] |= np.int64(1) << (leaf & 63)


@kernel
def _enter_in_summary(cells: Cells, group: int, leaf: int) -> None:
    for d in range(cells[group + DIMENSIONS]):
        _enter_side(cells, group, leaf, d)


@kernel
def _rebuild_leaf(cells: Cells, group: int, leaf: int) -> None:
    """Make the leaf's levels, table, hull and summary bits from its bounds."""
    capacity, dimensions = cells[group + CAPACITY], cells[group + DIMENSIONS]
    table = _table_of(cells, group, leaf)
    words = _words(capacity)
    for i in range(BUCKETS * dimensions):
        cells[table + i] = 0
        cells[cells[group + SUMMARY] + i * words + (leaf >> 6)] &= ~(np.int64(1) << (leaf & 63))
    for d in range(dimensions):
        hull = _hull_cell(cells, group, d, leaf)
        cells[hull] = BUCKETS
        cells[hull + capacity] = -1
    for row in range(cells[_count_cell(cells, group, leaf)]):
        _enter(cells, group, leaf, row)


@kernel
def remove(cells: Cells, group: int, key: int, leaf: int) -> None:
    """Take out the box of `key`, which is in `leaf`."""
    dimensions = cells[group + DIMENSIONS]
    rows, stride = _rows_of(cells, group, leaf), _row_cells(dimensions)
    row = 0
    while cells[rows + row * stride] != key:
        row += 1
    at = _count_cell(cells, group, leaf)
    last = cells[at] - 1
    cells[at] = last
    cells[group + COUNT] -= 1
    if cells[group + COUNT] == 0:
        _clear(cells, group)
        return
    table = _table_of(cells, group, leaf)
    for i in range(BUCKETS * dimensions):
        cells[table + i] &= ~((np.int64(1) << row) | (np.int64(1) << last))
    if row != last:
        copy(cells, rows + last * stride, rows + row * stride, stride)
        source = _bounds_of(cells, group, leaf, last)
        copy(cells, source, _bounds_of(cells, group, leaf, row), 2 * dimensions)
        _enter(cells, group, leaf, row)
    # Hulls only grow with additions; draw them in now and then.
    if last & 15 == 0:
        _rebuild_leaf(cells, group, leaf)


@kernel
def _choose(cells: Cells, group: int, lows: Reals, highs: Reals) -> int:
    """The leaf whose hull grows least, the smallest of those; never an empty one."""
    reals = cells.view(np.float64)
    capacity = cells[group + CAPACITY]
    for d in range(len(lows)):
        cuts = _cuts_of(cells, group, d)
        cells[SCRATCH + 2 * d] = _bucket(reals, cuts, lows[d])
        cells[SCRATCH + 2 * d + 1] = _bucket(reals, cuts, highs[d])
    best, best_cost = 0, np.int64(1) << 60
    for leaf in range(cells[group + LEAVES]):
        if cells[_count_cell(cells, group, leaf)] == 0:
            continue
        growth, extent = 0, 0
        for d in range(len(lows)):
            hull = _hull_cell(cells, group, d, leaf)
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
    stride = _row_cells(cells[group + DIMENSIONS])
    rows = _rows_of(cells, group, leaf)
    cells[group + COUNT] -= ROWS
    kept, moved = 0, 0
    for row in range(ROWS):
        bounds = _bounds_of(cells, group, leaf, row)
        if moves[row]:
            put_row(cells, group, other, moved, cells[rows + row * stride], bounds)
            moved += 1
        else:
            put_row(cells, group, leaf, kept, cells[rows + row * stride], bounds)
            kept += 1
    _rebuild_leaf(cells, group, leaf)
    _rebuild_leaf(cells, group, other)


@kernel
def _order_along_longest_side(cells: Cells, group: int, leaf: int) -> NDArray[np.int64]:
    reals = cells.view(np.float64)
    best_spread = np.int64(-1)
    best = np.zeros(ROWS, np.int64)
    centres = np.empty(ROWS, np.int64)
    for d in range(cells[group + DIMENSIONS]):
        cuts = _cuts_of(cells, group, d)
        for row in range(ROWS):
            bounds = _bounds_of(cells, group, leaf, row) + 2 * d
            low = _low_level(reals, cuts, reals[bounds])
            centres[row] = low + _high_level(reals, cuts, reals[bounds + 1])
        spread = centres.max() - centres.min()
        if spread > best_spread:
            best_spread = spread
            best[:] = centres
    return np.argsort(best, kind="mergesort")


# ---------------------------------------------------------------------- answering


@kernel
def holds(reals: Reals, bounds: int, dimensions: int) -> int:
    """1 if the box whose bounds stand there holds the numbers in the scratch cells, else 0.

    Without branches: which boxes hold an event is what a processor cannot guess.
    """
    held = np.int64(1)
    for i in range(0, 2 * dimensions, 2):
        held &= np.int64(peek(reals, bounds + i) <= peek(reals, SCRATCH + i))
        held &= np.int64(peek(reals, SCRATCH + i + 1) <= peek(reals, bounds + i + 1))
    return held


@kernel
def take(cells: Cells, reals: Reals, group: int, exact: bool, out: Cells, n: int) -> int:
    """Append the ids of all boxes that hold the numbers in the scratch cells; the new n."""
    root, capacity = peek(cells, group + ROOT), peek(cells, group + CAPACITY)
    dimensions = peek(cells, group + DIMENSIONS)
    summary, words = peek(cells, group + SUMMARY), _words(capacity)
    level_words = _level_words(dimensions)
    # Behind the numbers: the event's place in table and summary a dimension, and its levels.
    places = SCRATCH + 2 * dimensions
    levels = places + dimensions
    for w in range(level_words):
        poke(cells, levels + w, _ONES)
    for d in range(dimensions):
        cuts = peek(cells, group + CUTS) + 2 * BUCKETS * d
        x = peek(reals, SCRATCH + 2 * d)
        bucket = _bucket(reals, cuts, x)
        poke(cells, places + d, d * BUCKETS + bucket)
        w, shift = levels + d // _LANES, 16 * (d % _LANES)
        level = _level(reals, cuts, bucket, x) - 1
        poke(cells, w, peek(cells, w) + (level << shift))
    # Leaves first, then their words, then rows: three plain loops, in each of which the processor can
    # fetch far ahead.
    visits = summary + dimensions * BUCKETS * words
    end = visits
    for w in range(_words(peek(cells, group + LEAVES))):
        visit = peek(cells, summary + peek(cells, places) * words + w)
        for d in range(1, dimensions):
            visit &= peek(cells, summary + peek(cells, places + d) * words + w)
        while visit != 0:
            poke(cells, end, w * 64 + lowest_bit(visit))
            end += 2
            visit &= visit - 1
    for at in range(visits, end, 2):
        table = peek(cells, root + 2 * capacity + peek(cells, at))
        word = np.int64(-1)
        for d in range(dimensions):
            word &= peek(cells, table + peek(cells, places + d))
        poke(cells, at + 1, word)
    if exact and level_words == 1:
        return _take_by_levels(cells, reals, group, visits, end, levels, out, n)  # type: ignore[no-any-return]
    for at in range(visits, end, 2):
        n = _take_by_bounds(cells, reals, group, at, levels, out, n)
    return n


@kernel
def _take_by_levels(
    cells: Cells, reals: Reals, group: int, visits: int, end: int, levels: int, out: Cells, n: int
) -> int:
    """Take the rows whose levels hold the event's, for up to four dimensions.

    Without branches inside: which rows hold an event is what a processor cannot guess. A leaf in which
    a level is equal, which is rare, is looked at once more.
    """
    root = peek(cells, group + ROOT)
    value = peek(cells, levels)
    low_side, low_inside, high_inside = value | _TOP, (value - _ONES) | _TOP, value + _ONES
    for at in range(visits, end, 2):
        rows, word = peek(cells, root + peek(cells, at)), peek(cells, at + 1)
        before, doubt = n, np.int64(0)
        while word != 0:
            row = rows + 3 * lowest_bit(word)
            word &= word - 1
            low, high = peek(cells, row + 1), peek(cells, row + 2)
            near = np.int64(((low_side - low) & (high - value) & _TOP) == _TOP)
            sure = np.int64(((low_inside - low) & (high - high_inside) & _TOP) == _TOP)
            doubt |= near ^ sure
            # Written in any case, and kept by counting it.
            poke(out, n, peek(cells, row))
            n += near
        if doubt != 0:
            n = _take_by_bounds(cells, reals, group, at, levels, out, before)
    return n


@kernel
def _take_by_bounds(
    cells: Cells, reals: Reals, group: int, at: int, levels: int, out: Cells, n: int
) -> int:
    """Take the rows of one leaf whose bounds hold the event's numbers, after a look at their levels."""
    root, capacity = peek(cells, group + ROOT), peek(cells, group + CAPACITY)
    dimensions = peek(cells, group + DIMENSIONS)
    words = _level_words(dimensions)
    leaf, word = peek(cells, at), peek(cells, at + 1)
    while word != 0:
        i = lowest_bit(word)
        word &= word - 1
        row = peek(cells, root + leaf) + (1 + 2 * words) * i
        near = _TOP
        for w in range(words):
            low, high = peek(cells, row + 1 + w), peek(cells, row + 1 + words + w)
            value = peek(cells, levels + w)
            near &= ((value | _TOP) - low) & (high - value)
        if near == _TOP:
            poke(out, n, peek(cells, row))
            bounds = peek(cells, root + capacity + leaf) + 2 * dimensions * i
            n += holds(reals, bounds, dimensions)
    return n
