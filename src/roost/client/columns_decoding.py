"""Events that have come, to columns of Arrow, without an object an event (`kernels.columns`).

The columns are those that `columns.as_columns` makes of the events' attributes, which is what happens where
anything is unusual: an attribute with values of several kinds, or very many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import msgpack
from numpy.typing import NDArray

from roost.client.bundle import Bundle
from roost.client.columns import as_columns
from roost.client.kernels import columns as kernel

# There is room for so many columns at first, and at most.
COLUMNS, COLUMNS_MAX = 8, 256
# Where a string stands is a number of 31 bits.
BYTES_MAX = 1 << 31

_encode = msgpack.Encoder().encode


class ColumnReader:
    """Makes columns of what a subscription has taken from its inbox."""

    def __init__(self) -> None:
        self._columns_max = COLUMNS

    def read(self, parts: Sequence[Any]) -> pa.RecordBatch:
        """Events, and bundles of them, as one record batch."""
        batch = self._read(parts)
        return as_columns(_rows(parts)) if batch is None else batch

    def _read(self, parts: Sequence[Any]) -> pa.RecordBatch | None:
        pieces: list[bytes] = []
        maps: list[NDArray[np.int64]] = []
        singles: list[int] = []
        size = 0
        for part in parts:
            if type(part) is Bundle:
                if singles:
                    maps.append(np.array(singles, np.int64))
                    singles = []
                maps.append(part.maps + size)
                piece = part.data
            else:
                singles.append(size)
                piece = _encode(part.event.attributes)
            pieces.append(piece)
            size += len(piece)
        if singles:
            maps.append(np.array(singles, np.int64))
        if size >= BYTES_MAX:
            return None
        return self._columns(b"".join(pieces), np.concatenate(maps))

    def _columns(self, data: bytes, maps: NDArray[np.int64]) -> pa.RecordBatch | None:
        rows = len(maps)
        columns = np.empty(kernel.COLUMN * self._columns_max, np.int64)
        kinds = np.zeros(rows * self._columns_max, np.uint8)
        values = np.zeros(rows * self._columns_max, np.int64)
        count = kernel.read_columns(data, maps, columns, kinds, values)
        if count == kernel.TOO_MANY and self._columns_max < COLUMNS_MAX:
            self._columns_max *= 4
            return self._columns(data, maps)
        if count <= 0:
            return None
        names, arrays = [], []
        described = columns[: kernel.COLUMN * count].reshape(count, kernel.COLUMN).tolist()
        for number, (name, name_size, mask, text_bytes) in enumerate(described):
            span = slice(number * rows, (number + 1) * rows)
            array = _array(data, mask, kinds[span], values[span], text_bytes)
            if array is None:
                return None
            names.append(data[name : name + name_size].decode())
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names)


def _array(
    data: bytes,
    mask: int,
    kinds: NDArray[np.uint8],
    values: NDArray[np.int64],
    text_bytes: int,
) -> pa.Array | None:
    """One column; None if its values are of several kinds."""
    rows = len(values)
    is_there = kinds != 0
    nulls = rows - int(np.count_nonzero(is_there))
    valid = pa.py_buffer(np.packbits(is_there, bitorder="little")) if nulls else None
    if mask == kernel.STRING:
        offsets = np.zeros(rows + 1, np.int32)
        text = np.empty(text_bytes, np.uint8)
        kernel.gather(data, kinds, values, offsets, text)
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.string(), rows, buffers, nulls)
    if mask == kernel.INT:
        return pa.Array.from_buffers(pa.int64(), rows, [valid, pa.py_buffer(values)], nulls)
    if mask == kernel.FLOAT:
        return pa.Array.from_buffers(pa.float64(), rows, [valid, pa.py_buffer(values)], nulls)
    if mask == kernel.BOOL:
        bits = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), rows, [valid, bits], nulls)
    if mask == kernel.INT | kernel.FLOAT:
        floats = np.where(kinds == kernel.INT, values.astype(np.float64), values.view(np.float64))
        return pa.Array.from_buffers(pa.float64(), rows, [valid, pa.py_buffer(floats)], nulls)
    return None


def _rows(parts: Sequence[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in parts:
        if type(part) is Bundle:
            rows += (event.attributes for event in part.events())
        else:
            rows.append(part.event.attributes)
    return rows
