"""Writes the deliveries of events that are let go together, each client's one behind the other.

Whom they are for has been found (`grouping`): group g is some subscriptions of one client; those of event e
are the groups up to event_ends[e]. A delivery is a head, the names of its group as MessagePack has an array
of strings, and the event's own bytes. A name is some bytes of a row of a table, by slot. Python would touch a
string for each, all over its memory; here the table is read, which fits into the processor's cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.partition.kernels import kernel

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Slots = NDArray[np.uint32]

# Of the mark of an array: from so many items on it takes three bytes.
SMALL = 16
NAMES_MAX = 0xFFFF  # of a group; each takes a byte or more
# Where the length of what is behind it stands in a frame, and where its number.
LENGTH_BYTES = 4
NUMBER_AT = 8


@kernel
def measure_names(grouped: Slots, group_ends: Numbers, widths: Numbers, sizes: Numbers) -> int:
    """sizes[g]: the bytes that the names of group g take, as an array; the most that any takes."""
    most = first = 0
    for g in range(len(group_ends)):
        last = group_ends[g]
        size = 1 if last - first < SMALL else 3
        for i in range(first, last):
            size += widths[grouped[i]]
        sizes[g] = size
        most = max(most, size)
        first = last
    return most


@kernel
def measure_frames(
    owners: Numbers,
    sizes: Numbers,
    event_ends: Numbers,
    body_ends: Numbers,
    first: int,
    last: int,
    head: int,
    counts: Numbers,
    totals: Numbers,
) -> None:
    """Of events first to last: how many deliveries each owner gets, and how many bytes those are."""
    g = event_ends[first - 1] if first else 0
    for e in range(first, last):
        body = body_ends[e] - (body_ends[e - 1] if e else 0)
        for group in range(g, event_ends[e]):
            counts[owners[group]] += 1
            totals[owners[group]] += head + sizes[group] + body
        g = event_ends[e]


@kernel
def write_frames(
    grouped: Slots,
    owners: Numbers,
    group_ends: Numbers,
    sizes: Numbers,
    event_ends: Numbers,
    bodies: Bytes,
    body_ends: Numbers,
    names: Bytes,
    widths: Numbers,
    first: int,
    last: int,
    head: Bytes,
    numbers: Numbers,
    places: Numbers,
    out: Bytes,
) -> None:
    """The same, written: each owner's from `places` on, behind the number that was its last; both move on.

    An owner whose place is below 0 gets nothing.
    """
    g = event_ends[first - 1] if first else 0
    for e in range(first, last):
        body = body_ends[e - 1] if e else 0
        body_size = body_ends[e] - body
        for group in range(g, event_ends[e]):
            owner = owners[group]
            at = places[owner]
            if at < 0:
                continue
            length = len(head) + sizes[group] + body_size - LENGTH_BYTES
            number = numbers[owner] + 1
            for b in range(len(head)):
                out[at + b] = head[b]
            for b in range(4):
                out[at + b] = (length >> (24 - 8 * b)) & 0xFF
                out[at + NUMBER_AT + b] = (number >> (24 - 8 * b)) & 0xFF
            at += len(head)
            i = group_ends[group - 1] if group else 0
            count = group_ends[group] - i
            if count < SMALL:
                out[at] = 0x90 + count
                at += 1
            else:
                out[at] = 0xDC
                out[at + 1] = count >> 8
                out[at + 2] = count & 0xFF
                at += 3
            for place in range(i, i + count):
                slot = grouped[place]
                for b in range(widths[slot]):
                    out[at] = names[slot, b]
                    at += 1
            for b in range(body_size):
                out[at + b] = bodies[body + b]
            numbers[owner] = number
            places[owner] = at + body_size
        g = event_ends[e]
