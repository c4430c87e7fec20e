"""Adding, removing and matching: the kernels that the index calls.

An event arrives as its tokens and its numbers. A token stands for something that its strings and bools (or
an equality on its numbers) satisfy; token 0 stands for nothing, and every event has it. `directory` has two
cells a token: the token's cluster (the groups whose access token it is; 0 if none) and when it was last
seen. A cluster is a block: how many groups, its capacity, then the groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roost.matching.kernels import boxes, grid, grid_search, idmap, sortedlist
from roost.matching.kernels.boxes import Reals
from roost.matching.kernels.grid_layout import ROWS as ROWS_A_LEAF
from roost.matching.kernels.group import (
    BANNED,
    CAPACITY,
    COUNT,
    DIMENSIONS,
    KIND,
    LISTS,
    NEEDED,
    SIGN,
    SORTED,
    free_group,
    slots_of,
)
from roost.matching.kernels.heap import (
    EPOCH,
    ROWS,
    SCRATCH,
    TOP,
    Cells,
    allocate,
    copy,
    release,
    reserve,
)
from roost.matching.kernels.jit import array_at, inlined, kernel, lean, peek, poke

DUPLICATE = -1
# The code of an event's value that satisfies nothing (see `match_many`).
NO_TOKENS = -1


@kernel
def room(cells: Cells) -> int:
    """How many cells are left after the reserve of the next operation."""
    return len(cells) - cells[TOP] - reserve(cells)


@kernel
def open_group(cells: Cells, directory: Cells, token: int, group: int) -> None:
    """Enter a group into the cluster of its access token."""
    cluster = directory[2 * token]
    if cluster == 0:
        cluster = allocate(cells, 4)
        cells[cluster] = 0
        cells[cluster + 1] = 2
        directory[2 * token] = cluster
    count, capacity = cells[cluster], cells[cluster + 1]
    if count == capacity:
        larger = allocate(cells, 2 + 2 * capacity)
        copy(cells, cluster, larger, 2 + count)
        release(cells, cluster, 2 + capacity)
        cells[larger + 1] = 2 * capacity
        cluster = larger
        directory[2 * token] = cluster
    cells[cluster + 2 + count] = group
    cells[cluster] = count + 1


@kernel
def close_group(cells: Cells, directory: Cells, token: int, group: int) -> None:
    """Take an empty group out of the cluster of its access token and give back its descriptor."""
    cluster = directory[2 * token]
    at = cluster + 2
    while cells[at] != group:
        at += 1
    cells[cluster] -= 1
    cells[at] = cells[cluster + 2 + cells[cluster]]
    if cells[cluster] == 0:
        release(cells, cluster, 2 + cells[cluster + 1])
        directory[2 * token] = 0
    free_group(cells, group)


@kernel
def add_sorted(cells: Cells, group: int, bound: float, key: int) -> int:
    """Add a subscription with at most one bound; DUPLICATE if the key is there, else `room`."""
    if idmap.find(cells, key) >= 0:
        return DUPLICATE
    _add_sorted(cells, group, bound, key)
    return max(0, room(cells))


@kernel
def _add_sorted(cells: Cells, group: int, bound: float, key: int) -> None:
    sortedlist.insert(cells, group, bound, key)
    # The hint is the bound: with it the entry is found by binary search.
    cells.view(np.float64)[SCRATCH] = bound
    idmap.put(cells, key, group, cells[SCRATCH])
    cells[ROWS] += 1


@kernel
def add_box(cells: Cells, group: int, lows: Reals, highs: Reals, key: int) -> int:
    """Add a subscription with an interval a dimension; DUPLICATE if the key is there, else `room`."""
    if idmap.find(cells, key) >= 0:
        return DUPLICATE
    _add_box(cells, group, lows, highs, key)
    return max(0, room(cells))


@kernel
def _add_box(cells: Cells, group: int, lows: Reals, highs: Reals, key: int) -> None:
    # Entered first: a box is told where it is, now and whenever it is moved.
    idmap.put(cells, key, group, 0)
    boxes.insert(cells, group, lows, highs, key)
    cells[ROWS] += 1


@kernel
def add_many_sorted(cells: Cells, groups: Cells, bounds: Reals, keys: Cells, start: int) -> int:
    """`add_sorted` for each from `start` until the heap needs to grow; how far it came.

    The keys are known to be new and different from each other.
    """
    for i in range(start, len(keys)):
        if room(cells) <= 0:
            return i
        _add_sorted(cells, groups[i], bounds[i], keys[i])
    return len(keys)


@kernel
def add_many_boxes(
    cells: Cells, group: int, lows: Reals, highs: Reals, keys: Cells, start: int
) -> int:
    """`add_box` for each from `start` until the heap needs to grow or the group is full."""
    for i in range(start, len(keys)):
        if room(cells) <= 0 or cells[group + COUNT] >= grid.COUNT_MAX:
            return i
        _add_box(cells, group, lows[i], highs[i], keys[i])
    return len(keys)


@kernel
def pack_boxes(cells: Cells, group: int) -> None:
    """Lay out anew a group that has got many boxes at once."""
    if cells[group + CAPACITY] > 0:
        grid.pack(cells, group, ROWS_A_LEAF)


@kernel
def any_known(cells: Cells, keys: Cells) -> int:
    """The position of the first key that is already there, or -1."""
    for i in range(len(keys)):
        if idmap.find(cells, keys[i]) >= 0:
            return i
    return -1


@kernel
def remove(cells: Cells, key: int) -> int:
    """Take out a subscription; the group it was in, or 0 if the key is unknown."""
    at = idmap.find(cells, key)
    if at < 0:
        return 0
    group, hint = idmap.group_at(cells, at), idmap.hint_at(cells, at)
    idmap.drop(cells, at)
    if cells[group + KIND] == SORTED:
        cells[SCRATCH] = hint
        sortedlist.remove(cells, group, cells.view(np.float64)[SCRATCH], key)
    else:
        boxes.remove(cells, group, key, hint)
    cells[ROWS] -= 1
    return group


@inlined
def match_event(
    cells: Cells,
    reals: Reals,
    directory: Cells,
    tokens: Cells,
    n_tokens: int,
    lower: Reals,
    upper: Reals,
    event: int,
    step: int,
    exact: bool,
    out: Cells,
    n: int,
) -> int:
    """Append the ids of all subscriptions that the event matches to `out`; the new n.

    The event's number for a slot stands at `event + slot * step` in `lower` and in `upper`; NaN is "not
    there". The two are the same unless the number is an int that no float equals; then they are the
    floats on either side of it, and `exact` is False.
    """
    _in_order(tokens, n_tokens)
    epoch = peek(cells, EPOCH) + 1
    poke(cells, EPOCH, epoch)
    for i in range(n_tokens):
        poke(directory, 2 * peek(tokens, i) + 1, epoch)
    for i in range(n_tokens):
        cluster = peek(directory, 2 * peek(tokens, i))
        if cluster == 0:
            continue
        for at in range(cluster + 2, cluster + 2 + peek(cells, cluster)):
            group = peek(cells, at)
            asks = peek(cells, group + NEEDED) + peek(cells, group + BANNED) > 0
            if asks and not _admits(cells, directory, group, epoch):
                continue
            if peek(cells, group + KIND) != SORTED:
                n = boxes.take_boxes(cells, reals, group, lower, upper, event, step, exact, out, n)
            elif peek(cells, group + DIMENSIONS) == 0:
                n = sortedlist.take_all(cells, group, out, n)
            else:
                at_number = event + step * peek(cells, slots_of(cells, group))
                if peek(cells, group + SIGN) > 0:
                    value = peek(lower, at_number)
                else:
                    value = -peek(upper, at_number)
                n = sortedlist.take_up_to(cells, reals, group, value, out, n)
    return n


@lean
def _in_order(tokens: Cells, count: int) -> None:
    """Sort the tokens (Shell's way), so that ids come in one order however an event was read."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            token = peek(tokens, i)
            at = i
            while at >= gap and peek(tokens, at - gap) > token:
                poke(tokens, at, peek(tokens, at - gap))
                at -= gap
            poke(tokens, at, token)
        gap //= 3


@lean
def _admits(cells: Cells, directory: Cells, group: int, epoch: int) -> bool:
    """Whether the event has all tokens that the group needs and none that it bans."""
    needed, banned = peek(cells, group + NEEDED), peek(cells, group + BANNED)
    at = group + LISTS
    for i in range(needed):
        if peek(directory, 2 * peek(cells, at + i) + 1) != epoch:
            return False
    at += needed
    for i in range(banned):
        if peek(directory, 2 * peek(cells, at + i) + 1) == epoch:
            return False
    return True


# A single event is handed over as its tokens, and from here on its numbers by slot.
NUMBERS = 4096
# Where everything is, for `match_one`: address and length of the heap, the directory, the event, the answers.
# One array of these costs less to hand over than the four, and that is a tenth of a broker's time an event.
CELLS, DIRECTORY, EVENT, OUT = range(0, 8, 2)


def frame_of(cells: Cells, directory: Cells, event: Cells, out: Cells) -> Cells:
    """The frame of these arrays. They must not be moved or freed while it is in use."""
    arrays = (cells, directory, event, out)
    return np.array([x for a in arrays for x in (a.ctypes.data, len(a))], np.int64)


@lean
def match_one(frame: Cells, n_tokens: int, n: int) -> int:
    """`match_event` for an event whose numbers are all floats or ints that a float equals.

    Leaves the numbers as the next event expects them: all NaN.
    """
    cells = array_at(frame[CELLS], frame[CELLS + 1])
    directory = array_at(frame[DIRECTORY], frame[DIRECTORY + 1])
    event = array_at(frame[EVENT], frame[EVENT + 1])
    out = array_at(frame[OUT], frame[OUT + 1])
    reals, numbers = cells.view(np.float64), event.view(np.float64)
    n = match_event(
        cells, reals, directory, event, n_tokens, numbers, numbers, NUMBERS, 1, True, out, n
    )
    for at in range(NUMBERS, len(numbers)):
        poke(numbers, at, np.nan)
    return n


@lean
def match_many(
    cells: Cells,
    directory: Cells,
    codes: NDArray[np.int64],
    lists: Cells,
    spans: Cells,
    lower: Reals,
    upper: Reals,
    exact: bool,
    tokens: Cells,
    out: Cells,
    offsets: Cells,
    start: int,
) -> int:
    """Match events from `start` until all are done or `out` may not hold the next one; how far it came.

    Each row of `codes` has a code an event: a token, NO_TOKENS, or below that the number of a span of
    `lists` that holds several; `lower` and `upper` hold the numbers of the first slot, then of the
    second, and so on. `tokens` is room for the tokens of one event.
    """
    events = len(offsets) - 1
    reals = cells.view(np.float64)
    tokens[0] = 0
    n = offsets[start]
    for e in range(start, events):
        if len(out) - n < cells[ROWS] + grid_search.OVERRUN:
            return e
        k = 1
        for c in range(codes.shape[0]):
            code = codes[c, e]
            if code >= 0:
                tokens[k] = code
                k += 1
            elif code < NO_TOKENS:
                span = 2 * (NO_TOKENS - 1 - code)
                for i in range(spans[span], spans[span + 1]):
                    tokens[k] = lists[i]
                    k += 1
        n = match_event(cells, reals, directory, tokens, k, lower, upper, e, events, exact, out, n)
        offsets[e + 1] = n
    return events
