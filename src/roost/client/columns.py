"""Events in columns: an Arrow table or record batch to be published, and events that came as one.

A row is an event, a column an attribute; a null is an attribute that the event does not have. Nothing
here is loaded unless an application hands in something of Arrow's, or asks for it: the plain client has
neither Arrow nor NumPy.

Frames are written straight from the columns (`kernels.writing`), and columns read straight from frames
(`bundling`, `columns_decoding`), without an object an event, where Numba is there too, which comes with
`roost[broker]`. Elsewhere, and where anything is unusual, the rows are dictionaries, as if they had been
handed in, or had come, as such.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from roost.errors import UserError
from roost.language import Value

if TYPE_CHECKING:
    import pyarrow as pa

    from roost.client.columns_encoding import Encoder


class Columns(Protocol):
    """An Arrow table or record batch, for whoever checks types without Arrow."""

    @property
    def num_rows(self) -> int: ...

    @property
    def schema(self) -> Any: ...

    def slice(self, offset: int, /) -> Columns: ...


def is_columns(events: object) -> bool:
    """Whether these are events in columns; Arrow is not loaded to find out."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(events, arrow.Table | arrow.RecordBatch)


def rows_of(events: Columns) -> Iterator[dict[str, Value]]:
    """The events one by one."""
    refuse_doubles(events.schema.names)
    batches: Any = events.to_batches() if hasattr(events, "to_batches") else [events]
    for batch in batches:
        lists = [column.to_pylist() for column in batch.columns]
        names = batch.schema.names
        for row in zip(*lists, strict=True) if lists else [()] * batch.num_rows:
            yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def refuse_doubles(names: Sequence[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"events: two columns are called {twice[0]!r}; expected one")


def encoder_of(events: Columns, size_max: int) -> Encoder | None:
    """What writes frames of these columns; None if they have to be looked at row by row."""
    if importlib.util.find_spec("numba") is None:
        return None
    from roost.client.columns_encoding import Encoder, Unusual  # noqa: PLC0415 (NumPy and Numba)

    try:
        return Encoder(events, size_max)
    except Unusual:
        return None


def reader_of_columns() -> Callable[[Sequence[Any]], pa.RecordBatch]:
    """What makes columns of events and of bundles of them."""
    from roost.client.columns_decoding import ColumnReader  # noqa: PLC0415 (NumPy and Numba)

    return ColumnReader().read


def as_columns(rows: Sequence[dict[str, Value]]) -> pa.RecordBatch:
    """Events that have come, a column an attribute.

    The type of a column is that of its values: bool, int64, float64 (also of ints among floats) or string. An
    attribute of several kinds becomes a column of texts.
    """
    import pyarrow as pa  # noqa: PLC0415 (asked for)

    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = []
    for name in names:
        values = [row.get(name) for row in rows]
        kinds = set(map(type, values)) - {type(None)}
        if kinds == {int, float}:
            floats = [None if value is None else float(value) for value in values]
            arrays.append(pa.array(floats, pa.float64()))
        elif len(kinds) == 1:
            arrays.append(pa.array(values, _type_of(pa, kinds.pop())))
        else:
            texts = [None if value is None else _text(value) for value in values]
            arrays.append(pa.array(texts, pa.string()))
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names)


def _type_of(arrow: Any, kind: type) -> pa.DataType:
    types = {bool: arrow.bool_, int: arrow.int64, float: arrow.float64, str: arrow.string}
    return types[kind]()


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
