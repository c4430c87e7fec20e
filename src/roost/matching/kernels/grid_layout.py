"""Where things stand in a grid (see `grid`), and how numbers become buckets and levels.

A leaf is two blocks: what an event reads (64 ids, then a column of 64 words of lows and one of highs for
every four dimensions), and the exact bounds (low and high a dimension, row by row). A row that is not in
use has levels that hold nothing. The index block has three columns a leaf (these two and the count of
rows) and then its hull, a lowest and a highest bucket a dimension.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels.group import CAPACITY, CUTS, DIMENSIONS, ROOT
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import count_up_to, kernel, lean, peek

Reals = NDArray[np.float64]

ROWS = 64
BUCKETS = 128
LEVEL_BITS = 8
PIVOTS = BUCKETS // 8
CUTS_CELLS = 2 * BUCKETS + PIVOTS
LEVEL_MAX = (1 << 15) - 1
LANES = 4
TOP = np.int64(np.uint64(0x8000800080008000).view(np.int64))
ONES = np.int64(0x0001000100010001)


@lean
def words_for(n: int) -> int:
    return (n + 63) >> 6


@lean
def level_words_for(dimensions: int) -> int:
    return (dimensions + LANES - 1) // LANES


@kernel
def leaf_cells(dimensions: int) -> int:
    return ROWS * (1 + 2 * level_words_for(dimensions))


@kernel
def index_cells(capacity: int, dimensions: int) -> int:
    return capacity * (3 + 2 * dimensions)


# Behind the summary there is room for a list of leaves, which `grid_search` uses.
@kernel
def summary_cells(capacity: int, dimensions: int) -> int:
    return dimensions * BUCKETS * words_for(capacity) + capacity


@kernel
def keys_of(cells: Cells, group: int, leaf: int) -> int:
    return cells[cells[group + ROOT] + leaf]


@kernel
def bounds_of(cells: Cells, group: int, leaf: int, row: int) -> int:
    start = cells[cells[group + ROOT] + cells[group + CAPACITY] + leaf]
    return start + row * 2 * cells[group + DIMENSIONS]


@kernel
def count_cell(cells: Cells, group: int, leaf: int) -> int:
    return cells[group + ROOT] + 2 * cells[group + CAPACITY] + leaf


@kernel
def hull_cell(cells: Cells, group: int, d: int, leaf: int) -> int:
    """The lowest bucket of the leaf in dimension d; the highest is CAPACITY cells on."""
    return cells[group + ROOT] + (3 + 2 * d) * cells[group + CAPACITY] + leaf


@kernel
def cuts_of(cells: Cells, group: int, d: int) -> int:
    """The dimension's cuts: 127 boundaries and infinity; how many levels a unit each bucket has; every
    eighth boundary again, as pivots.
    """
    return cells[group + CUTS] + CUTS_CELLS * d


@lean
def bucket_of(reals: Reals, cuts: int, x: float) -> int:
    """How many of the 127 boundaries are <= x: first among the pivots, then among eight.

    Counting compares many at once, where halving would wait for one read after the other.
    """
    pivots = cuts + 2 * BUCKETS
    bucket = 8 * (count_up_to(reals, pivots, x) + count_up_to(reals, pivots + 8, x))
    bucket += count_up_to(reals, cuts + bucket, x)
    return min(bucket, BUCKETS - 1)  # infinity itself is beyond the last pivot


@lean
def level_of(reals: Reals, cuts: int, bucket: int, x: float) -> int:
    """The level of a number of an event: never the first nor the last, which stand for infinity."""
    within = np.int64(1)
    if 0 < bucket < BUCKETS - 1:
        # Both operations keep order, so levels rise with x; the last may be rounded up too far.
        steps = (x - peek(reals, cuts + bucket - 1)) * peek(reals, cuts + BUCKETS + bucket)
        within = np.int64(steps if steps < (1 << LEVEL_BITS) - 1.0 else (1 << LEVEL_BITS) - 1.0)
    return (bucket << LEVEL_BITS) + within


@lean
def low_level(reals: Reals, cuts: int, low: float) -> int:
    return 0 if low == -np.inf else level_of(reals, cuts, bucket_of(reals, cuts, low), low)


@lean
def high_level(reals: Reals, cuts: int, high: float) -> int:
    if high == np.inf:
        return LEVEL_MAX
    return level_of(reals, cuts, bucket_of(reals, cuts, high), high)
