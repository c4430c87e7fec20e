"""Blocks of 64-bit cells, all in one growing array.

The whole index lives in one int64 array; a block is known by the position of its first cell, and a cell
holds an integer, a position or the bits of a float (through a float64 view of the same array). Block
sizes come in classes four to a doubling, so at most a fifth of a block is unused; freed blocks are kept in
one list a class. Growing is up to the owner of the array, who must leave room for `reserve(cells)` more
cells before each operation: so no kernel ever has to stop half-way.

The first cells are the header: how far the array is used, the largest block so far, a counter of events,
the heads of the free lists, the table of `idmap`, and scratch cells that any kernel may use between two
calls of others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels.jit import kernel

Cells = NDArray[np.int64]

TOP, LARGEST, EPOCH, ROWS = 0, 1, 2, 3
FREE = 8
CLASSES = 160
SHARDS = FREE + CLASSES
SHARD_COUNT, SHARD_CELLS = 256, 3
SCRATCH = SHARDS + SHARD_COUNT * SHARD_CELLS
SCRATCH_CELLS = 1024  # four a dimension, of which a filter has 256 at the most
HEADER = SCRATCH + SCRATCH_CELLS

# One operation allocates a few blocks, none larger than twice the largest so far or than the tables of a
# grid (see `boxes`), which grow in steps of four.
_BLOCKS_PER_OPERATION = 12
_LEAST_RESERVE = 1 << 12
# Blocks of at least a cache line of 8 cells or more begin with one, given that a large array begins two
# cells behind a page (as glibc has it). Elsewhere nothing but time is lost.
_ALIGNED_FROM = 64
_ALIGNMENT = 6


def new_heap(capacity: int) -> Cells:
    """An empty heap of at least `capacity` cells."""
    cells = np.zeros(max(capacity, HEADER + 2 * _LEAST_RESERVE), np.int64)
    cells[TOP] = HEADER
    return cells


@kernel
def reserve(cells: Cells) -> int:
    """How many cells beyond TOP the next operation may need."""
    return max(_LEAST_RESERVE, _BLOCKS_PER_OPERATION * cells[LARGEST])


@kernel
def size_class(n: int) -> int:
    """The smallest class whose blocks have `n` cells."""
    if n <= 4:
        return 0
    doublings = 0
    while (8 << doublings) < n:
        doublings += 1
    # Now 4 << doublings < n <= 8 << doublings: one of the four sizes between.
    quarter = 1 << doublings
    return 4 * doublings + (n + quarter - 1) // quarter - 4


@kernel
def allocate(cells: Cells, n: int) -> int:
    """A block of at least `n` cells; what is in it is unspecified."""
    c = size_class(n)
    block = cells[FREE + c]
    if block != 0:
        cells[FREE + c] = cells[block]
        return block
    size = (4 + (c & 3)) << (c >> 2)
    block = cells[TOP]
    if size >= _ALIGNED_FROM:
        block += (_ALIGNMENT - block) & 7
    cells[TOP] = block + size
    cells[LARGEST] = max(cells[LARGEST], size)
    return block


@kernel
def release(cells: Cells, block: int, n: int) -> None:
    """Give back a block that was allocated for `n` cells."""
    c = size_class(n)
    cells[block] = cells[FREE + c]
    cells[FREE + c] = block


@kernel
def copy(cells: Cells, source: int, target: int, n: int) -> None:
    """Copy `n` cells; the two places may overlap."""
    if source < target:
        for i in range(n - 1, -1, -1):
            cells[target + i] = cells[source + i]
    else:
        for i in range(n):
            cells[target + i] = cells[source + i]
