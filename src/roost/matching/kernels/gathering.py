"""Brings the names of what events match together, as bytes: a kernel for those who deliver.

A name is some bytes of a row of a table, by number. For each group of numbers (`grouping`) the names go one
behind the other, with the mark of an array in front, as MessagePack has it. Python would touch a string for
each, all over its memory; here the table is read, which fits into the processor's cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels.jit import kernel

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Slots = NDArray[np.uint32]

# Of the mark of an array: from so many items on it takes three bytes.
SMALL = 16
MARK_BYTES = 3
NAMES_MAX = 0xFFFF  # of a group


@kernel
def gather_names(
    grouped: Slots, group_ends: Numbers, names: Bytes, widths: Numbers, out: Bytes, ends: Numbers
) -> int:
    """Group g, grouped[group_ends[g - 1]:group_ends[g]], is out[ends[g - 1]:ends[g]]; how many bytes.

    The name of slot s is names[s, :widths[s]]. `out` has room for all of them and `MARK_BYTES` a group.
    """
    at = 0
    first = 0
    for g in range(len(group_ends)):
        last = group_ends[g]
        count = last - first
        if count < SMALL:
            out[at] = 0x90 + count
            at += 1
        else:
            out[at] = 0xDC
            out[at + 1] = count >> 8
            out[at + 2] = count & 0xFF
            at += 3
        for i in range(first, last):
            slot = grouped[i]
            for b in range(widths[slot]):
                out[at] = names[slot, b]
                at += 1
        ends[g] = at
        first = last
    return at
