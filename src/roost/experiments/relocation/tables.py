"""The trace of a run as arrays: names as numbers, and of counters what was added between two times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roost.traces.reader import read_table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Visits(NamedTuple):
    """The table `deliveries`: a row for every broker that a publication visits."""

    time: Floats
    publisher: Ints  # a position in `publishers`
    sequence: Ints
    broker: Ints  # a position in `Tables.brokers`
    hop: Ints
    local: Ints  # subscribers there that got it
    age_s: Floats  # until it was matched there
    publishers: tuple[str, ...]

    def where(self, mask: NDArray[np.bool_]) -> Visits:
        """Some of the rows."""
        columns = {name: getattr(self, name)[mask] for name in self._fields if name != "publishers"}
        return self._replace(**columns)


class Loads(NamedTuple):
    """The table `loads`: one sample a time and broker, as arrays of times by brokers."""

    times: Floats
    by_name: Mapping[str, Floats]

    def between(self, name: str, start: float, end: float) -> Floats:
        """The samples of periods that lie in (start, end]."""
        return self.by_name[name][(self.times > start) & (self.times <= end)]


class Counters(NamedTuple):
    """The table `links`: what each broker has received of each neighbour so far, by class.

    A row is only written when something has changed, so that a count holds until the next one.
    """

    time: Floats
    step: Ints  # what was received since the row before

    def received(self, start: float, end: float) -> int:
        """Messages that brokers received of brokers in (start, end]."""
        return int(self.step[(self.time > start) & (self.time <= end)].sum())


class Tables(NamedTuple):
    """A run."""

    brokers: tuple[str, ...]
    visits: Visits
    loads: Loads
    counters: Counters
    decisions: list[dict[str, Any]]


def read_tables(paths: Mapping[str, Path], brokers: tuple[str, ...]) -> Tables:
    """The trace of a run of these brokers, all of which were up from the first sample on."""
    return tables_of({name: read_table(path) for name, path in paths.items()}, brokers)


def tables_of(tables: Mapping[str, pa.Table], brokers: tuple[str, ...]) -> Tables:
    """The same, from tables that have been read."""
    return Tables(
        brokers=brokers,
        visits=_visits(tables["deliveries"], brokers),
        loads=_loads(tables["loads"], brokers),
        counters=_counters(tables["links"]),
        decisions=tables["decisions"].to_pylist(),
    )


def _visits(table: pa.Table, brokers: tuple[str, ...]) -> Visits:
    publishers = tuple(sorted(table["publisher"].unique().to_pylist()))
    return Visits(
        time=_floats(table["time"]),
        publisher=_positions(table["publisher"], publishers),
        sequence=_ints(table["sequence"]),
        broker=_positions(table["broker"], brokers),
        hop=_ints(table["hop"]),
        local=_ints(table["local_subscribers"]),
        age_s=_floats(table["age_s"]),
        publishers=publishers,
    )


def _loads(table: pa.Table, brokers: tuple[str, ...]) -> Loads:
    times, rows = np.unique(_floats(table["time"]), return_inverse=True)
    columns = _positions(table["broker"], brokers)
    by_name = {}
    for field in table.schema:
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type):
            grid = np.zeros((len(times), len(brokers)))
            grid[rows, columns] = _floats(table[field.name])
            by_name[field.name] = grid
    return Loads(times, by_name)


def _counters(table: pa.Table) -> Counters:
    ways = zip(*(table[name].to_pylist() for name in ("broker", "neighbour", "class")), strict=True)
    before: dict[tuple[str, ...], int] = {}
    received = table["received"].to_pylist()
    step = np.zeros(len(received), np.int64)
    for row, (way, count) in enumerate(zip(ways, received, strict=True)):
        step[row] = count - before.get(way, 0)
        before[way] = count
    return Counters(_floats(table["time"]), step)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.to_numpy(), np.float64)


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), np.int64)


def _positions(column: pa.ChunkedArray, names: tuple[str, ...]) -> Ints:
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    position = {name: i for i, name in enumerate(names)}
    of_word = np.array([position[word] for word in encoded.dictionary.to_pylist()], np.int64)
    return of_word[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)]
