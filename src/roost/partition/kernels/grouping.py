"""Sorts what events match by whose it is: a kernel for those who deliver.

An answer names subscriptions by number, hundreds an event. Whoever delivers needs them by client. In one
pass each event's numbers are brought into groups, one for each owner, in the order in which the owners come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.partition.kernels import kernel

Numbers = NDArray[np.int64]
Slots = NDArray[np.uint32]


@kernel
def group_by_owner(
    slots: Slots,
    ends: Slots,
    owners: Numbers,
    seen: Numbers,
    grouped: Slots,
    group_owners: Numbers,
    group_ends: Numbers,
    event_ends: Numbers,
) -> int:
    """Event e has slots[ends[e - 1]:ends[e]]; how many groups there are.

    `owners` says whose each slot is; what is nobody's (below 0) is left out. Group g is
    grouped[group_ends[g - 1]:group_ends[g]], of group_owners[g]; those of event e end at event_ends[e].
    `seen` is room for two numbers an owner, all below 0.
    """
    groups = 0
    written = 0
    first = 0
    for e in range(len(ends)):
        last = np.int64(ends[e])
        first_group = groups
        for i in range(first, last):
            owner = owners[slots[i]]
            if owner < 0:
                continue
            if seen[2 * owner] != e:
                seen[2 * owner] = e
                seen[2 * owner + 1] = groups
                group_owners[groups] = owner
                group_ends[groups] = 0
                groups += 1
            group_ends[seen[2 * owner + 1]] += 1
        # From how many each has to where each begins; the second pass moves that on to where it ends.
        for g in range(first_group, groups):
            size = group_ends[g]
            group_ends[g] = written
            written += size
        for i in range(first, last):
            owner = owners[slots[i]]
            if owner >= 0:
                g = seen[2 * owner + 1]
                grouped[group_ends[g]] = slots[i]
                group_ends[g] += 1
        event_ends[e] = groups
        first = last
    return groups
