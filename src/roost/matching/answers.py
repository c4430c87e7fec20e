"""Room for the answers of batches, which is kept.

A batch may match millions of subscriptions. Fresh memory for each batch's answer would cost more than the
search: the system clears every page of it, and takes it back. So the room of the last answer is used
again, if nobody holds that answer any more.
"""

from __future__ import annotations

import sys

import numpy as np

from roost.matching.contract import Ids

# Larger room is not kept: 128 MB.
_KEPT_MAX = 1 << 24
# Who knows of room that is free: its owner, a variable here, and the question itself.
_OWN_REFERENCES = 3


class Room:
    """An array of ids for one answer at a time, as long as it is not held by anybody else."""

    def __init__(self) -> None:
        self._kept: Ids = np.empty(0, np.int64)

    def of(self, size: int) -> Ids:
        """At least `size` ids of room that no answer holds."""
        kept = self._kept
        if len(kept) >= size and sys.getrefcount(kept) <= _OWN_REFERENCES:
            return kept
        room = np.empty(size, np.int64)
        if size <= _KEPT_MAX:
            self._kept = room
        return room


def longer(room: Ids, used: int) -> Ids:
    """Twice the room, with what stands in it so far."""
    more = np.empty(2 * len(room), np.int64)
    more[:used] = room[:used]
    return more
