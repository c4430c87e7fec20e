"""Attributes of many events, from MessagePack to columns: the kernel behind `columns_decoding`.

What stands there is known to be maps of attributes (`reading`), whose strings are UTF-8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.client.kernels import lean
from roost.client.kernels.reading import map_head
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import move, peek, poke
from roost.matching.kernels.octets import Octets, be64, number_at, octets_of, same_octets
from roost.matching.kernels.reading import string_head

# Of a column: where its name stands, how long it is, the kinds of its values, the bytes of its strings.
NAME, NAME_SIZE, KINDS, TEXT_BYTES = range(4)
COLUMN = 4
# Bits of kinds; a cell without any is empty.
BOOL, INT, FLOAT, STRING = 1, 2, 4, 8
# Why there are no columns.
UNUSUAL, TOO_MANY = -1, -2
# A string is one number: where it stands, above its length.
_SIZE_BITS = np.int64(32)
_SIZE_MASK = np.int64((1 << 32) - 1)


@lean
def read_columns(data: bytes, maps: Cells, columns: Cells, kinds: Octets, values: Cells) -> int:
    """Put the maps that begin at these places into columns; how many columns there are, or why not.

    They stand in the order in which their names first come. Of a column there is a kind and a value a row:
    a whole number, the bits of a float, 0 or 1, or where a string stands.
    """
    b, stop, rows = octets_of(data), len(data), len(maps)
    columns_max = len(columns) // COLUMN
    count = np.int64(0)
    for row in range(rows):
        p, size = map_head(b, peek(maps, row), stop)
        column = np.int64(0)
        for _ in range(size):
            start, length = string_head(b, p, stop)
            p = start + length
            # Mostly they come in the order of the event before.
            tried = np.int64(0)
            while tried < count:
                if column >= count:
                    column = np.int64(0)
                at = COLUMN * column
                if peek(columns, at + NAME_SIZE) == length and same_octets(
                    b, start, b, peek(columns, at + NAME), length
                ):
                    break
                column += 1
                tried += 1
            if tried == count:
                if count == columns_max:
                    return np.int64(TOO_MANY)
                column = count
                count += 1
                at = COLUMN * column
                poke(columns, at + NAME, start)
                poke(columns, at + NAME_SIZE, length)
                poke(columns, at + KINDS, np.int64(0))
                poke(columns, at + TEXT_BYTES, np.int64(0))
            at = COLUMN * column
            cell = column * rows + row
            if peek(kinds, cell):
                return np.int64(UNUSUAL)  # twice in one event: the last one counts
            mark = np.int64(peek(b, p))
            if mark == 0xCB:
                kind, value = np.int64(FLOAT), be64(b, p + 1)
                p += 9
            elif 0xC2 <= mark <= 0xC3:
                kind, value = np.int64(BOOL), mark - 0xC2
                p += 1
            elif mark < 0x80 or mark >= 0xE0 or 0xCC <= mark <= 0xD3:
                kind = np.int64(INT)
                p, value, good = number_at(b, p, stop)
                if not good:
                    return np.int64(UNUSUAL)
            else:
                kind = np.int64(STRING)
                start, length = string_head(b, p, stop)
                value = (start << _SIZE_BITS) | length
                poke(columns, at + TEXT_BYTES, peek(columns, at + TEXT_BYTES) + length)
                p = start + length
            poke(kinds, cell, np.uint8(kind))
            poke(values, cell, value)
            poke(columns, at + KINDS, peek(columns, at + KINDS) | kind)
            column += 1
    return count


@lean
def gather(
    data: bytes, kinds: Octets, values: Cells, offsets: NDArray[np.int32], out: Octets
) -> None:
    """The strings of a column one behind the other, and where each ends: 32 bits each, the first being 0."""
    b = octets_of(data)
    at = np.int64(0)
    for row in range(len(values)):
        if peek(kinds, row):
            value = peek(values, row)
            size = value & _SIZE_MASK
            move(out, at, b, value >> _SIZE_BITS, size)
            at += size
        offsets[row + 1] = at
