"""A dispatcher's own subscriptions by number: what matchers call them, and whose each is.

An event may match hundreds. So a matcher answers a dispatcher with numbers of the dispatcher's own (*slots*),
as bytes that are an array. Here those of many events are sorted by client at once (`groups`), and their names
stand in a table of bytes, as a frame has them: see `bundles`. For an event by itself there is the obvious way
(`receivers`).

A slot is used again. So whoever gets an answer says how much the matcher had `heard` when it was asked: a
slot that has changed since may have been of another subscription, and the one that has it now is looked at
again. That is done when an event is let go, not when its answer comes: subscriptions change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import msgpack
from numpy.typing import NDArray

from roost.broker.hops import Entry, Session
from roost.language import Event
from roost.partition.kernels.grouping import group_by_owner
from roost.partition.notes import Found

FIRST_SIZE = 1_024
FIRST_WIDTH = 16
NOBODY = -1

_encode = msgpack.Encoder().encode


class Answer:
    """What a matcher has found for some events, and had heard of us when it was asked."""

    __slots__ = ("_ends", "_slots", "heard", "others")

    def __init__(self, found: Found, heard: int) -> None:
        self._ends: list[int] = np.frombuffer(found.ends, np.uint32).tolist()
        self._slots = np.frombuffer(found.slots, np.uint32)
        self.heard = heard
        self.others = {
            name: (np.frombuffer(ends, np.uint32), ids)
            for name, (ends, ids) in found.others.items()
        }

    def slots(self, place: int) -> NDArray[np.uint32]:
        """Those of one event."""
        return self._slots[self._ends[place - 1] if place else 0 : self._ends[place]]

    def ids_elsewhere(self, place: int) -> list[tuple[str, tuple[str, ...]]]:
        """Of one event, by dispatcher."""
        found = []
        for name, (ends, ids) in self.others.items():
            its = ids[int(ends[place - 1]) if place else 0 : int(ends[place])]
            if its:
                found.append((name, its))
        return found


class Groups(NamedTuple):
    """What some events match, sorted by client: see `kernels.grouping`."""

    slots: NDArray[np.uint32]
    ends: NDArray[np.int64]
    owners: NDArray[np.int64]
    event_ends: NDArray[np.int64]
    changed: list[int]  # events of which something has changed since the matcher was asked


class Roster:
    """All of one dispatcher. `entries`: what is subscribed now, by id."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._ids: NDArray[np.object_] = np.empty(FIRST_SIZE, object)
        # The same as MessagePack has them, a row each, and how much of the row.
        self.names = np.zeros((FIRST_SIZE, FIRST_WIDTH), np.uint8)
        self.widths = np.zeros(FIRST_SIZE, np.int64)
        self._owners = np.full(FIRST_SIZE, NOBODY, np.int64)  # places in `sessions`
        self._changed_at = np.zeros(FIRST_SIZE, np.int64)
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self.sessions: list[Session | None] = []
        self._places: dict[Session, list[int]] = {}  # its place, and how many it has
        self._free_places: list[int] = []
        self._number = 0

    def add(self, entry: Entry, number: int) -> int:
        """A subscription is there from this change on; its slot."""
        self._number = number
        slot = self._free.pop() if self._free else len(self._slots)
        if slot == len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty(slot, object)])
            self._owners = np.concatenate([self._owners, np.full(slot, NOBODY, np.int64)])
            self._changed_at = np.concatenate([self._changed_at, np.zeros(slot, np.int64)])
            self.widths = np.concatenate([self.widths, np.zeros(slot, np.int64)])
            self.names = np.concatenate([self.names, np.zeros_like(self.names)])
        assert isinstance(entry.hop, Session)
        self._slots[entry.id] = slot
        self._ids[slot] = entry.id
        self._owners[slot] = self._place(entry.hop)
        self._changed_at[slot] = number
        self._name(slot, _encode(entry.id))
        return slot

    def _name(self, slot: int, name: bytes) -> None:
        width = self.names.shape[1]
        if len(name) > width:
            more = np.zeros((len(self.names), max(width, len(name) - width)), np.uint8)
            self.names = np.concatenate([self.names, more], axis=1)
        self.names[slot, : len(name)] = np.frombuffer(name, np.uint8)
        self.widths[slot] = len(name)

    def remove(self, entry: Entry, number: int) -> None:
        """It is not, from this change on."""
        self._number = number
        slot = self._slots.pop(entry.id)
        self._free.append(slot)
        self._ids[slot] = None
        self._owners[slot] = NOBODY
        self._changed_at[slot] = number
        assert isinstance(entry.hop, Session)
        place = self._places[entry.hop]
        place[1] -= 1
        if not place[1]:
            del self._places[entry.hop]
            self.sessions[place[0]] = None
            self._free_places.append(place[0])

    def _place(self, session: Session) -> int:
        place = self._places.get(session)
        if place is None:
            if self._free_places:
                at = self._free_places.pop()
                self.sessions[at] = session
            else:
                at = len(self.sessions)
                self.sessions.append(session)
            place = self._places[session] = [at, 0]
        place[1] += 1
        return place[0]

    # --- answers ------------------------------------------------------------------------------------

    def groups(self, some: Sequence[tuple[Answer, int]]) -> Groups:
        """What events match, each in its place of an answer, by client."""
        parts = [answer.slots(place) for answer, place in some]
        slots = np.concatenate(parts)
        ends = np.cumsum([len(part) for part in parts], dtype=np.uint32)
        grouped = np.empty_like(slots)
        owners, group_ends = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        event_ends = np.empty(len(ends), np.int64)
        seen = np.full(2 * len(self.sessions), NOBODY)
        count = group_by_owner(
            slots, ends, self._owners, seen, grouped, owners, group_ends, event_ends
        )
        changed: list[int] = []
        if any(answer.heard < self._number for answer, _ in some):
            heard = np.repeat([answer.heard for answer, _ in some], list(map(len, parts)))
            late = np.flatnonzero(self._changed_at[slots] > heard)
            changed = np.unique(np.searchsorted(ends, late, "right")).tolist()
        return Groups(grouped, group_ends[:count], owners[:count], event_ends, changed)

    def receivers(self, answer: Answer, place: int, event: Event) -> dict[Session, tuple[str, ...]]:
        """The clients that one event is for, and the subscriptions of each, as of now."""
        found: dict[Session, list[str]] = {}
        slots = answer.slots(place)
        changed = (self._changed_at[slots] > answer.heard).tolist()
        for id_, has_changed in zip(self._ids[slots].tolist(), changed, strict=True):
            if id_ is not None:
                entry = self._entries[id_]
                if not has_changed or entry.interest.matches(event):
                    found.setdefault(entry.hop, []).append(id_)  # type: ignore[arg-type]
        return {session: tuple(its) for session, its in found.items()}
