"""Events as columns: how many of them travel in one note, and are matched at once.

Events of one publisher mostly have the same attributes, of the same kinds. Then an attribute is a column:
numbers are eight bytes each, and go from a dispatcher to the kernels of a matcher without becoming objects
on the way. Where events differ, each goes as it is (`rows`), which costs time and nothing else.

An int that a float equals is as good as that float: the language has one line of numbers. Others, and bools,
which are no numbers, go in rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roost.language import Event, Value
from roost.language.values import EXACT_INT
from roost.matching import Ids, Index
from roost.partition.dimensions import Dimension

Numbers: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]
# By dimension, then by event: coordinates, NaN where an event has none.
Points: TypeAlias = NDArray[np.float64]

# A character takes no more.
CHARACTER_BYTES = 4

_encode = msgspec.msgpack.Encoder().encode


class Written(Struct, frozen=True, array_like=True):
    """A batch as it stands in a note."""

    count: int
    numbers: tuple[tuple[str, bytes], ...] = ()
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rows: tuple[dict[str, Value], ...] = ()  # in place of columns


class Batch:
    """Some events."""

    __slots__ = ("_numbers", "_rows", "_words", "count")

    def __init__(
        self,
        count: int,
        numbers: Mapping[str, Numbers],
        words: Mapping[str, Sequence[str]],
        rows: Sequence[dict[str, Value]],
    ) -> None:
        self.count = count
        self._numbers = numbers
        self._words = words
        self._rows = rows

    @classmethod
    def of(cls, events: Sequence[dict[str, Value]]) -> Batch:
        """From attributes, in columns if all events have the same."""
        names = events[0].keys()
        numbers: dict[str, Numbers] = {}
        words: dict[str, Sequence[str]] = {}
        if all(event.keys() == names for event in events):
            for name in names:
                column = [event[name] for event in events]
                kinds = set(map(type, column))
                if kinds == {str}:
                    words[name] = column  # type: ignore[assignment]
                elif kinds == {float} or (kinds <= {float, int} and _are_exact(column)):
                    numbers[name] = np.array(column, np.float64)
            if len(numbers) + len(words) == len(names):
                return cls(len(events), numbers, words, ())
        return cls(len(events), {}, {}, events)

    @classmethod
    def read(cls, written: Written) -> Batch:
        """As it came."""
        numbers = {name: np.frombuffer(column, np.float64) for name, column in written.numbers}
        return cls(written.count, numbers, dict(written.words), written.rows)

    def written(self) -> Written:
        return Written(
            self.count,
            tuple((name, column.tobytes()) for name, column in self._numbers.items()),
            tuple((name, tuple(column)) for name, column in self._words.items()),
            tuple(self._rows),
        )

    def size(self) -> int:
        """About how many bytes that is, and no fewer."""
        size = 8 * self.count * len(self._numbers) + len(_encode(self._rows))
        for column in self._words.values():
            size += CHARACTER_BYTES * sum(map(len, column)) + 5 * self.count
        return size

    def take(self, places: Places) -> Batch:
        """Those at these places."""
        some = places.tolist() if self._words or self._rows else ()
        return Batch(
            len(places),
            {name: column[places] for name, column in self._numbers.items()},
            {name: [column[place] for place in some] for name, column in self._words.items()},
            [self._rows[place] for place in some] if self._rows else (),
        )

    def points(self, dimensions: Sequence[Dimension]) -> Points:
        """Where the events are."""
        points = np.full((len(dimensions), self.count), np.nan)
        for place, dimension in enumerate(dimensions):
            name = dimension.attribute
            if name in self._numbers:
                # As `Dimension.coordinate` has it: what is infinite is at the last before.
                points[place] = np.minimum(self._numbers[name], sys.float_info.max)
                continue
            values: Sequence[Value | None] = self._words.get(name, ())
            if not values:
                values = [row.get(name) for row in self._rows]
            for event, value in enumerate(values):
                coordinate = None if value is None else dimension.coordinate(value)
                if coordinate is not None:
                    points[place, event] = coordinate
        return points

    def match(self, index: Index) -> tuple[Ids, Ids]:
        """(offsets, ids), as an index says it."""
        if self._rows:
            return index.match_batch([Event.trusted(row) for row in self._rows])
        if self._words:
            return index.match_batch({**self._numbers, **self._words})
        return index.match_numbers(self._numbers, self.count)


def _are_exact(column: Sequence[Value]) -> bool:
    """Whether of these numbers a float equals each."""
    return all(type(v) is float or -EXACT_INT <= v <= EXACT_INT for v in column)  # type: ignore[operator]
