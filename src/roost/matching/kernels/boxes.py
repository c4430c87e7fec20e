"""Subscriptions with several bounds: boxes. Few of them are scanned; many of them form a grid.

A box is a low and a high in each of the group's dimensions. Up to 64 boxes are rows in one block (the id,
then low and high a dimension), and matching compares them all. A group that outgrows that becomes a
`grid`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels import grid, grid_search
from roost.matching.kernels.group import (
    CAPACITY,
    COUNT,
    DIMENSIONS,
    LEAF_CAPACITY,
    ROOT,
    slots_of,
)
from roost.matching.kernels.heap import SCRATCH, Cells, allocate, copy, release
from roost.matching.kernels.jit import inlined, kernel, peek, poke

Reals = NDArray[np.float64]

_SCAN_MIN, _SCAN_MAX = 4, 64


@kernel
def insert(cells: Cells, group: int, lows: Reals, highs: Reals, key: int) -> None:
    """Add a box whose key is in the id map already; a grid keeps its hint there up to date."""
    if cells[group + CAPACITY] > 0:
        grid.insert(cells, group, lows, highs, key)
        return
    count, stride = cells[group + COUNT], _stride(cells, group)
    if count == _SCAN_MAX:
        _scan_to_grid(cells, group)
        grid.insert(cells, group, lows, highs, key)
        return
    if count == cells[group + LEAF_CAPACITY]:
        _enlarge_scan(cells, group)
    row = cells[group + ROOT] + stride * count
    reals = cells.view(np.float64)
    cells[row] = key
    for d in range(len(lows)):
        reals[row + 1 + 2 * d] = lows[d]
        reals[row + 2 + 2 * d] = highs[d]
    cells[group + COUNT] = count + 1


@kernel
def remove(cells: Cells, group: int, key: int, hint: int) -> None:
    """Take out the box of `key`."""
    if cells[group + CAPACITY] > 0:
        grid.remove(cells, group, key, hint)
        return
    stride = _stride(cells, group)
    row = cells[group + ROOT]
    while cells[row] != key:
        row += stride
    cells[group + COUNT] -= 1
    copy(cells, cells[group + ROOT] + stride * cells[group + COUNT], row, stride)
    if cells[group + COUNT] == 0:
        release(cells, cells[group + ROOT], stride * cells[group + LEAF_CAPACITY])
        cells[group + LEAF_CAPACITY] = 0


@inlined
def take_boxes(
    cells: Cells,
    reals: Reals,
    group: int,
    lower: Reals,
    upper: Reals,
    event: int,
    step: int,
    exact: bool,
    out: Cells,
    n: int,
) -> int:
    """Append the ids of all boxes that hold the event; the new n. See `search.match_event`."""
    slots = slots_of(cells, group)
    dimensions = peek(cells, group + DIMENSIONS)
    for d in range(dimensions):
        at = event + step * peek(cells, slots + d)
        if np.isnan(peek(lower, at)):
            return n
        poke(reals, SCRATCH + 2 * d, peek(lower, at))
        poke(reals, SCRATCH + 2 * d + 1, peek(upper, at))
    if peek(cells, group + CAPACITY) > 0:
        return grid_search.take(cells, reals, group, exact, out, n)
    row, stride = peek(cells, group + ROOT), 1 + 2 * dimensions
    for _ in range(peek(cells, group + COUNT)):
        # Written in any case, and kept by counting it.
        poke(out, n, peek(cells, row))
        n += grid_search.holds(reals, row + 1, dimensions)
        row += stride
    return n


@kernel
def _stride(cells: Cells, group: int) -> int:
    return 1 + 2 * cells[group + DIMENSIONS]


@kernel
def _enlarge_scan(cells: Cells, group: int) -> None:
    stride = _stride(cells, group)
    old, old_capacity = cells[group + ROOT], cells[group + LEAF_CAPACITY]
    capacity = max(_SCAN_MIN, 2 * old_capacity)
    new = allocate(cells, capacity * stride)
    if old_capacity > 0:
        copy(cells, old, new, old_capacity * stride)
        release(cells, old, old_capacity * stride)
    cells[group + ROOT] = new
    cells[group + LEAF_CAPACITY] = capacity


@kernel
def _scan_to_grid(cells: Cells, group: int) -> None:
    stride = _stride(cells, group)
    rows = cells[group + ROOT]
    first = grid.create(cells, group)
    for row in range(_SCAN_MAX):
        source = rows + row * stride
        grid.put_row(cells, group, first, row, cells[source], source + 1)
    release(cells, rows, _SCAN_MAX * stride)
    cells[group + LEAF_CAPACITY] = 0
    grid.requantise(cells, group)
