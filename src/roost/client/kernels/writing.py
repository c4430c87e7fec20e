"""Frames of publications out of columns: the kernel behind `columns`.

A column is described by a row of eight cells: its kind, where its values are, where its offsets are (of
strings), where its validity is (a byte a row; 0 if all are there), and where its name stands in `names`,
with the marks of MessagePack, and how long that is. What is written is what `roost.wire.codec` writes,
byte for byte.
"""

from __future__ import annotations

import numpy as np

from roost.client.kernels import inlined, lean
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import array_at, move, peek, poke
from roost.matching.kernels.octets import Octets, octets_at

KIND, VALUES, OFFSETS, VALID, NAME, NAME_SIZE = range(6)
COLUMN = 8
FLOAT, INT, STRING, BOOL = range(4)

# What a row takes besides names, strings and what is given in front and behind: heads and numbers at
# their longest.
ROW_BYTES, VALUE_BYTES = 40, 9
_UINT32_MAX = (1 << 32) - 1


@inlined
def _put(out: Octets, at: int, value: int) -> int:
    poke(out, at, np.uint8(value & 0xFF))
    return at + 1


@lean
def _put_big(out: Octets, at: int, value: int, size: int) -> int:
    """So many bytes of a number, the most significant first."""
    for i in range(size):
        poke(out, at + i, np.uint8((value >> (8 * (size - 1 - i))) & 0xFF))
    return at + size


@lean
def _put_int(out: Octets, at: int, value: int) -> int:
    """A whole number in its shortest form."""
    if value >= 0:
        if value < 0x80:
            return _put(out, at, value)
        if value <= 0xFF:
            return _put_big(out, _put(out, at, 0xCC), value, 1)
        if value <= 0xFFFF:
            return _put_big(out, _put(out, at, 0xCD), value, 2)
        if value <= _UINT32_MAX:
            return _put_big(out, _put(out, at, 0xCE), value, 4)
        return _put_big(out, _put(out, at, 0xCF), value, 8)
    if value >= -32:
        return _put(out, at, value)
    if value >= -(1 << 7):
        return _put_big(out, _put(out, at, 0xD0), value, 1)
    if value >= -(1 << 15):
        return _put_big(out, _put(out, at, 0xD1), value, 2)
    if value >= -(1 << 31):
        return _put_big(out, _put(out, at, 0xD2), value, 4)
    return _put_big(out, _put(out, at, 0xD3), value, 8)


@lean
def _put_string(out: Octets, at: int, texts: Octets, start: int, size: int) -> int:
    if size < 32:
        at = _put(out, at, 0xA0 | size)
    elif size <= 0xFF:
        at = _put_big(out, _put(out, at, 0xD9), size, 1)
    elif size <= 0xFFFF:
        at = _put_big(out, _put(out, at, 0xDA), size, 2)
    else:
        at = _put_big(out, _put(out, at, 0xDB), size, 4)
    move(out, at, texts, start, size)
    return at + size


@inlined
def _is_there(column: Cells, at: int, row: int) -> bool:
    valid = peek(column, at + VALID)
    return valid == 0 or bool(peek(octets_at(valid, row + 1), row))


@lean
def put_frames(
    columns: Cells,
    names: Octets,
    first_row: int,
    rows: int,
    head: Octets,
    sequence: int,
    prefix: Octets,
    number: int,
    tail: Octets,
    out: Octets,
) -> int:
    """Write a frame a row, from this sequence and this number of an event on; how many bytes that takes.

    `head` stands between the length and the sequence, `prefix` in front of the number, `tail` behind the
    attributes.
    """
    p = 0
    count = len(columns) // COLUMN
    for row in range(first_row, first_row + rows):
        begin = p
        p += 4
        move(out, p, head, 0, len(head))
        p = _put_big(out, p + len(head), sequence, 4)
        p = _put(out, p, 0)
        move(out, p, prefix, 0, len(prefix))
        p = _put_int(out, p + len(prefix), number)
        there = 0
        for c in range(count):
            there += _is_there(columns, c * COLUMN, row)
        p = (
            _put(out, p, 0x80 | there)
            if there < 16
            else _put_big(out, _put(out, p, 0xDE), there, 2)
        )
        for c in range(count):
            at = c * COLUMN
            if not _is_there(columns, at, row):
                continue
            size = peek(columns, at + NAME_SIZE)
            move(out, p, names, peek(columns, at + NAME), size)
            p += size
            kind, values = peek(columns, at + KIND), peek(columns, at + VALUES)
            if kind == STRING:
                offsets = array_at(peek(columns, at + OFFSETS), row + 2)
                start, stop = peek(offsets, row), peek(offsets, row + 1)
                p = _put_string(out, p, octets_at(values, stop), start, stop - start)
            elif kind == BOOL:
                p = _put(out, p, 0xC3 if peek(octets_at(values, row + 1), row) else 0xC2)
            elif kind == INT:
                p = _put_int(out, p, peek(array_at(values, row + 1), row))
            else:
                p = _put_big(out, _put(out, p, 0xCB), peek(array_at(values, row + 1), row), 8)
        move(out, p, tail, 0, len(tail))
        p += len(tail)
        _put_big(out, begin, p - begin - 4, 4)
        sequence += 1
        number += 1
    return p
