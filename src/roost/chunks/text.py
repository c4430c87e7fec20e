"""Strings where kernels find them: a heap of bytes, and tables of what they stand for (`kernels.tables`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from roost.chunks.kernels import tables
from roost.matching.kernels.heap import Cells, allocate, new_heap, release
from roost.matching.kernels.search import room

_CELL_BYTES = 8
_LEAST_ROWS = 64


class TextHeap:
    """Strings and lists of numbers in blocks of one array. `moved` is called when that is another one."""

    def __init__(self, moved: Callable[[Cells], None]) -> None:
        self.cells = new_heap(0)
        self._moved = moved
        moved(self.cells)

    def keep(self, text: bytes) -> int:
        """Where a string stands from now on, in bytes."""
        block = self._allocate(len(text))
        place = block * _CELL_BYTES
        self.cells.view(np.uint8)[place : place + len(text)] = np.frombuffer(text, np.uint8)
        return place

    def drop(self, place: int, length: int) -> None:
        """It need not stand there any more."""
        release(self.cells, place // _CELL_BYTES, _cells_for(length))

    def keep_list(self, numbers: Sequence[int]) -> int:
        """Where a list stands from now on, in cells: how many, and then each."""
        block = self._allocate(_CELL_BYTES * (1 + len(numbers)))
        self.cells[block] = len(numbers)
        self.cells[block + 1 : block + 1 + len(numbers)] = numbers
        return block

    def drop_list(self, block: int) -> None:
        release(self.cells, block, _cells_for(_CELL_BYTES * (1 + int(self.cells[block]))))

    def _allocate(self, size: int) -> int:
        block = int(allocate(self.cells, _cells_for(size)))
        while room(self.cells) <= 0:
            larger = np.zeros(2 * len(self.cells), np.int64)
            larger[: len(self.cells)] = self.cells
            self.cells = larger
            self._moved(larger)
        return block


def _cells_for(size: int) -> int:
    return max(1, -(-size // _CELL_BYTES))


class TextTable:
    """(string, owner) -> a number that is not negative."""

    def __init__(self, heap: TextHeap, moved: Callable[[Cells], None]) -> None:
        self._heap = heap
        self._moved = moved
        self.count = 0
        self.rows = _empty(_LEAST_ROWS)
        self._used = 0  # rows that are not FREE
        moved(self.rows)

    def get(self, text: bytes, owner: int = 0) -> int:
        """What it stands for; -1: nothing."""
        row = self._find(text, owner)
        return -1 if row < 0 else int(self.rows[row + tables.VALUE])

    def put(self, text: bytes, value: int, owner: int = 0) -> None:
        """From now on it stands for this."""
        row = self._find(text, owner)
        if row >= 0:
            self.rows[row + tables.VALUE] = value
            return
        if 2 * (self._used + 1) * tables.ROW > len(self.rows):
            self._make_room()
        place = self._heap.keep(text)
        self._used += tables.enter(self.rows, np.frombuffer(text, np.uint8), owner, place, value)
        self.count += 1

    def drop(self, text: bytes, owner: int = 0) -> None:
        """It stands for nothing any more, if it did."""
        row = self._find(text, owner)
        if row >= 0:
            self._heap.drop(int(self.rows[row + tables.AT]), len(text))
            self.rows[row + tables.VALUE] = tables.GONE
            self.count -= 1

    def values(self) -> list[int]:
        """All that strings stand for."""
        values = self.rows[tables.VALUE :: tables.ROW]
        found: list[int] = values[values >= 0].tolist()
        return found

    def clear(self) -> None:
        """Nothing is in it."""
        for row in np.flatnonzero(self.rows[tables.VALUE :: tables.ROW] >= 0).tolist():
            at, length = self.rows[row * tables.ROW + tables.AT : row * tables.ROW + tables.OWNER]
            self._heap.drop(int(at), int(length))
        self.rows = _empty(_LEAST_ROWS)
        self.count = self._used = 0
        self._moved(self.rows)

    def _find(self, text: bytes, owner: int) -> int:
        key = np.frombuffer(text, np.uint8)
        found = tables.find(self.rows, self._heap.cells.view(np.uint8), key, 0, len(text), owner)
        return int(found)

    def _make_room(self) -> None:
        rows = _LEAST_ROWS
        while rows < 4 * (self.count + 1):
            rows *= 2
        larger = _empty(rows)
        tables.rehash(self.rows, larger)
        self.rows, self._used = larger, self.count
        self._moved(larger)


def _empty(rows: int) -> Cells:
    table = np.zeros(rows * tables.ROW, np.int64)
    table[tables.VALUE :: tables.ROW] = tables.FREE
    return table
