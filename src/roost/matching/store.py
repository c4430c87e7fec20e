"""The Python side of the index's data: names for tokens, slots and groups, and a heap that grows.

What it names it also forgets: a group ends with its last subscription, a token with the last group that
speaks of it, and so does an attribute; their numbers are used again.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from roost.language.values import Kind
from roost.language.valueset import ANYTHING, ValueSet, of_kind
from roost.matching.contract import DuplicateIdError, Ids
from roost.matching.demand import Demand
from roost.matching.kernels import grid, search
from roost.matching.kernels.group import BOXES, COUNT, LISTS, SORTED, new_group
from roost.matching.kernels.heap import TOP, Cells, new_heap
from roost.matching.lexicon import Lexicon
from roost.matching.vocabulary import Attribute, Watcher

Reals = NDArray[np.float64]

# What the filters of a group have in common: access token, further tokens needed, tokens banned, slots of
# the numeric attributes, and a sign: +1 for one lower bound, -1 for one upper bound, 0 for anything else.
GroupKey = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]

_INF = float("inf")
# In cells. Growing moves no data (the system remaps the pages), so the steps need not double.
_GROWTH_MAX = 1 << 19


class Store:
    """Attributes, tokens and groups, and the arrays that the kernels work on."""

    def __init__(self) -> None:
        self.cells: Cells = new_heap(0)
        self.directory: Cells = np.zeros(2 * 16, np.int64)
        self.attributes: dict[str, Attribute] = {}
        # Changes with the attributes, with how one is read, and when an array moves.
        self.revision = 0
        # What kernels read events from bytes with, once somebody has asked for that.
        self._lexicon: Lexicon | None = None
        self._slots: list[Attribute | None] = []
        # What each token stands for, and how many groups speak of it; token 0 is every event's.
        self._meanings: list[tuple[Attribute, ValueSet] | None] = [None]
        self._users: list[int] = [1]
        self._free_tokens: list[int] = []
        self.watcher: Watcher | None = None  # of what tokens stand for; see `watch`
        self._groups: dict[GroupKey, list[int]] = {}
        self._keys: dict[int, GroupKey] = {}

    @property
    def slot_count(self) -> int:
        """How long the row of an event's numbers must be."""
        return len(self._slots)

    @property
    def lexicon(self) -> Lexicon:
        """The names and words by their bytes, kept from the first time that they are asked for."""
        if self._lexicon is None:
            self._lexicon = Lexicon(self.attributes.values(), self._moved)
        return self._lexicon

    def _moved(self) -> None:
        self.revision += 1

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name, made known if it is new."""
        known = self.attributes.get(name)
        if known is not None:
            return known
        slot = self._slots.index(None) if None in self._slots else len(self._slots)
        attribute = self.attributes[name] = Attribute(name, slot, self.watcher)
        self._slots[slot : slot + 1] = [attribute]
        if self._lexicon is not None:
            self._lexicon.name(attribute)
        self.revision += 1
        return attribute

    def watch(self, watcher: Watcher) -> None:
        """Tell of every set of values that has a token, or has none any more; first of those that have."""
        self.watcher = watcher
        for attribute in self.attributes.values():
            attribute.watcher = watcher
            for admitted in attribute.tokens:
                watcher(attribute, admitted)

    def token(self, attribute: Attribute, admitted: ValueSet) -> int:
        """The token for "the attribute's value is in `admitted`", made if it is new."""
        known = attribute.tokens.get(admitted)
        if known is not None:
            return known
        if self._free_tokens:
            token = self._free_tokens.pop()
        else:
            token = len(self._meanings)
            self._meanings.append(None)
            self._users.append(0)
            if 2 * token >= len(self.directory):
                self.directory.resize(2 * len(self.directory), refcheck=False)
                self.revision += 1
        self._meanings[token] = (attribute, admitted)
        reading = attribute.reading
        attribute.add(admitted, token)
        if self._lexicon is not None:
            self._lexicon.changed(attribute, admitted)
        self.revision += reading != attribute.reading
        return token

    def add(self, key: int, demand: Demand) -> None:
        """Store a filter under `key`. DuplicateIdError if the key is in use."""
        intervals = demand.intervals
        if len(intervals) > 1:
            self._add_box(key, demand)
            return
        bound, sign = 0.0, 0
        for low, high in intervals.values():
            if low != -_INF and high != _INF:
                self._add_box(key, demand)
                return
            bound, sign = (low, 1) if high == _INF else (-high, -1)
        group = self._group_for(demand.needed, demand.banned, tuple(intervals), sign)
        self._after_adding(key, group, search.add_sorted(self.cells, group, bound, key))

    def _add_box(self, key: int, demand: Demand) -> None:
        slots = tuple(sorted(demand.intervals))
        group = self._group_for(demand.needed, demand.banned, slots, 0)
        lows = np.array([demand.intervals[slot][0] for slot in slots])
        highs = np.array([demand.intervals[slot][1] for slot in slots])
        self._after_adding(key, group, search.add_box(self.cells, group, lows, highs, key))

    def _after_adding(self, key: int, group: int, answer: int) -> None:
        if answer == search.DUPLICATE:
            if self.cells[group + COUNT] == 0:
                self._close(group)
            raise DuplicateIdError(key)
        if answer == 0:
            self.grow()

    def add_sorted_rows(
        self, keys: Ids, tokens: NDArray[np.int64], slots: tuple[int, ...], sign: int, bounds: Reals
    ) -> None:
        """Store many filters with at most one bound; row i of `tokens` is what filter i needs."""
        groups = self._groups_for_rows(tokens, slots, sign)
        order = np.lexsort((keys, bounds, groups))
        keys, bounds, groups = keys[order], bounds[order], groups[order]
        done = 0
        while done < len(keys):
            done = search.add_many_sorted(self.cells, groups, bounds, keys, done)
            self._grow_if_needed()

    def add_box_rows(
        self,
        keys: Ids,
        tokens: NDArray[np.int64],
        slots: tuple[int, ...],
        lows: Reals,
        highs: Reals,
    ) -> None:
        """Store many filters with an interval a slot; row i of each array belongs to filter i."""
        combination, members = _distinct_rows(tokens)
        for needed, rows in zip(combination, members, strict=True):
            k, lo, hi = keys[rows], lows[rows], highs[rows]
            sizes: dict[int, int] = {}
            done = 0
            while done < len(rows):
                group = self._group_for(needed.tolist(), [], slots, 0)
                sizes.setdefault(group, self.cells[group + COUNT])
                done = search.add_many_boxes(self.cells, group, lo, hi, k, done)
                self._grow_if_needed()
            for group, size in sizes.items():
                if self.cells[group + COUNT] > 2 * size:
                    search.pack_boxes(self.cells, group)

    def remove(self, key: int) -> bool:
        """Take out what is stored under `key`; whether there was anything."""
        group = search.remove(self.cells, key)
        if group == 0:
            return False
        if self.cells[group + COUNT] == 0:
            self._close(group)
        else:
            siblings = self._groups[self._keys[group]]
            # A group that was full and has room again takes the next additions.
            if siblings[-1] != group and 2 * self.cells[group + COUNT] < grid.COUNT_MAX:
                siblings.remove(group)
                siblings.append(group)
        return True

    def grow(self) -> None:
        """Make the heap larger. No kernel may be running and no view of the array may be held."""
        size = len(self.cells)
        self.cells.resize(size + min(size, _GROWTH_MAX), refcheck=False)
        self.revision += 1
        self._grow_if_needed()

    def _grow_if_needed(self) -> None:
        if search.room(self.cells) <= 0:
            self.grow()

    def memory_bytes(self) -> int:
        """What the stored subscriptions take: the used part of the heap, and the names."""
        named = sum(
            sys.getsizeof(key) + sum(map(sys.getsizeof, key[1:4])) + sys.getsizeof(groups)
            for key, groups in self._groups.items()
        )
        tables = (self._groups, self._keys, self._meanings, self._users, self.attributes)
        tables_bytes = sum(sys.getsizeof(table) for table in tables)
        words = sum(attribute.memory_bytes() for attribute in self.attributes.values())
        by_bytes = 0 if self._lexicon is None else self._lexicon.memory_bytes()
        named += tables_bytes + words + by_bytes
        return int(8 * self.cells[TOP]) + self.directory.nbytes + named

    # ------------------------------------------------------------------ groups

    def _group_for(
        self, needed: list[int], banned: list[int], slots: tuple[int, ...], sign: int
    ) -> int:
        """The group for filters of this shape that takes additions."""
        access = self._access(needed)
        rest = tuple(sorted(set(needed) - {access})) if len(needed) > 1 else ()
        key = (access, rest, tuple(sorted(banned)), slots, sign)
        siblings = self._groups.get(key)
        if siblings is None:
            siblings = self._groups[key] = []
        elif sign != 0 or not slots or self.cells[siblings[-1] + COUNT] < grid.COUNT_MAX:
            return siblings[-1]
        group = self._open(key)
        siblings.append(group)
        return group

    def _groups_for_rows(
        self, tokens: NDArray[np.int64], slots: tuple[int, ...], sign: int
    ) -> NDArray[np.int64]:
        groups = np.empty(len(tokens), np.int64)
        combination, members = _distinct_rows(tokens)
        for needed, rows in zip(combination, members, strict=True):
            groups[rows] = self._group_for(needed.tolist(), [], slots, sign)
        return groups

    def _access(self, needed: list[int]) -> int:
        """Of the tokens needed, the one that the fewest events are likely to have; 0 if there are none."""
        if not needed:
            return 0
        if len(needed) == 1:
            return needed[0]
        # Of equally good ones the later: people write the general condition first.
        return max(reversed(needed), key=self._selectivity)

    def _selectivity(self, token: int) -> int:
        meaning = self._meanings[token]
        assert meaning is not None
        attribute, admitted = meaning
        numbers, strings = admitted.numbers.members, admitted.strings.members
        finite = numbers is not None and strings is not None
        if finite and (numbers or strings):  # mostly, and quickly told
            return len(attribute.tokens)
        if admitted == ANYTHING or any(admitted == of_kind(kind) for kind in Kind):
            return 0
        return len(attribute.tokens) if finite else 1

    def _open(self, key: GroupKey) -> int:
        access, needed, banned, slots, sign = key
        kind = SORTED if sign != 0 or not slots else BOXES
        group = int(new_group(self.cells, kind, sign, len(needed), len(banned), len(slots)))
        start = group + LISTS
        for token in (*needed, *banned):
            self.cells[start] = token
            start += 1
        self.cells[start : start + len(slots)] = slots
        search.open_group(self.cells, self.directory, access, group)
        self._keys[group] = key
        for token in (access, *needed, *banned):
            self._users[token] += 1
            meaning = self._meanings[token]
            if meaning is not None:
                meaning[0].users += 1
        for slot in slots:
            attribute = self._attribute_at(slot)
            attribute.users += 1
            attribute.bounded += 1
            self.revision += attribute.bounded == 1
        self._grow_if_needed()
        return group

    def _close(self, group: int) -> None:
        key = self._keys.pop(group)
        access, needed, banned, slots, _ = key
        search.close_group(self.cells, self.directory, access, group)
        siblings = self._groups[key]
        siblings.remove(group)
        if not siblings:
            del self._groups[key]
        for token in (access, *needed, *banned):
            self._release_token(token)
        for slot in slots:
            attribute = self._attribute_at(slot)
            attribute.bounded -= 1
            self.revision += attribute.bounded == 0
            self._release_attribute(attribute)

    def _attribute_at(self, slot: int) -> Attribute:
        attribute = self._slots[slot]
        assert attribute is not None
        return attribute

    def _release_token(self, token: int) -> None:
        self._users[token] -= 1
        meaning = self._meanings[token]
        if meaning is None:
            return
        attribute, admitted = meaning
        if self._users[token] == 0:
            reading = attribute.reading
            attribute.remove(admitted)
            if self._lexicon is not None:
                self._lexicon.changed(attribute, admitted)
            self.revision += reading != attribute.reading
            self._meanings[token] = None
            self._free_tokens.append(token)
        self._release_attribute(attribute)

    def _release_attribute(self, attribute: Attribute) -> None:
        attribute.users -= 1
        if attribute.users == 0:
            del self.attributes[attribute.name]
            if self._lexicon is not None:
                self._lexicon.forget(attribute)
            self.revision += 1
            self._slots[attribute.slot] = None


def _distinct_rows(
    tokens: NDArray[np.int64],
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The distinct rows of a matrix, and for each the positions where it stands."""
    codes = np.zeros(len(tokens), np.int64)
    for column in tokens.T:
        distinct, inverse = np.unique(column, return_inverse=True)
        codes = np.unique(codes * len(distinct) + inverse, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    members = np.split(order, starts[1:])
    return tokens[order[starts]], members
