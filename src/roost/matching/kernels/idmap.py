"""Where a subscription is stored, by its id.

An open-addressing hash table, cut into 256 shards that grow each for itself: so no single addition ever
has to rehash the whole. A shard is three columns (id, group, hint); the hint is what the group needs to
find the row quickly. Deleting moves later entries up, so there are no tombstones.
"""

from __future__ import annotations

import numpy as np

from roost.matching.kernels.heap import (
    SHARD_CELLS,
    SHARD_COUNT,
    SHARDS,
    Cells,
    allocate,
    release,
)
from roost.matching.kernels.jit import kernel

_EMPTY = np.iinfo(np.int64).min
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHARD_SHIFT = np.uint64(56)
_HOME_SHIFT = np.uint64(20)
_LEAST = 4


@kernel
def _hash(key: int) -> int:
    h = np.uint64(key) * _MIX
    h ^= h >> np.uint64(32)
    return h * _MIX


@kernel
def _shard(h: int) -> int:
    return SHARDS + SHARD_CELLS * (np.int64(h >> _SHARD_SHIFT) & (SHARD_COUNT - 1))


@kernel
def _home(h: int, capacity: int) -> int:
    return np.int64(h >> _HOME_SHIFT) & (capacity - 1)


@kernel
def find(cells: Cells, key: int) -> int:
    """The position of the key's cell, or -1. `group_at` and `hint_at` read what goes with it."""
    h = _hash(key)
    shard = _shard(h)
    capacity, keys = cells[shard + 1], cells[shard + 2]
    if capacity == 0:
        return -1
    i = _home(h, capacity)
    while cells[keys + i] != _EMPTY:
        if cells[keys + i] == key:
            return keys + i
        i = (i + 1) & (capacity - 1)
    return -1


@kernel
def _capacity(cells: Cells, key: int) -> int:
    return cells[_shard(_hash(key)) + 1]


@kernel
def group_at(cells: Cells, position: int) -> int:
    """The group of the entry at `position`."""
    return cells[position + _capacity(cells, cells[position])]


@kernel
def hint_at(cells: Cells, position: int) -> int:
    """The hint of the entry at `position`."""
    return cells[position + 2 * _capacity(cells, cells[position])]


@kernel
def set_hint(cells: Cells, key: int, hint: int) -> None:
    """Change the hint of a key that is there."""
    cells[find(cells, key) + 2 * _capacity(cells, key)] = hint


@kernel
def put(cells: Cells, key: int, group: int, hint: int) -> None:
    """Enter a key that is not there yet."""
    shard = _shard(_hash(key))
    if 4 * (cells[shard] + 1) > 3 * cells[shard + 1]:
        _grow(cells, shard)
    _place(cells, shard, key, group, hint)
    cells[shard] += 1


@kernel
def _place(cells: Cells, shard: int, key: int, group: int, hint: int) -> None:
    capacity, keys = cells[shard + 1], cells[shard + 2]
    i = _home(_hash(key), capacity)
    while cells[keys + i] != _EMPTY:
        i = (i + 1) & (capacity - 1)
    cells[keys + i] = key
    cells[keys + capacity + i] = group
    cells[keys + 2 * capacity + i] = hint


@kernel
def _grow(cells: Cells, shard: int) -> None:
    old_capacity, old = cells[shard + 1], cells[shard + 2]
    capacity = max(_LEAST, 2 * old_capacity)
    keys = allocate(cells, 3 * capacity)
    for i in range(capacity):
        cells[keys + i] = _EMPTY
    cells[shard + 1] = capacity
    cells[shard + 2] = keys
    for i in range(old_capacity):
        if cells[old + i] != _EMPTY:
            group, hint = cells[old + old_capacity + i], cells[old + 2 * old_capacity + i]
            _place(cells, shard, cells[old + i], group, hint)
    if old_capacity > 0:
        release(cells, old, 3 * old_capacity)


@kernel
def drop(cells: Cells, position: int) -> None:
    """Take out the entry at `position`."""
    shard = _shard(_hash(cells[position]))
    capacity, keys = cells[shard + 1], cells[shard + 2]
    hole = position - keys
    i = hole
    while True:
        i = (i + 1) & (capacity - 1)
        key = cells[keys + i]
        if key == _EMPTY:
            break
        # An entry may move up to the hole unless that lies before its home.
        if ((i - _home(_hash(key), capacity)) & (capacity - 1)) >= ((i - hole) & (capacity - 1)):
            for column in range(3):
                start = keys + column * capacity
                cells[start + hole] = cells[start + i]
            hole = i
    cells[keys + hole] = _EMPTY
    cells[shard] -= 1
