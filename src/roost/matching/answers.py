"""Room for the answers of batches, which is kept.

A batch may match millions of subscriptions. Fresh memory for each batch's answer would cost more than the
search: the system clears every page of it, and takes it back. So the room of an earlier answer is used
again, if nobody holds that answer any more.
"""

from __future__ import annotations

import sys

import numpy as np

from roost.matching.contract import Ids

# Larger room is not kept: 128 MB.
_KEPT_MAX = 1 << 24
# Who knows of room that is free: where it is kept, a variable here, and the question itself.
_OWN_REFERENCES = 3


class Room:
    """Two arrays of ids, each for one answer at a time, as long as it is not held by anybody else.

    Two, because of a loop over batches: `offsets, ids = index.match_batch(batch)` holds the last answer
    until it has the next one.
    """

    def __init__(self) -> None:
        self._kept: list[Ids] = []

    def of(self, size: int) -> Ids:
        """At least `size` ids of room that no answer holds."""
        too_small = -1
        for place in range(len(self._kept)):
            kept = self._kept[place]
            if sys.getrefcount(kept) <= _OWN_REFERENCES:
                if len(kept) >= size:
                    return kept
                too_small = place
        room = np.empty(size, np.int64)
        if size <= _KEPT_MAX:
            if too_small >= 0:
                del self._kept[too_small]
            # Where both are held, the older one is no longer ours.
            self._kept = [*self._kept[-1:], room]
        return room


def longer(room: Ids, used: int) -> Ids:
    """Twice the room, with what stands in it so far."""
    more = np.empty(2 * len(room), np.int64)
    more[:used] = room[:used]
    return more
