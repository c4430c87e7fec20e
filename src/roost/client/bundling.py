"""Deliveries taken by the hundred: from the bytes of a read to a bundle, without an object an event.

Frames that `arriving` would take one by one, for one subscription that has room for them, are looked at by
a kernel. What the machine would have noted of each is noted of all: the number of the last frame, and of the
last event of each publisher. An acknowledgement that would have been due in their midst goes behind the last.
Nothing is taken that is not in order or not new: the other ways see to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roost.client.bundle import Bundle
from roost.client.kernels import reading as kernel

if TYPE_CHECKING:
    from roost.client.inbox import Inbox
    from roost.client.line import Lookup

# So many at a time, at most; the notes of them are some hundred kilobytes.
EVENTS_MAX: Final = 4_096
# Fewer are taken one by one: to note them costs as much.
FEW: Final = 8


class Bundling:
    """Takes bundles for the machine of a line."""

    def __init__(
        self,
        machine: Lookup,
        inbox: Callable[[tuple[str, ...] | None], Inbox[Any] | None],
        noted: Callable[[int], None],
    ) -> None:
        self._machine = machine
        self._inbox = inbox
        self._noted = (
            noted  # deliveries were noted on a connection, and an acknowledgement may be due
        )
        self._notes = np.zeros(kernel.EVENTS + kernel.EVENT * EVENTS_MAX, np.int64)
        self._repeats = b""  # a read in which something came that was not new
        # Compiled, or read from disk, before anything waits for it.
        kernel.note_frames(bytes(32), 0, 0, 0, self._notes)

    def take(
        self, connection: int, data: bytes, at: int, id_at: Callable[[bytes, int], str | None]
    ) -> int:
        """Take what stands there for one subscription; where the rest begins.

        `id_at` says for which subscription a frame is, if it is just one.
        """
        machine, notes = self._machine, self._notes
        home = machine.home
        if data is self._repeats:
            return at
        id_ = id_at(data, at)
        inbox = None if id_ is None else self._inbox(home.names.get(id_))
        room = 0 if inbox is None else min(inbox.room_at_once, EVENTS_MAX)
        if inbox is None or room < FEW:
            return at
        lane, seen = home.channel.data, machine.seen
        number = lane.received + 1
        count = kernel.note_frames(data, at, number, room, notes)
        if count < FEW:
            return at
        end = kernel.ROWS + kernel.PUBLISHER * int(notes[kernel.PUBLISHERS])
        last: dict[str, int] = {}
        for row in notes[kernel.ROWS : end].reshape(-1, kernel.PUBLISHER).tolist():
            publisher = data[row[kernel.NAME] : row[kernel.NAME] + row[kernel.NAME_SIZE]].decode()
            if row[kernel.FIRST] <= seen.get(publisher, 0):
                self._repeats = data
                return at
            last[publisher] = row[kernel.LAST]
        stop = int(notes[kernel.STOP])
        seen.update(last)
        lane.received = number + count - 1
        # Bytes of its own: the rest of the read does not have to stay for as long as this.
        events = notes[kernel.EVENTS : kernel.EVENTS + kernel.EVENT * count] - at
        begins, maps, ends = np.ascontiguousarray(events.reshape(count, kernel.EVENT).T)
        inbox.put_bundle(Bundle(data[at:stop], begins, maps, ends))
        if lane.received >= home.quiet_until:
            self._noted(connection)
        return stop
