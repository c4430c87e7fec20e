"""An index as kernels see it, that read events from their bytes: one array that says where everything is.

A kernel that matches (`kernels.reading.match_span`) is handed such a frame. The frame of a `Spans`
stays where it is for as long as the reading lives, so that another kernel may keep its address; what it
says is brought up to date by `ready`, which has to be called between a change of the index and the next
use of the frame. That costs nothing where nothing has changed.
"""

from __future__ import annotations

import msgspec
import numpy as np

from roost.errors import UserError
from roost.language import Event
from roost.matching.kernels import reading, search
from roost.matching.kernels.grid_search import OVERRUN
from roost.matching.kernels.heap import ROWS, Cells
from roost.matching.kernels.octets import Octets
from roost.matching.store import Store

# How many ids the room for answers has beyond those that one event may match.
_ANSWERS = 1 << 14


class Odds:
    """The keys of an index's own, by which kernels turn them into ids (see `kernels.reading`)."""

    def __init__(self) -> None:
        self.rows: Cells = np.zeros(0, np.int64)
        self._free: list[int] = []
        self._count = 0

    def new_key(self) -> int:
        """A key that is not in use."""
        if self._free:
            return self._free.pop()
        self._count += 1
        return -self._count

    def put(self, id_: int, keys: list[int], compared: list[bool]) -> None:
        """These keys are of the subscription of that id; some have to be compared exactly."""
        while reading.ODD * self._count > len(self.rows):
            more = np.zeros(max(16 * reading.ODD, len(self.rows)), np.int64)
            self.rows = np.concatenate([self.rows, more])
        head = reading.ODD * (-1 - keys[0])
        for key, exactly in zip(keys, compared, strict=True):
            row = reading.ODD * (-1 - key)
            self.rows[row + reading.ODD_ID] = id_
            self.rows[row + reading.ODD_HEAD] = head
            self.rows[row + reading.ODD_COMPARED] = exactly

    def release(self, key: int) -> None:
        """A key that is not in use any more."""
        self._free.append(key)


class Spans:
    """The frame of an index, with room for the answers of kernels."""

    def __init__(self, store: Store, odds: Odds) -> None:
        self._store = store
        self._odds = odds
        self.frame: Cells = np.zeros(reading.FRAME, np.int64)
        self.out: Cells = np.empty(0, np.int64)
        self._event: Cells = np.empty(0, np.int64)
        self.revision = -1  # of the store, when the frame was brought up to date

    def ready(self, used: int = 0) -> int:
        """Bring the frame up to date; where the answers to the next event may begin.

        If `used` ids of the room are taken and the rest might not do, there is new room; answers that were
        given out keep the old one.
        """
        store = self._store
        room = int(store.cells[ROWS]) + OVERRUN
        if len(self.out) - used >= room and self.revision == store.revision:
            return used
        if len(self.out) - used < room:
            self.out, used = np.empty(room + max(room // 4, _ANSWERS), np.int64), 0
        lexicon = store.lexicon
        if len(self._event) != search.NUMBERS + store.slot_count:
            self._event = new_event(store.slot_count)
        self._put(search.CELLS, store.cells)
        self._put(search.DIRECTORY, store.directory)
        self._put(search.EVENT, self._event)
        self._put(search.OUT, self.out)
        self._put(reading.TABLE, lexicon.table)
        self._put(reading.STORE, lexicon.store)
        self._put(reading.SPANS, lexicon.spans)
        self._put(reading.SLOTS, lexicon.slots)
        self._put(reading.ODDS, self._odds.rows)
        self.revision = store.revision
        return used

    def answer_in(self, out: Cells) -> None:
        """Put the answers from now on into this room."""
        self.out, self.revision = out, -1
        self.ready()

    def _put(self, place: int, array: Cells | Octets) -> None:
        self.frame[place], self.frame[place + 1] = array.ctypes.data, len(array)


def new_event(slots: int) -> Cells:
    """Room for the tokens of an event and for its numbers, which are not there yet."""
    event = np.zeros(search.NUMBERS + slots, np.int64)
    event.view(np.float64)[search.NUMBERS :] = np.nan
    return event


_decode = msgspec.msgpack.Decoder(dict[str, bool | int | float | str]).decode


def event_of(octets: bytes) -> Event:
    """The event whose attributes these bytes are; UserError if they are none."""
    try:
        return Event(_decode(octets))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as bad:
        raise UserError(
            f"the bytes are no event: {bad}; expected a MessagePack map of names to bools, numbers and"
            " strings"
        ) from None
