"""Where an event goes: ids for what the matcher found, and the number of the way."""

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
    M_ENTRY,
    M_NEXT,
    MORE,
    W_DIGEST,
    W_EPOCH,
    W_NUMBER,
    WAY_COUNT,
    WAY_EPOCH,
    WAY_ROW,
    WAYS,
)
from roost.chunks.kernels.words import lean
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import array_at, peek, poke
from roost.matching.kernels.octets import mixed
from roost.matching.kernels.reading import ODD, ODD_COMPARED, ODD_ID

_STEP = np.int64(-2720673578348880933)  # odd, and large: 2^64 times a part of pi


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
def number_of_way(
    frame: Cells, hop_count: int, deliveries: Cells, first: int, end: int, more: Cells
) -> int:
    """The number of a way: hops so far, and peers with the ids that each is told; a new one gets the next.

    Ways are known by a digest of 64 bits, each of which depends on all of the way.
    """
    # A sum over peers and ids, told apart by their last bit, each mixed with its place: no step waits for the
    # one before.
    salt = _STEP
    digest = mixed(hop_count + salt)
    for i in range(first, end):
        place = i * DELIVERY
        salt += _STEP
        digest += mixed(2 * peek(deliveries, place + D_HOP) + salt)
        if peek(deliveries, place + D_IDS) == 0:
            continue
        salt += _STEP
        digest += mixed(2 * peek(deliveries, place + D_ENTRY) + 1 + salt)
        other = peek(deliveries, place + D_MORE)
        while other >= 0:
            salt += _STEP
            digest += mixed(2 * peek(more, other * MORE + M_ENTRY) + 1 + salt)
            other = peek(more, other * MORE + M_NEXT)
    ways = array_at(frame[WAYS], frame[WAYS + 1])
    epoch = frame[WAY_EPOCH]
    slots = len(ways) // WAY_ROW
    slot = digest & (slots - 1)
    while peek(ways, slot * WAY_ROW + W_EPOCH) == epoch:
        if peek(ways, slot * WAY_ROW + W_DIGEST) == digest:
            return peek(ways, slot * WAY_ROW + W_NUMBER)
        slot = (slot + 1) & (slots - 1)
    number = frame[WAY_COUNT]
    frame[WAY_COUNT] = number + 1
    poke(ways, slot * WAY_ROW + W_EPOCH, epoch)
    poke(ways, slot * WAY_ROW + W_DIGEST, digest)
    poke(ways, slot * WAY_ROW + W_NUMBER, number)
    return number
