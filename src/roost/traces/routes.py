"""Where publications came from and went to, by number: most go a way that others went before them.

What a route says of all its publications is worked out once, in the columns that a table is taken from. The
routes are names; no hop is held on to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.traces.columns import Words
from roost.traces.rows import Names, Reached
from roost.traces.schemas import SCHEMAS

SCHEMA = SCHEMAS["deliveries"]


class Route(NamedTuple):
    """Where a publication came from and went to."""

    source: str
    from_client: bool
    hop: int
    neighbours: Names
    clients: Reached


class RouteColumns(NamedTuple):
    """A row for each route; words are numbers of a dictionary."""

    rows: int
    sources: Sequence[object]
    source: NDArray[np.int32]  # which of these
    from_client: NDArray[np.bool_]
    hop: NDArray[np.int32]
    forwarded: NDArray[np.int32]
    local_subscribers: NDArray[np.int32]
    neighbours: pa.Array
    clients: pa.Array


class Routes:
    """Routes that are numbered as they come, and never forgotten."""

    def __init__(self) -> None:
        self._numbers: dict[Route, int] = {}
        self._known: list[Route] = []
        self._columns: RouteColumns | None = None

    def number(self, route: Route) -> int:
        number = self._numbers.setdefault(route, len(self._known))
        if number == len(self._known):
            self._known.append(route)
        return number

    def __getitem__(self, number: int) -> Route:
        return self._known[number]

    def __len__(self) -> int:
        return len(self._known)

    def columns(self, count: int) -> RouteColumns:
        """Of so many routes, at least; whoever else adds to them meanwhile does no harm."""
        columns = self._columns
        if columns is None or columns.rows < count:
            columns = self._columns = columns_of(self._known[: len(self._known)])
        return columns


def columns_of(routes: Sequence[Route]) -> RouteColumns:
    sources = Words()
    source = np.fromiter((sources[each.source] for each in routes), np.int32, len(routes))
    lists = {
        name: _numbered(pa.array([getattr(each, name) for each in routes], SCHEMA.field(name).type))
        for name in ("neighbours", "clients")
    }
    return RouteColumns(
        rows=len(routes),
        sources=list(sources),
        source=source,
        from_client=np.array([each.from_client for each in routes], np.bool_),
        hop=np.array([each.hop for each in routes], np.int32),
        forwarded=np.array([len(each.neighbours) for each in routes], np.int32),
        local_subscribers=np.array([len(each.clients) for each in routes], np.int32),
        **lists,
    )


def _numbered(values: pa.Array) -> pa.Array:
    """Lists with numbers for words: what is taken from them are numbers then, and no texts are copied."""
    if values.type == pa.string():
        return values.dictionary_encode()
    if pa.types.is_list(values.type):
        return pa.ListArray.from_arrays(values.offsets, _numbered(values.values))
    if pa.types.is_struct(values.type):
        inner = [_numbered(values.field(place)) for place in range(values.type.num_fields)]
        return pa.StructArray.from_arrays(inner, [field.name for field in values.type])
    return values


def taken(values: pa.Array, rows: NDArray[np.integer[Any]]) -> pa.Array:
    """`values.take(rows)`, in less time where all lists are as long as each other, as they mostly are."""
    return _blocks(values, rows, 1)


def _blocks(values: pa.Array, rows: NDArray[np.integer[Any]], size: int) -> pa.Array:
    """Of values that come in blocks of one size, these blocks: of numbers a row of a matrix each.

    So there is no list of the place of each single value, which would be larger than all that is taken.
    """
    if pa.types.is_dictionary(values.type):
        codes = values.indices.to_numpy()
        chosen = codes.reshape(-1, size).take(rows, axis=0).ravel() if size else codes[:0]
        # These numbers are known to be in the dictionary.
        return pa.DictionaryArray.from_arrays(pa.array(chosen), values.dictionary, safe=False)
    if pa.types.is_struct(values.type):
        inner = [
            _blocks(values.field(place), rows, size) for place in range(values.type.num_fields)
        ]
        return pa.StructArray.from_arrays(inner, [field.name for field in values.type])
    starts = values.offsets.to_numpy()
    lengths = np.diff(starts)
    length = int(lengths[0]) if len(lengths) else 0
    if (lengths != length).any():
        each = size * rows[:, None] + np.arange(size, dtype=rows.dtype)
        return values.take(pa.array(each.ravel()))
    offsets = length * np.arange(len(rows) * size + 1, dtype=np.int32)
    content = values.values[starts[0] : starts[-1]]
    return pa.ListArray.from_arrays(pa.array(offsets), _blocks(content, rows, size * length))
