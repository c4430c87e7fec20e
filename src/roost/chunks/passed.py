"""What a chunk was, for those who watch: columns, and of each event that they want to see more its route."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roost.broker.hops import Hop, Link
from roost.broker.messages import Publication
from roost.broker.router import Flooding
from roost.chunks.kernels import layout as at
from roost.chunks.tables import Tables
from roost.wire.codec import publication_of

# (links, local hops, what each of these matched)
Way = tuple[list[Hop], list[Hop], list[tuple[str, ...]]]
# Ways that are remembered, of subscriptions as they are.
WAYS_MAX = 1 << 14


class Ways:
    """Where events go, by what the kernel has noted of them."""

    def __init__(self, tables: Tables, router: Flooding) -> None:
        self._tables, self._router = tables, router
        self._known: dict[bytes, Way] = {}
        self._version = -1

    def of(self, rows: NDArray[np.int64], more: NDArray[np.int64]) -> Way:
        """The way of these deliveries, of one event."""
        if self._version != self._tables.version or len(self._known) >= WAYS_MAX:
            self._known.clear()
            self._version = self._tables.version
        if (rows[:, at.D_MORE] >= 0).any():
            return self._worked_out(rows, more)
        key = rows[:, at.D_HOP : at.D_MORE].tobytes()
        way = self._known.get(key)
        if way is None:
            way = self._known[key] = self._worked_out(rows, more)
        return way

    def _worked_out(self, rows: NDArray[np.int64], more: NDArray[np.int64]) -> Way:
        links: list[Hop] = []
        local: list[Hop] = []
        matched: list[tuple[str, ...]] = []
        entry = self._router.entry
        for row in rows.tolist():
            hop = self._tables.hops[row[at.D_HOP]]
            assert hop is not None
            if isinstance(hop, Link):
                links.append(hop)
                continue
            handles = [row[at.D_ENTRY]]
            other = row[at.D_MORE]
            while other >= 0:
                handles.append(int(more[other * at.MORE + at.M_ENTRY]))
                other = int(more[other * at.MORE + at.M_NEXT])
            local.append(hop)
            matched.append(tuple(entry(handle).id for handle in handles))
        return links, local, matched


class Passed:
    """The events of a chunk (a `module.Passage`). What it says of ways is worked out at once."""

    def __init__(self, source: Hop, data: bytes, tables: Tables, ways: Ways) -> None:
        frame, view = tables.frame, tables.frame.view
        self.source = source
        self._data = data
        events = frame.array(at.EVENTS)[: view[at.EVENT_COUNT] * at.EVENT_ROW]
        self._events = events.reshape(-1, at.EVENT_ROW).copy()
        self._publishers = tables.publishers
        self.turns = np.flatnonzero(self._events[:, at.EV_SAME] == 0)
        rows = frame.array(at.DELIVERIES)[: view[at.DELIVERY_COUNT] * at.DELIVERY]
        rows = rows.reshape(-1, at.DELIVERY)
        first = self._events[self.turns, at.EV_DELIVERY]
        behind = np.append(self._events[:, at.EV_DELIVERY], len(rows))[self.turns + 1]
        more = frame.array(at.MORE_IDS)
        self.ways: list[Way] = [
            ways.of(rows[a:b], more) for a, b in zip(first.tolist(), behind.tolist(), strict=True)
        ]

    def __len__(self) -> int:
        return len(self._events)

    @property
    def publishers(self) -> tuple[list[str], NDArray[np.int64]]:
        """Their names, and for each event the place of its publisher's among them."""
        column = self._events[:, at.EV_PUBLISHER]
        if (column == column[0]).all():  # as most: what one client has sent at a time
            return [self._publishers[column[0]]], np.zeros(len(column), np.int64)
        numbers, places = np.unique(column, return_inverse=True)
        return [self._publishers[number] for number in numbers.tolist()], places

    @property
    def sequence(self) -> NDArray[np.int64]:
        return self._events[:, at.EV_SEQUENCE]

    @property
    def published_at(self) -> NDArray[np.float64]:
        times: NDArray[Any] = np.ascontiguousarray(self._events[:, at.EV_TIME])
        return times.view(np.float64)

    @property
    def bytes(self) -> NDArray[np.int64]:
        return self._events[:, at.EV_BYTES]

    @property
    def hops(self) -> NDArray[np.int64]:
        return self._events[:, at.EV_HOPS]

    def publication(self, event: int) -> Publication:
        place, size = self._events[event, : at.EV_HOPS].tolist()
        return publication_of(self._data[place : place + size])

    def way_of(self, event: int) -> Way:
        return self.ways[int(np.searchsorted(self.turns, event, "right")) - 1]
