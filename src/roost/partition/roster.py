"""A dispatcher's own subscriptions by number: what matchers call them, and whose each is.

An event may match hundreds. So a matcher answers a dispatcher with numbers of the dispatcher's own (*slots*),
as bytes that are an array, and here they become deliveries by way of arrays: all of an answer are sorted by
client at once, and get their names as bytes, as a frame has them (`WrittenIds`): an event that matches
hundreds touches no string.

A slot is used again. So whoever gets an answer says how much the matcher had `heard` when it was asked: a
slot that has changed since may have been of another subscription, and the one that has it now is looked at
again. That is done when an event is let go, not when its answer comes: subscriptions change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import msgpack
from numpy.typing import NDArray

from roost.broker.hops import Entry, Session
from roost.broker.written_ids import WrittenIds
from roost.language import Event
from roost.matching.kernels.gathering import MARK_BYTES, NAMES_MAX, gather_names
from roost.matching.kernels.grouping import group_by_owner
from roost.partition.notes import Found

FIRST_SIZE = 1_024
FIRST_WIDTH = 16
NOBODY = -1

_encode = msgpack.Encoder().encode


class Answer:
    """What a matcher has found for some events, and had heard of us when it was asked."""

    __slots__ = ("_ends", "_slots", "groups", "heard", "others")

    def __init__(self, found: Found, heard: int) -> None:
        self._ends = np.frombuffer(found.ends, np.uint32)
        self._slots = np.frombuffer(found.slots, np.uint32)
        self.heard = heard
        self.others = {
            name: (np.frombuffer(ends, np.uint32), ids)
            for name, (ends, ids) in found.others.items()
        }
        self.groups: Groups | None = None

    @property
    def arrays(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return self._slots, self._ends

    def slots(self, place: int) -> list[int]:
        """Those of one event."""
        first = int(self._ends[place - 1]) if place else 0
        slots: list[int] = self._slots[first : self._ends[place]].tolist()
        return slots

    def ids_elsewhere(self, place: int) -> list[tuple[str, tuple[str, ...]]]:
        """Of one event, by dispatcher."""
        found = []
        for name, (ends, ids) in self.others.items():
            its = ids[int(ends[place - 1]) if place else 0 : int(ends[place])]
            if its:
                found.append((name, its))
        return found


class Groups:
    """An answer, sorted by client; it is true as long as no subscription changes."""

    __slots__ = ("changed", "counts", "ends", "event_ends", "names", "number", "sessions")

    def __init__(
        self,
        number: int,
        names: bytes,
        ends: list[int],
        counts: list[int],
        sessions: list[Session],
        event_ends: list[int],
        changed: frozenset[int],
    ) -> None:
        self.number = number  # of the last change by then
        self.names = names  # of all groups, one behind the other; ...
        self.ends = ends  # ... where each ends, ...
        self.counts = counts  # ... and how many they are
        self.sessions = sessions
        self.event_ends = event_ends
        self.changed = changed  # events of which something has changed since the matcher was asked


class Roster:
    """All of one dispatcher. `entries`: what is subscribed now, by id."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._ids: NDArray[np.object_] = np.empty(FIRST_SIZE, object)
        # The same as MessagePack has them, a row each, and how much of the row.
        self._names = np.zeros((FIRST_SIZE, FIRST_WIDTH), np.uint8)
        self._widths = np.zeros(FIRST_SIZE, np.int64)
        self._owners = np.full(FIRST_SIZE, NOBODY, np.int64)  # places in `_sessions`
        self._changed_at = np.zeros(FIRST_SIZE, np.int64)
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._sessions: list[Session | None] = []
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
            self._widths = np.concatenate([self._widths, np.zeros(slot, np.int64)])
            self._names = np.concatenate([self._names, np.zeros_like(self._names)])
        assert isinstance(entry.hop, Session)
        self._slots[entry.id] = slot
        self._ids[slot] = entry.id
        self._owners[slot] = self._place(entry.hop)
        self._changed_at[slot] = number
        self._name(slot, _encode(entry.id))
        return slot

    def _name(self, slot: int, name: bytes) -> None:
        width = self._names.shape[1]
        if len(name) > width:
            more = np.zeros((len(self._names), max(width, len(name) - width)), np.uint8)
            self._names = np.concatenate([self._names, more], axis=1)
        self._names[slot, : len(name)] = np.frombuffer(name, np.uint8)
        self._widths[slot] = len(name)

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
            self._sessions[place[0]] = None
            self._free_places.append(place[0])

    def _place(self, session: Session) -> int:
        place = self._places.get(session)
        if place is None:
            if self._free_places:
                at = self._free_places.pop()
                self._sessions[at] = session
            else:
                at = len(self._sessions)
                self._sessions.append(session)
            place = self._places[session] = [at, 0]
        place[1] += 1
        return place[0]

    # --- answers ------------------------------------------------------------------------------------

    def receivers(self, answer: Answer, place: int, event: Event) -> dict[Session, Sequence[str]]:
        """The clients that an event is for, and the subscriptions of each, as of now."""
        groups = answer.groups
        if groups is None:
            groups = answer.groups = self._grouped(answer)
        if groups.number != self._number or place in groups.changed:
            return self._looked_up(answer, place, event)
        names, ends, counts, sessions = groups.names, groups.ends, groups.counts, groups.sessions
        last = groups.event_ends[place]
        first = groups.event_ends[place - 1] if place else 0
        if first == last:
            return {}
        at = ends[first - 1] if first else 0
        found: dict[Session, Sequence[str]] = {}
        for group in range(first, last):
            end = ends[group]
            found[sessions[group]] = WrittenIds(names[at:end], counts[group])
            at = end
        return found

    def _grouped(self, answer: Answer) -> Groups:
        slots, ends = answer.arrays
        grouped = np.empty_like(slots)
        owners, group_ends = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        event_ends = np.empty(len(ends), np.int64)
        seen = np.full(2 * len(self._sessions), NOBODY)
        count = group_by_owner(
            slots, ends, self._owners, seen, grouped, owners, group_ends, event_ends
        )
        group_ends = group_ends[:count]
        out = np.empty(int(self._widths[slots].sum()) + MARK_BYTES * count, np.uint8)
        ends_at = np.empty(count, np.int64)
        size = gather_names(grouped, group_ends, self._names, self._widths, out, ends_at)
        changed: frozenset[int] = frozenset()
        if self._number > answer.heard:
            late = np.flatnonzero(self._changed_at[slots] > answer.heard)
            changed = frozenset(np.searchsorted(ends, late, "right").tolist())
        counts = np.diff(group_ends, prepend=0)
        if (
            counts.size and counts.max() > NAMES_MAX
        ):  # looked up one by one: few will ever have so many
            many = np.flatnonzero(counts > NAMES_MAX)
            changed |= frozenset(np.searchsorted(event_ends, many, "right").tolist())
        return Groups(
            self._number,
            out[:size].tobytes(),
            ends_at.tolist(),
            counts.tolist(),
            [self._sessions[owner] for owner in owners[:count].tolist()],
            event_ends.tolist(),
            changed,
        )

    def _looked_up(self, answer: Answer, place: int, event: Event) -> dict[Session, Sequence[str]]:
        """The same, one by one."""
        found: dict[Session, list[str]] = {}
        for slot in answer.slots(place):
            id_ = self._ids[slot]
            if id_ is not None:
                entry = self._entries[id_]
                if self._changed_at[slot] <= answer.heard or entry.interest.matches(event):
                    found.setdefault(entry.hop, []).append(id_)  # type: ignore[arg-type]
        return {session: tuple(its) for session, its in found.items()}


@cache
def warm_up() -> None:
    """Have the kernel loaded, and compiled where it never has been, before the first event comes."""
    Roster({}).receivers(Answer(Found("", 0, None, bytes(4), b""), 0), 0, Event({}))
