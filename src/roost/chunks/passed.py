"""What a chunk was, for those who watch: columns, and the way of each event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roost.broker.hops import Hop, Link, Session
from roost.broker.messages import Publication
from roost.broker.module import Way
from roost.broker.router import Flooding
from roost.chunks.kernels import layout as at
from roost.chunks.tables import EVENTS_MAX, Tables
from roost.wire.codec import publication_of

# Ways that are remembered, and room in their table for those of one more chunk, and as many again.
WAYS_MAX = 1 << 14
SLOTS = 1 << 16


class Ways:
    """The ways that events have gone since subscriptions last changed, by the numbers that the kernel gives.

    Most events go a way that others went before them: so what a way is, is worked out once.
    """

    def __init__(self, tables: Tables, router: Flooding) -> None:
        self._tables, self._router = tables, router
        self._frame = tables.frame
        self._frame.new(at.WAYS, SLOTS * at.WAY_ROW)
        self._new = self._frame.new(at.NEW_WAYS, EVENTS_MAX)
        self._version = -1
        self.known: list[Way] = []
        self.epoch = 0

    def begin(self) -> None:
        """Before a chunk is read that somebody watches."""
        view = self._frame.view
        # What was read and then left to the machine has numbered ways, too.
        as_noted = view[at.WAY_COUNT] == len(self.known)
        if as_noted and self._version == self._tables.version and len(self.known) < WAYS_MAX:
            return
        self._version = self._tables.version
        self.known = []  # another list: the one before belongs to those who hold it
        self.epoch += 1
        view[at.WAY_EPOCH], view[at.WAY_COUNT] = self.epoch, 0

    def learn(self) -> None:
        """What the ways are that are new, behind the chunk that has brought them."""
        view, known = self._frame.view, self.known
        count = view[at.WAY_COUNT] - len(known)
        if not count:
            return
        events = self._frame.array(at.EVENTS)
        rows = self._frame.array(at.DELIVERIES).reshape(-1, at.DELIVERY)
        more = self._frame.array(at.MORE_IDS)
        last = view[at.EVENT_COUNT] - 1
        for event in self._new[:count].tolist():
            row = event * at.EVENT_ROW
            first = events[row + at.EV_DELIVERY]
            behind = events[row + at.EVENT_ROW + at.EV_DELIVERY] if event < last else None
            end = view[at.DELIVERY_COUNT] if behind is None else behind
            known.append(self._worked_out(int(events[row + at.EV_HOPS]), rows[first:end], more))

    def _worked_out(self, hops: int, rows: NDArray[np.int64], more: NDArray[np.int64]) -> Way:
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
        return Way(hops, links, local, matched)


class Passed:
    """The events of a chunk (a `module.Passage`), as noted by the first pass, until it reads the next one."""

    def __init__(self, source: Hop, data: bytes, tables: Tables, ways: Ways) -> None:
        frame, view = tables.frame, tables.frame.view
        self.source = source
        self._data = data
        events = frame.array(at.EVENTS)[: view[at.EVENT_COUNT] * at.EVENT_ROW]
        self._events = events.reshape(-1, at.EVENT_ROW)
        self._publishers = tables.publishers
        self.ways: Sequence[Way] = ways.known
        self.epoch = ways.epoch

    def __len__(self) -> int:
        return len(self._events)

    @property
    def way(self) -> NDArray[np.int64]:
        return self._events[:, at.EV_WAY]

    @property
    def publishers(self) -> tuple[list[str], NDArray[np.int64]]:
        """Their names, and for each event the place of its publisher's among them."""
        if isinstance(self.source, Session):  # which publishes under one name
            return [self.source.publisher], np.zeros(len(self), np.int64)
        column = self._events[:, at.EV_PUBLISHER]
        numbers, places = np.unique(column, return_inverse=True)
        return [self._publishers[number] for number in numbers.tolist()], places

    @property
    def sequence(self) -> NDArray[np.int64]:
        return self._events[:, at.EV_SEQUENCE]

    @property
    def published_at(self) -> NDArray[np.float64]:
        times: NDArray[Any] = self._events[:, at.EV_TIME]
        return times.view(np.float64)

    @property
    def bytes(self) -> NDArray[np.int64]:
        return self._events[:, at.EV_BYTES]

    def publication(self, event: int) -> Publication:
        place, size = self._events[event, : at.EV_HOPS].tolist()
        return publication_of(self._data[place : place + size])
