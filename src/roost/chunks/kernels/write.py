"""The second pass: the bytes of a chunk that go out, each connection's together, in the order of the events.

Whoever calls it has said for each hop of the chunk which number was its last (`H_SENT`) and where its bytes
go (`H_AT`); both are moved on.
"""

from __future__ import annotations

from roost.chunks.kernels.layout import (
    D_BYTES,
    D_ENTRY,
    D_EVENT,
    D_HOP,
    D_IDS,
    D_MORE,
    DELIVERIES,
    DELIVERY,
    DELIVERY_COUNT,
    E_ID,
    E_ID_BYTES,
    ENTRIES,
    ENTRY,
    EV_AT,
    EV_BYTES,
    EV_HOPS,
    EVENT_ROW,
    EVENTS,
    H_AT,
    H_SENT,
    HEAD_BYTES,
    HOP,
    HOPS,
    M_ENTRY,
    M_NEXT,
    MORE,
    MORE_IDS,
    OUT,
    PREFIX_BYTES,
    TEXT,
)
from roost.chunks.kernels.words import Bytes, lean, put8, put32, put_bytes
from roost.matching.kernels.heap import Cells
from roost.matching.kernels.jit import array_at, peek, poke
from roost.matching.kernels.octets import octets_at

# Marks of a frame, behind its length: array of five or six, tag, data, a number of 32 bits.
_PUBLICATION = 0x951001CE
_DELIVERY = 0x961101CE
_ARRAY, _ARRAY16 = 0x90, 0xDC
_FEW = 15


@lean
def write_chunk(frame: Cells, b: Bytes) -> int:
    """Write all deliveries of the chunk that was read; how many."""
    text = octets_at(frame[TEXT], 8 * frame[TEXT + 1])
    entries = array_at(frame[ENTRIES], frame[ENTRIES + 1])
    hops = array_at(frame[HOPS], frame[HOPS + 1])
    events = array_at(frame[EVENTS], frame[EVENTS + 1])
    deliveries = array_at(frame[DELIVERIES], frame[DELIVERIES + 1])
    more = array_at(frame[MORE_IDS], frame[MORE_IDS + 1])
    out = octets_at(frame[OUT], 8 * frame[OUT + 1])
    count = frame[DELIVERY_COUNT]
    for i in range(count):
        place = i * DELIVERY
        event = peek(deliveries, place + D_EVENT) * EVENT_ROW
        row = peek(deliveries, place + D_HOP) * HOP
        at, size = peek(hops, row + H_AT), peek(events, event + EV_BYTES)
        number, ids = peek(hops, row + H_SENT) + 1, peek(deliveries, place + D_IDS)
        hop_count = peek(events, event + EV_HOPS)
        end = at + peek(deliveries, place + D_BYTES)
        poke(hops, row + H_SENT, number)
        poke(hops, row + H_AT, end)
        put32(out, at, end - at - PREFIX_BYTES)
        put32(out, at + 8, number)
        if ids == 0:
            put32(out, at + 4, _PUBLICATION)
            put8(out, at + 12, hop_count + 1)
            at += HEAD_BYTES
        else:
            put32(out, at + 4, _DELIVERY)
            put8(out, at + 12, hop_count)
            if ids <= _FEW:
                put8(out, at + HEAD_BYTES, _ARRAY + ids)
                at += HEAD_BYTES + 1
            else:
                put8(out, at + HEAD_BYTES, _ARRAY16)
                put8(out, at + HEAD_BYTES + 1, ids >> 8)
                put8(out, at + HEAD_BYTES + 2, ids)
                at += HEAD_BYTES + 3
            entry = peek(deliveries, place + D_ENTRY) * ENTRY
            n = peek(entries, entry + E_ID_BYTES)
            put_bytes(out, at, text, peek(entries, entry + E_ID), n)
            at += n
            other = peek(deliveries, place + D_MORE)
            while other >= 0:
                entry = peek(more, other * MORE + M_ENTRY) * ENTRY
                n = peek(entries, entry + E_ID_BYTES)
                put_bytes(out, at, text, peek(entries, entry + E_ID), n)
                at += n
                other = peek(more, other * MORE + M_NEXT)
        put_bytes(out, at, b, peek(events, event + EV_AT), size)
    return count
