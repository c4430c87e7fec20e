"""Rows gathered for a table: packed one behind the other, words as numbers of a dictionary.

To hand rows of Python objects to Arrow costs 5 microseconds a row, as much as routing a publication. To pack
a row into bytes is one call, and NumPy takes the columns out of the packed rows all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

# How a value of each Arrow type is packed; a string is the number of a word.
FORMATS = {pa.float64(): "d", pa.int64(): "q", pa.int32(): "i", pa.bool_(): "?", pa.string(): "i"}
# From then on words are numbered anew with every batch: most of them come once.
WORDS_MAX = 65_536


class Words(dict[str, int]):
    """The number of each word; a new word gets the next one."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


class Columns:
    """The rows of one table."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        formats = [FORMATS[field.type] for field in schema]
        record = Struct("=" + "".join(formats))
        self._kind = np.dtype(list(zip(schema.names, formats, strict=True)))
        self._rows = bytearray()
        self._are_words = [field.type == pa.string() for field in schema]
        # For hot paths, which do by hand what `add` does: append(pack(...)), with words[word].
        self.words = Words()
        self.pack = record.pack
        self.append = self._rows.extend

    def __len__(self) -> int:
        return len(self._rows) // self._kind.itemsize

    def add(self, row: Sequence[Any]) -> None:
        """A row, its values in the order of the schema."""
        words = self.words
        pairs = zip(row, self._are_words, strict=True)
        self.append(self.pack(*(words[value] if is_word else value for value, is_word in pairs)))

    def take(self) -> pa.Table:
        """The rows so far, which are no longer here."""
        records = np.frombuffer(bytes(self._rows), self._kind)
        words = pa.array(self.words, pa.string())
        columns = []
        for field, is_word in zip(self.schema, self._are_words, strict=True):
            values = np.ascontiguousarray(records[field.name])
            if is_word:
                columns.append(pa.DictionaryArray.from_arrays(values, words).cast(pa.string()))
            else:
                columns.append(pa.array(values, field.type))
        self._rows.clear()
        if len(self.words) > WORDS_MAX:
            self.words.clear()
        return pa.Table.from_arrays(columns, schema=self.schema)
