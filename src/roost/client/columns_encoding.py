"""Columns of Arrow, described for the kernel that writes frames of them (`kernels.writing`).

All that an event may not have is looked for here, a column at a time, before the first event gets its
number. A table with anything that this can't tell, or that no event can have, is Unusual: its rows are
looked at one by one then, and what is wrong is said of the event that it is in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import msgpack
from numpy.typing import NDArray

from roost.broker.messages import DATA, Publication
from roost.client.advertising import CLASS, Shape
from roost.client.columns import refuse_doubles
from roost.client.kernels import writing as kernel
from roost.language.values import CONSTANT_LENGTH_MAX, INT_MAX, STRING_LENGTH_MAX, check_name
from roost.wire.kinds import FRAME_ITEMS, MESSAGE_TAGS

# A bit of a word a column, with some to spare.
_COLUMNS_MAX = 60
# What stands between the length of a frame and its number (see `roost.wire.codec`).
_HEAD = bytes((0x90 + len(FRAME_ITEMS) + 1, MESSAGE_TAGS[Publication], DATA, 0xCE))


class Unusual(Exception):  # noqa: N818 (no error)
    """These columns are to be looked at row by row."""


class Encoder:
    """Writes frames of the rows of a table."""

    def __init__(self, events: pa.Table | pa.RecordBatch, size_max: int) -> None:
        table = events if isinstance(events, pa.Table) else pa.Table.from_batches([events])
        refuse_doubles(table.schema.names)
        if table.num_columns > _COLUMNS_MAX:
            raise Unusual
        self.rows: int = table.num_rows
        self._kept: list[object] = []  # arrays, whose addresses are in the description
        self._classes: pa.Array | None = None
        self._there = np.zeros(self.rows, np.int64)  # a bit a column
        self._names: list[str] = []
        self._sizes = np.zeros(self.rows, np.int64)  # of strings
        described: list[list[int]] = []
        names = b""
        for name, column in zip(table.schema.names, table.columns, strict=True):
            check_name(name, "events")
            array = column.combine_chunks()
            if isinstance(array, pa.ChunkedArray):  # of no chunks, or of too large ones
                if array.num_chunks > 1:
                    raise Unusual
                array = pa.array([], column.type) if not array.num_chunks else array.chunk(0)
            if pa.types.is_null(array.type):
                continue
            encoded = msgpack.encode(name)
            described.append([*self._describe(name, array), len(names), len(encoded), 0, 0])
            names += encoded
        self._columns = np.array(described, np.int64).ravel()
        self._text = np.frombuffer(names, np.uint8)
        values = kernel.VALUE_BYTES * len(described)
        self._sizes += kernel.ROW_BYTES + len(names) + values
        if self.rows and int(self._sizes.max()) > size_max:
            raise Unusual

    def shapes(self) -> list[Shape]:
        """The shapes of its events, in the order in which they come."""
        codes = np.zeros(self.rows, np.int64)
        words: list[str | None] = [None]
        if self._classes is not None:
            coded = self._classes.dictionary_encode()
            words = [*coded.dictionary.to_pylist(), None]
            codes = coded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
            codes = codes.astype(np.int64)
        pairs, firsts = np.unique(np.stack([codes, self._there]), axis=1, return_index=True)
        shapes: list[Shape] = []
        for at in np.argsort(firsts).tolist():
            code, there = pairs[:, at].tolist()
            word = words[code]
            names = sorted(n for i, n in enumerate(self._names) if there >> i & 1)
            if word is not None and len(word) > CONSTANT_LENGTH_MAX:
                word = None
            shapes.append((word, tuple(names)))
        return shapes

    def rows_within(self, first: int, most: int, bytes_max: int) -> int:
        """How many rows from this one on fit into so many bytes: at least one, and no more than `most`."""
        sizes = np.cumsum(self._sizes[first : first + most])
        return max(1, int(np.searchsorted(sizes, bytes_max, "right")))

    def frames(
        self, first: int, rows: int, sequence: int, prefix: bytes, number: int, tail: bytes
    ) -> bytes:
        """The frames of so many rows from this one on, the first with this sequence and event's number."""
        around = rows * (len(prefix) + len(tail))
        out = np.empty(int(self._sizes[first : first + rows].sum()) + around, np.uint8)
        size = kernel.put_frames(
            self._columns,
            self._text,
            first,
            rows,
            np.frombuffer(_HEAD, np.uint8),
            sequence,
            np.frombuffer(prefix, np.uint8),
            number,
            np.frombuffer(tail, np.uint8),
            out,
        )
        return out[:size].tobytes()

    # --- columns ------------------------------------------------------------------------------------

    def _describe(self, name: str, array: pa.Array) -> tuple[int, int, int, int]:
        """Kind, values, offsets and validity of a column."""
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        there = None
        if array.null_count:
            there = array.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False)
        kind, offsets = array.type, 0
        is_absent = None if there is None else there == 0
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            values, offsets = self._strings(name, array)
            code = kernel.STRING
        elif pa.types.is_boolean(kind):
            values = self._address(array.fill_null(False).cast(pa.uint8()).to_numpy())
            code = kernel.BOOL
        elif pa.types.is_integer(kind):
            whole = array.fill_null(0)
            if kind == pa.uint64() and len(whole) and pc.max(whole).as_py() > INT_MAX:
                raise Unusual
            values = self._address(whole.cast(pa.int64()).to_numpy())
            code = kernel.INT
        elif pa.types.is_floating(kind) and kind != pa.float16():
            numbers = array.fill_null(0.0).cast(pa.float64()).to_numpy()
            values = self._address(numbers)
            code = kernel.FLOAT
            is_nan = np.isnan(numbers)
            is_absent = is_nan if is_absent is None else is_absent | is_nan
        else:
            raise Unusual
        bit = np.int64(1 << len(self._names))
        self._names.append(name)
        self._there |= bit if is_absent is None else np.where(is_absent, np.int64(0), bit)
        return code, values, offsets, 0 if there is None else self._address(there)

    def _strings(self, name: str, array: pa.Array) -> tuple[int, int]:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise Unusual from None
        large = array.cast(pa.large_string())
        if name == CLASS:
            self._classes = large
        _, offsets_buffer, values_buffer = large.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64)[
            large.offset : large.offset + len(large) + 1
        ]
        sizes = np.diff(offsets)
        if len(sizes) and int(sizes.max()) > STRING_LENGTH_MAX:
            raise Unusual  # more bytes than characters are allowed; the characters may be fewer
        self._sizes += sizes
        self._kept.append(large)
        return 0 if values_buffer is None else values_buffer.address, self._address(offsets)

    def _address(self, array: NDArray[np.generic]) -> int:
        array = np.ascontiguousarray(array)
        self._kept.append(array)
        return int(array.ctypes.data)
