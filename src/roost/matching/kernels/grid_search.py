"""Which boxes of a grid hold an event: the steps that `grid` describes."""

from __future__ import annotations

import numpy as np

from roost.matching.kernels.grid_layout import (
    BUCKETS,
    CUTS_CELLS,
    LANES,
    ONES,
    ROWS,
    TOP,
    Reals,
    bucket_of,
    level_of,
    level_words_for,
    words_for,
)
from roost.matching.kernels.group import CAPACITY, CUTS, DIMENSIONS, LEAVES, ROOT, SUMMARY
from roost.matching.kernels.heap import SCRATCH, Cells
from roost.matching.kernels.jit import (
    SQUEEZES,
    boxes_around,
    inlined,
    lean,
    lowest_bit,
    peek,
    poke,
    take_marked,
)

# `out` must have room for so many ids more than the index has filters.
OVERRUN = 8


@lean
def holds(reals: Reals, bounds: int, dimensions: int) -> int:
    """1 if the box whose bounds stand there holds the numbers in the scratch cells, else 0.

    Without branches: which boxes hold an event is what a processor cannot guess.
    """
    held = np.int64(1)
    for i in range(0, 2 * dimensions, 2):
        held &= np.int64(peek(reals, bounds + i) <= peek(reals, SCRATCH + i))
        held &= np.int64(peek(reals, SCRATCH + i + 1) <= peek(reals, bounds + i + 1))
    return held


@inlined
def take(cells: Cells, reals: Reals, group: int, exact: bool, out: Cells, n: int) -> int:
    """Append the ids of all boxes that hold the numbers in the scratch cells; the new n."""
    dimensions = peek(cells, group + DIMENSIONS)
    # Behind the numbers: the event's place in the summary a dimension, and its levels.
    places = SCRATCH + 2 * dimensions
    levels = places + dimensions
    _place_event(cells, reals, group, places, levels)
    visits = peek(cells, group + SUMMARY)
    visits += dimensions * BUCKETS * words_for(peek(cells, group + CAPACITY))
    end = _find_leaves(cells, group, places, visits)
    root, level_words = peek(cells, group + ROOT), level_words_for(dimensions)
    for at in range(visits, end):
        leaf = root + peek(cells, at)
        keys = peek(cells, leaf)
        near, sure = boxes_around(
            cells, keys + ROWS, keys + 2 * ROWS, peek(cells, levels), TOP, ONES
        )
        for w in range(1, level_words):
            column = keys + ROWS + 2 * ROWS * w
            also_near, also_sure = boxes_around(
                cells, column, column + ROWS, peek(cells, levels + w), TOP, ONES
            )
            near &= also_near
            sure &= also_sure
        if near != sure or not exact:
            bounds = peek(cells, leaf + peek(cells, group + CAPACITY))
            sure = _sure_by_bounds(reals, bounds, near, sure if exact else np.int64(0), dimensions)
        if SQUEEZES:
            n = take_marked(out, n, cells, keys, sure)
        else:
            while sure != 0:
                poke(out, n, peek(cells, keys + lowest_bit(sure)))
                n += 1
                sure &= sure - 1
    return n


@lean
def _sure_by_bounds(reals: Reals, bounds: int, near: int, sure: int, dimensions: int) -> int:
    """The rows that hold the event, of those that may: compares the numbers where it is not yet sure."""
    doubt = near & ~sure
    while doubt != 0:
        row = lowest_bit(doubt)
        doubt &= doubt - 1
        sure |= holds(reals, bounds + 2 * dimensions * row, dimensions) << row
    return sure


@inlined
def _place_event(cells: Cells, reals: Reals, group: int, places: int, levels: int) -> None:
    """Write down the event's place in the summary a dimension, and the words of its levels."""
    dimensions = peek(cells, group + DIMENSIONS)
    cuts = peek(cells, group + CUTS)
    word, shift = ONES, 0
    for d in range(dimensions):
        x = peek(reals, SCRATCH + 2 * d)
        bucket = bucket_of(reals, cuts, x)
        poke(cells, places + d, d * BUCKETS + bucket)
        word += (level_of(reals, cuts, bucket, x) - 1) << shift
        shift += 16
        if shift == 64 or d == dimensions - 1:
            poke(cells, levels + d // LANES, word)
            word, shift = ONES, 0
        cuts += CUTS_CELLS


@inlined
def _find_leaves(cells: Cells, group: int, places: int, visits: int) -> int:
    """List the leaves that the summary admits from `visits` on; where the list ends."""
    dimensions = peek(cells, group + DIMENSIONS)
    summary, words = peek(cells, group + SUMMARY), words_for(peek(cells, group + CAPACITY))
    for w in range(words_for(peek(cells, group + LEAVES))):
        visit = peek(cells, summary + peek(cells, places) * words + w)
        for d in range(1, dimensions):
            visit &= peek(cells, summary + peek(cells, places + d) * words + w)
        while visit != 0:
            poke(cells, visits, w * 64 + lowest_bit(visit))
            visits += 1
            visit &= visit - 1
    return visits
