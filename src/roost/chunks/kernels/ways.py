"""Where an event goes: ids for what the matcher found, and whether it is the way of the one before."""

from __future__ import annotations

import numpy as np

from roost.chunks.kernels.layout import (
    D_ENTRY,
    D_HOP,
    D_IDS,
    D_MORE,
    DELIVERY,
    E_VISIT,
    ENTRY,
    EV_DELIVERY,
    EV_HOPS,
    EVENT_ROW,
    M_ENTRY,
    M_NEXT,
    MORE,
)
from roost.chunks.kernels.words import lean
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import peek, poke
from roost.matching.kernels.reading import ODD, ODD_COMPARED, ODD_ID


@lean
def resolved(matched: Cells, found: int, odd: Cells, entries: Cells, visit: int) -> int:
    """Ids in place of keys of the matcher's own, each once and behind all others; how many there are now.

    -1: one of them is a filter that must be compared with the event itself.
    """
    n = np.int64(0)
    while n < found and peek(matched, n) >= 0:
        n += 1
    if n == found:
        return found
    # The keys stand behind the ids for a while: there is room for both.
    keys = found
    for i in range(n, found):
        key = peek(matched, i)
        if key < 0:
            poke(matched, keys, key)
            keys += 1
        else:
            poke(matched, n, key)
            n += 1
    for i in range(found, keys):
        row = ODD * (-1 - peek(matched, i))
        if peek(odd, row + ODD_COMPARED):
            return -1
        entry = peek(odd, row + ODD_ID)
        if peek(entries, entry * ENTRY + E_VISIT) != visit:
            poke(entries, entry * ENTRY + E_VISIT, visit)
            poke(matched, n, entry)
            n += 1
    return n


@lean
def goes_the_same_way(events: Cells, row: int, deliveries: Cells, end: int, more: Cells) -> bool:
    """Whether an event has the hops of the one before, and goes to the same peers for the same ids."""
    before = row - EVENT_ROW
    first, other = peek(events, row + EV_DELIVERY), peek(events, before + EV_DELIVERY)
    if end - first != first - other or peek(events, row + EV_HOPS) != peek(
        events, before + EV_HOPS
    ):
        return False
    for i in range(end - first):
        one, two = (first + i) * DELIVERY, (other + i) * DELIVERY
        ids = peek(deliveries, one + D_IDS)
        if (
            peek(deliveries, one + D_HOP) != peek(deliveries, two + D_HOP)
            or ids != peek(deliveries, two + D_IDS)
            or (ids > 0 and peek(deliveries, one + D_ENTRY) != peek(deliveries, two + D_ENTRY))
        ):
            return False
        a, b = peek(deliveries, one + D_MORE), peek(deliveries, two + D_MORE)
        while a >= 0:
            if peek(more, a * MORE + M_ENTRY) != peek(more, b * MORE + M_ENTRY):
                return False
            a, b = peek(more, a * MORE + M_NEXT), peek(more, b * MORE + M_NEXT)
    return True
