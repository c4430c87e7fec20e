"""Which boxes of a grid hold an event: the four steps that `grid` describes."""

from __future__ import annotations

import numpy as np

from roost.matching.kernels.grid_layout import (
    BUCKETS,
    LANES,
    ONES,
    TOP,
    Reals,
    bucket_of,
    level_of,
    level_words_for,
    words_for,
)
from roost.matching.kernels.group import CAPACITY, CUTS, DIMENSIONS, LEAVES, ROOT, SUMMARY
from roost.matching.kernels.heap import SCRATCH, Cells
from roost.matching.kernels.jit import kernel, lowest_bit, peek, poke

# `out` must have room for so many ids more than the index has filters.
OVERRUN = 1


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
    dimensions = peek(cells, group + DIMENSIONS)
    level_words = level_words_for(dimensions)
    places = SCRATCH + 2 * dimensions
    levels = places + dimensions
    _place_event(cells, reals, group, places, levels)
    visits = peek(cells, group + SUMMARY)
    visits += dimensions * BUCKETS * words_for(peek(cells, group + CAPACITY))
    end = _find_candidates(cells, group, places, visits)
    if exact and level_words == 1:
        return _take_by_levels(cells, reals, visits, end, peek(cells, levels), dimensions, out, n)
    for at in range(visits, end, 3):
        n = _take_by_bounds(cells, reals, at, 1 + 2 * level_words, dimensions, out, n)
    return n


@kernel
def _place_event(cells: Cells, reals: Reals, group: int, places: int, levels: int) -> None:
    """Write down the event's place in tables and summary a dimension, and the words of its levels."""
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
        cuts += 2 * BUCKETS


@kernel
def _find_candidates(cells: Cells, group: int, places: int, visits: int) -> int:
    """List the leaves that the summary admits, each by its rows, its bounds and its candidates."""
    dimensions = peek(cells, group + DIMENSIONS)
    root, capacity = peek(cells, group + ROOT), peek(cells, group + CAPACITY)
    summary, words = peek(cells, group + SUMMARY), words_for(capacity)
    end = visits
    for w in range(words_for(peek(cells, group + LEAVES))):
        visit = peek(cells, summary + peek(cells, places) * words + w)
        for d in range(1, dimensions):
            visit &= peek(cells, summary + peek(cells, places + d) * words + w)
        while visit != 0:
            poke(cells, end, w * 64 + lowest_bit(visit))
            end += 3
            visit &= visit - 1
    kept = visits
    for at in range(visits, end, 3):
        leaf = root + peek(cells, at)
        table = peek(cells, leaf + 2 * capacity)
        word = np.int64(-1)
        for d in range(dimensions):
            word &= peek(cells, table + peek(cells, places + d))
        poke(cells, kept, peek(cells, leaf))
        poke(cells, kept + 1, peek(cells, leaf + capacity))
        poke(cells, kept + 2, word)
        kept += 3 * np.int64(word != 0)
    return kept


@kernel
def _take_by_levels(
    cells: Cells,
    reals: Reals,
    visits: int,
    end: int,
    value: int,
    dimensions: int,
    out: Cells,
    n: int,
) -> int:
    """Take the candidates whose levels hold the event's, for up to four dimensions.

    Without branches inside: which rows hold an event is what a processor cannot guess. A leaf in which
    a level is equal, which is rare, is looked at once more.
    """
    value_top = value | TOP
    for at in range(visits, end, 3):
        rows, word = peek(cells, at), peek(cells, at + 2)
        before, equal = n, np.int64(0)
        while word != 0:
            row = rows + 3 * lowest_bit(word)
            word &= word - 1
            # In each lane: 0x8000 + how far the event is inside.
            above, below = value_top - peek(cells, row + 1), peek(cells, row + 2) - value
            inside = above & below
            equal |= inside ^ ((above - ONES) & (below - ONES))
            # Written in any case, and kept by counting it.
            poke(out, n, peek(cells, row))
            n += np.int64(inside & TOP == TOP)
        if equal & TOP != 0:
            n = _take_by_bounds(cells, reals, at, 3, dimensions, out, before)
    return n


@kernel
def _take_by_bounds(
    cells: Cells, reals: Reals, at: int, stride: int, dimensions: int, out: Cells, n: int
) -> int:
    """Take the candidates of one leaf whose bounds hold the event's numbers."""
    rows, bounds, word = peek(cells, at), peek(cells, at + 1), peek(cells, at + 2)
    while word != 0:
        row = lowest_bit(word)
        word &= word - 1
        poke(out, n, peek(cells, rows + stride * row))
        n += holds(reals, bounds + 2 * dimensions * row, dimensions)
    return n
