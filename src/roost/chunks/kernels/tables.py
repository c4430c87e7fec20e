"""Tables of strings: hashed rows of words, with the strings themselves in a heap of blocks.

A table is an array of rows: hash, where the bytes are (in bytes), how many, whose they are (a number that is
part of the key), value. A value is not negative; FREE is a row that nobody has had, GONE one that is free
again and that a search goes past. The owner makes a table larger before it is more than half in use.
"""

from __future__ import annotations

import numpy as np

from roost.chunks.kernels.words import Bytes, hash_of, hash_of_number, kernel, lean, same
from roost.matching.kernels.heap import Cells, allocate, release
from roost.matching.kernels.jit import peek
from roost.matching.kernels.octets import le64

HASH, AT, LENGTH, OWNER, VALUE = range(5)
ROW = 5
FREE, GONE = -1, -2

_NUMBER_BYTES = 8
_CELL_BYTES = 8
_SPREAD = np.int64(-7046029254386353131)


@lean
def find(table: Cells, text: Bytes, b: Bytes, at: int, n: int, owner: int) -> int:
    """Where the row of a string and owner begins; -1 if there is none."""
    mask = len(table) // ROW - 1
    h = hash_of(b, at, n) ^ (owner * _SPREAD)
    i = h & mask
    while True:
        row = i * ROW
        value = peek(table, row + VALUE)
        if value == FREE:
            return -1
        if (
            value >= 0
            and peek(table, row + HASH) == h
            and peek(table, row + LENGTH) == n
            and peek(table, row + OWNER) == owner
            and same(b, at, text, peek(table, row + AT), n)
        ):
            return row
        i = (i + 1) & mask


@lean
def find_number(table: Cells, text: Bytes, bits: int, owner: int) -> int:
    """The same for a string of eight bytes, which are those of a number."""
    mask = len(table) // ROW - 1
    h = hash_of_number(bits) ^ (owner * _SPREAD)
    i = h & mask
    while True:
        row = i * ROW
        value = peek(table, row + VALUE)
        if value == FREE:
            return -1
        if (
            value >= 0
            and peek(table, row + HASH) == h
            and peek(table, row + LENGTH) == _NUMBER_BYTES
            and peek(table, row + OWNER) == owner
            and le64(text, peek(table, row + AT)) == bits
        ):
            return row
        i = (i + 1) & mask


@kernel
def enter(table: Cells, b: Bytes, owner: int, place: int, value: int) -> bool:
    """Add a row for a string that has none, whose bytes stand at `place` of the heap.

    True: it took a row that nobody has had.
    """
    mask = len(table) // ROW - 1
    h = hash_of(b, 0, len(b)) ^ (owner * _SPREAD)
    i = h & mask
    while table[i * ROW + VALUE] >= 0:
        i = (i + 1) & mask
    row = i * ROW
    is_new = table[row + VALUE] == FREE
    table[row + HASH] = h
    table[row + AT] = place
    table[row + LENGTH] = len(b)
    table[row + OWNER] = owner
    table[row + VALUE] = value
    return is_new


@kernel
def rehash(table: Cells, larger: Cells) -> None:
    """Enter all rows into a table that is empty."""
    mask = len(larger) // ROW - 1
    for old in range(0, len(table), ROW):
        if table[old + VALUE] < 0:
            continue
        i = table[old + HASH] & mask
        while larger[i * ROW + VALUE] >= 0:
            i = (i + 1) & mask
        for k in range(ROW):
            larger[i * ROW + k] = table[old + k]


@kernel
def _cells_for(size: int) -> int:
    return max(1, (size + _CELL_BYTES - 1) // _CELL_BYTES)


@kernel
def keep_many(cells: Cells, b: Bytes, ends: Cells) -> Cells:
    """Keep strings that stand one behind the other, for which there is room; where each is, in bytes."""
    text = cells.view(np.uint8)
    places = np.empty(len(ends), np.int64)
    start = 0
    for k in range(len(ends)):
        place = allocate(cells, _cells_for(ends[k] - start)) * _CELL_BYTES
        for at in range(start, ends[k]):
            text[place + at - start] = b[at]
        places[k] = place
        start = ends[k]
    return places


@kernel
def enter_many(
    table: Cells, cells: Cells, b: Bytes, ends: Cells, owners: Cells, places: Cells, blocks: Cells
) -> int:
    """Let strings stand for lists, each for one of its own. How many rows were taken that nobody has had.

    `places` has where a string is kept. A list of before goes, and so does the second copy of a string that
    is there already: then `places` has -1.
    """
    mask = len(table) // ROW - 1
    text = cells.view(np.uint8)
    used = 0
    start = 0
    for k in range(len(ends)):
        n, owner = ends[k] - start, owners[k]
        there = find(table, text, b, start, n, owner)
        if there >= 0:
            before = table[there + VALUE]
            release(cells, before, 1 + cells[before])
            table[there + VALUE] = blocks[k]
            release(cells, places[k] // _CELL_BYTES, _cells_for(n))
            places[k] = -1
        else:
            h = hash_of(b, start, n) ^ (owner * _SPREAD)
            i = h & mask
            while table[i * ROW + VALUE] >= 0:
                i = (i + 1) & mask
            row = i * ROW
            used += table[row + VALUE] == FREE
            table[row + HASH] = h
            table[row + AT] = places[k]
            table[row + LENGTH] = n
            table[row + OWNER] = owner
            table[row + VALUE] = blocks[k]
        start = ends[k]
    return used
