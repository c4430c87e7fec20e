"""Rows gathered for a table: packed one behind the other, words as numbers of a dictionary.

To hand rows of Python objects to Arrow costs 5 microseconds a row, as much as routing a publication. To pack
a row into bytes is one call, and NumPy takes the columns out of the packed rows all at once. What is not of a
fixed size is a *word*: a string, or a whole list (where a publication went to, say), of which the same come
again and again. A column of lists has a dictionary of its own; its words are tuples.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# How a value of each Arrow type is packed; anything else is the number of a word.
FORMATS = {pa.float64(): "d", pa.int64(): "q", pa.int32(): "i", pa.bool_(): "?"}
WORD = "i"
# From then on words are numbered anew with every batch: most of them come once.
WORDS_MAX = 65_536


class Words(dict[Hashable, int]):
    """The number of each word; a new word gets the next one."""

    def __missing__(self, word: Hashable) -> int:
        number = self[word] = len(self)
        return number


class Columns:
    """The rows of one table."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        formats = [FORMATS.get(field.type, WORD) for field in schema]
        record = Struct("=" + "".join(formats))
        self.kind = np.dtype(list(zip(schema.names, formats, strict=True)))
        self._rows = bytearray()
        # For hot paths, which do by hand what `add` does: append(pack(...)), with words[word].
        self.words = Words()
        self.lists = {f.name: Words() for f in schema if pa.types.is_list(f.type)}
        self._dictionaries = [self._dictionary(field) for field in schema]
        self.pack = record.pack
        self.append = self._rows.extend

    def _dictionary(self, field: pa.Field) -> Words | None:
        if field.type in FORMATS:
            return None
        return self.lists.get(field.name, self.words)

    def __len__(self) -> int:
        return len(self._rows) // self.kind.itemsize

    def add(self, row: Sequence[Any]) -> None:
        """A row, its values in the order of the schema."""
        pairs = zip(row, self._dictionaries, strict=True)
        self.append(
            self.pack(*(value if words is None else words[value] for value, words in pairs))
        )

    def take(self) -> Gathered:
        """The rows so far, which are no longer here."""
        gathered = Gathered(
            self.schema,
            np.frombuffer(bytes(self._rows), self.kind),
            list(self.words),
            {name: list(words) for name, words in self.lists.items()},
        )
        self._rows.clear()
        for words in (self.words, *self.lists.values()):
            if len(words) > WORDS_MAX:
                words.clear()
        return gathered


class Gathered(NamedTuple):
    """Rows of a table that nobody adds to any more: whoever has the time makes a table of them."""

    schema: pa.Schema
    records: NDArray[np.void]
    words: Sequence[Hashable]
    lists: Mapping[str, Sequence[Hashable]]

    def table(self) -> pa.Table:
        texts = pa.array(self.words, pa.string())
        columns = []
        for field in self.schema:
            values = np.ascontiguousarray(self.records[field.name])
            if field.type in FORMATS:
                columns.append(pa.array(values, field.type))
            else:
                lists = self.lists.get(field.name)
                known = texts if lists is None else pa.array(lists, field.type)
                columns.append(known.take(pa.array(values)))
        return pa.Table.from_arrays(columns, schema=self.schema)
