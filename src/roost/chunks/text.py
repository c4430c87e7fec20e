"""Strings where kernels find them: a heap of bytes, and tables of what they stand for (`kernels.tables`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from roost.chunks.kernels import tables
from roost.matching.kernels.heap import TOP, Cells, allocate, new_heap, release
from roost.matching.kernels.search import room

_CELL_BYTES = 8
_LEAST_BLOCK = 16
_LEAST_ROWS = 64


class TextHeap:
    """Strings and lists of numbers in blocks of one array. `moved` is called when that is another one."""

    def __init__(self, moved: Callable[[Cells], None]) -> None:
        self._moved = moved
        self._set(new_heap(0))
        self._largest = 0  # block, in cells
        self._limit = 0  # how far the array may be used before there has to be more of it

    def _set(self, cells: Cells) -> None:
        self.cells, self.octets = cells, cells.view(np.uint8)
        # Through which few numbers are written more quickly.
        self._view: memoryview[Any] = memoryview(cells)  # type: ignore[arg-type]
        self._bytes = self._view.cast("B")
        self._moved(cells)

    def keep(self, text: bytes) -> int:
        """Where a string stands from now on, in bytes."""
        place = self._allocate(_cells_for(len(text))) * _CELL_BYTES
        self._bytes[place : place + len(text)] = text
        return place

    def drop(self, place: int, length: int) -> None:
        """It need not stand there any more."""
        release(self.cells, place // _CELL_BYTES, _cells_for(length))

    def keep_list(self, numbers: Sequence[int]) -> int:
        """Where a list stands from now on, in cells: how many, and then each."""
        block = self._allocate(1 + len(numbers))
        view = self._view
        view[block] = len(numbers)
        for at, number in enumerate(numbers, block + 1):
            view[at] = number
        return block

    def drop_list(self, block: int) -> None:
        release(self.cells, block, 1 + self._view[block])

    def keep_many(self, text: bytes, ends: Cells) -> Cells:
        """Where strings stand from now on, in bytes, that come one behind the other."""
        # A block has a quarter more than it is made for, at most, or the least that there is.
        self._make_room(len(text) // _CELL_BYTES * 2 + _LEAST_BLOCK * len(ends))
        return tables.keep_many(self.cells, np.frombuffer(text, np.uint8), ends)

    def _allocate(self, size: int) -> int:
        if size > self._largest or self._view[TOP] >= self._limit:
            self._largest = max(self._largest, size)
            self._make_room(2 * size)
        return int(allocate(self.cells, size))

    def _make_room(self, more: int) -> None:
        """For so many cells, besides the reserve, which no kernel makes itself (see `kernels.heap`)."""
        while (left := int(room(self.cells)) - more) <= 0:
            larger = np.zeros(2 * len(self.cells), np.int64)
            larger[: len(self.cells)] = self.cells
            self._set(larger)
        self._limit = self._view[TOP] + left


def _cells_for(size: int) -> int:
    return max(1, -(-size // _CELL_BYTES))


class TextTable:
    """(string, owner) -> a number that is not negative."""

    def __init__(self, heap: TextHeap, moved: Callable[[Cells], None]) -> None:
        self._heap = heap
        self._moved = moved
        self._begin()

    def _begin(self) -> None:
        self.count = self._used = 0  # rows with a number; rows that are not FREE
        self._set(_empty(_LEAST_ROWS))

    def _set(self, rows: Cells) -> None:
        self.rows = rows
        self._view: memoryview[Any] = memoryview(rows)  # type: ignore[arg-type]
        self._moved(rows)

    def get(self, text: bytes, owner: int = 0) -> int:
        """What it stands for; -1: nothing."""
        row = self._find(text, owner)
        return -1 if row < 0 else int(self._view[row + tables.VALUE])

    def put(self, text: bytes, value: int, owner: int = 0) -> int:
        """From now on it stands for this. What it stood for; -1: nothing."""
        row = self._find(text, owner)
        if row >= 0:
            before = int(self._view[row + tables.VALUE])
            self._view[row + tables.VALUE] = value
            return before
        self._make_room(1)
        place = self._heap.keep(text)
        self._used += tables.enter(self.rows, np.frombuffer(text, np.uint8), owner, place, value)
        self.count += 1
        return -1

    def put_lists(self, text: bytes, ends: Cells, owners: Cells, blocks: Cells) -> None:
        """From now on these strings, one behind the other, stand for these lists, and no more for others."""
        self._make_room(len(ends))
        places = self._heap.keep_many(text, ends)
        b = np.frombuffer(text, np.uint8)
        self._used += int(
            tables.enter_many(self.rows, self._heap.cells, b, ends, owners, places, blocks)
        )
        self.count += int(np.count_nonzero(places >= 0))

    def drop(self, text: bytes, owner: int = 0) -> int:
        """It stands for nothing any more. What it stood for; -1: nothing."""
        row = self._find(text, owner) if self.count else -1
        if row < 0:
            return -1
        view = self._view
        self._heap.drop(view[row + tables.AT], len(text))
        before = int(view[row + tables.VALUE])
        view[row + tables.VALUE] = tables.GONE
        self.count -= 1
        return before

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
        self._begin()

    def _find(self, text: bytes, owner: int) -> int:
        key = np.frombuffer(text, np.uint8)
        return int(tables.find(self.rows, self._heap.octets, key, 0, len(text), owner))

    def _make_room(self, more: int) -> None:
        if 2 * (self._used + more) * tables.ROW <= len(self.rows):
            return
        rows = _LEAST_ROWS
        while rows < 4 * (self.count + more):
            rows *= 2
        larger = _empty(rows)
        tables.rehash(self.rows, larger)
        self._used = self.count
        self._set(larger)


def _empty(rows: int) -> Cells:
    table = np.zeros(rows * tables.ROW, np.int64)
    table[tables.VALUE :: tables.ROW] = tables.FREE
    return table
