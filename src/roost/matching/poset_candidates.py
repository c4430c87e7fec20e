"""Which subscriptions may cover a given one, or be covered by it: the access keys of the poset.

Conjunctions that agree in everything but the ends of their intervals have the same *shape* and form a
group: `symbol = 'IBM' and high > x` for all x. The ends are the group's *axes*. An end is kept as a *key*
that grows as the filter narrows (a lower end as it is, an upper end negated), so that of two members of a
group one covers the other just if none of its keys is greater.

- No axis or one: a `_Chain`. Each member covers all that follow; so of those that cover a given filter only
  the last can be a minimal one, of those that it covers only the first a maximal one, and both are
  found by bisection.
- Several axes: `_Boxes`. Each key of each member is compared, in NumPy.
- A disjunction of several conjunctions is a `_Mixture`, a group of its own.

A group is found through two tables. They follow from what covering means, attribute by attribute: whatever a
filter demands of an attribute, all that it covers demand the same or more of it.

- `_access`, for what covers a filter: each group stands under one of its demands, which the filter must
  share. That is `(name, value)` for a point and `(name,)` for anything else.
- `_mentions`, for what a filter covers: each group stands under all of its demands, of which the filter's
  must be some; the shortest of their lists is gone through.

A mixture enters `_access` by each of its parts, as any of them may be the one that covers, and `_mentions` by
its first, which must be covered like all the others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from roost.language.values import Number
from roost.language.valueset import ValueSet
from roost.matching.conjunct import Conjunct, Parts, Point, parts_cover

T = TypeVar("T")

# () for every group, (name,) for an attribute, (name, point) for an attribute that must equal a value.
AccessKey = tuple[()] | tuple[str] | tuple[str, Point]

_COLUMNS_AT_FIRST = 8


class Axis(NamedTuple):
    """One end of the interval of one attribute."""

    name: str
    upper: bool


class Shape(NamedTuple):
    """What the conjunctions of a group have in common, in an order that does not depend on spelling."""

    points: tuple[tuple[str, Point], ...]
    axes: tuple[Axis, ...]
    others: tuple[tuple[str, ValueSet], ...]


class Candidates(Generic[T]):
    """Items that stand for subscriptions, found by what they cover and by what covers them."""

    def __init__(self) -> None:
        self._shaped: dict[Shape, _Shaped[T]] = {}
        self._mixtures: dict[T, _Mixture[T]] = {}
        self._access: dict[AccessKey, dict[_Group[T], None]] = {}
        self._mentions: dict[AccessKey, dict[_Group[T], None]] = {}

    def add(self, item: T, parts: Parts) -> None:
        """Enter an item that is equivalent to none that is here."""
        if len(parts) > 1:
            mixture = self._mixtures[item] = _Mixture(item, parts)
            self._register(mixture, parts)
            return
        shape = _shape(parts[0])
        group = self._shaped.get(shape)
        if group is None:
            kind = _Chain[T] if len(shape.axes) < 2 else _Boxes[T]
            group = self._shaped[shape] = kind(shape, parts[0])
            self._register(group, parts)
        group.add(item, parts[0])

    def remove(self, item: T, parts: Parts) -> None:
        """Take out an item that was entered with these parts."""
        if len(parts) > 1:
            self._forget(self._mixtures.pop(item), parts)
            return
        shape = _shape(parts[0])
        group = self._shaped[shape]
        group.remove(item, parts[0])
        if not group.items:
            del self._shaped[shape]
            self._forget(group, parts)

    def same(self, parts: Parts) -> T | None:
        """An item of the same shape and keys: equivalent, if not the only way to be so."""
        if len(parts) > 1:
            return None
        group = self._shaped.get(_shape(parts[0]))
        return None if group is None else group.same(parts[0])

    def covering(self, parts: Parts) -> list[T]:
        """Items that cover all of `parts`; the minimal ones are among them."""
        groups: dict[_Group[T], None] = {}
        for found in self._accessible(parts[0]):
            groups.update(found)
        return [item for group in groups for item in group.covering(parts)]

    def covered(self, parts: Parts) -> list[T]:
        """Items that `parts` cover; the maximal ones are among them."""
        found: dict[T, None] = {}
        for part in parts:
            for group in self._mentioning(part):
                for item in group.covered(part, parts):
                    found[item] = None
        return list(found)

    def covering_effort(self, parts: Parts) -> int:
        """How many groups `covering` has to look at."""
        return sum(map(len, self._accessible(parts[0])))

    def covered_effort(self, parts: Parts) -> int:
        """How many groups `covered` has to look at."""
        return sum(len(self._mentioning(part)) for part in parts)

    def _accessible(self, part: Conjunct) -> list[dict[_Group[T], None]]:
        found = map(self._access.get, _all_keys(part))
        return [groups for groups in found if groups is not None]

    def _mentioning(self, part: Conjunct) -> dict[_Group[T], None]:
        lists = [self._mentions.get(key, {}) for key in _demands(part) or [()]]
        return min(lists, key=len)

    def _register(self, group: _Group[T], parts: Parts) -> None:
        for part in parts:
            key = self._access_key(part)
            group.access_keys.append(key)
            self._access.setdefault(key, {})[group] = None
        for key in _all_keys(parts[0]):
            self._mentions.setdefault(key, {})[group] = None

    def _access_key(self, part: Conjunct) -> AccessKey:
        """Of what the part demands, the point that the fewest groups demand; else any such thing."""
        demands = _demands(part)
        choice = demands[: len(part.points)] or demands or [()]
        return min(choice, key=lambda key: len(self._mentions.get(key, ())))

    def _forget(self, group: _Group[T], parts: Parts) -> None:
        _take_out(group, self._access, group.access_keys)
        _take_out(group, self._mentions, _all_keys(parts[0]))


class _Group(Protocol[T]):
    access_keys: list[AccessKey]

    def covering(self, parts: Parts) -> list[T]:
        """Of its items that cover all of `parts`, at least the minimal ones."""

    def covered(self, part: Conjunct, parts: Parts) -> list[T]:
        """Of its items that `part` covers, or `parts` together, at least the maximal ones."""


class _Mixture(Generic[T]):
    """One disjunction."""

    def __init__(self, item: T, parts: Parts) -> None:
        self.access_keys: list[AccessKey] = []
        self._items = [item]
        self._parts = parts

    def covering(self, parts: Parts) -> list[T]:
        return self._items if parts_cover(self._parts, parts) else []

    def covered(self, part: Conjunct, parts: Parts) -> list[T]:  # noqa: ARG002
        return self._items if parts_cover(parts, self._parts) else []


class _Shaped(ABC, Generic[T]):
    """Conjunctions of one shape, no two of them equivalent."""

    def __init__(self, shape: Shape, first: Conjunct) -> None:
        self.access_keys: list[AccessKey] = []
        self.items: list[T] = []
        self.axes = shape.axes
        self.fixed = Conjunct(first.filter, first.points, {}, first.others)
        # By attribute, where its lower and its upper end stand among the axes.
        self.places: dict[str, dict[bool, int]] = {}
        for i, (name, upper) in enumerate(shape.axes):
            self.places.setdefault(name, {})[upper] = i

    @abstractmethod
    def add(self, item: T, part: Conjunct) -> None:
        """Enter an item."""

    @abstractmethod
    def remove(self, item: T, part: Conjunct) -> None:
        """Take out an item that was entered with this part."""

    @abstractmethod
    def same(self, part: Conjunct) -> T | None:
        """The item that has the keys of `part`, which is of this shape."""

    @abstractmethod
    def covering(self, parts: Parts) -> list[T]:
        """Of its items that cover all of `parts`, at least the minimal ones."""

    @abstractmethod
    def covered(self, part: Conjunct, parts: Parts) -> list[T]:
        """Of its items that `part` covers, at least the maximal ones."""

    def keys_of(self, part: Conjunct) -> list[Number]:
        """The keys of a conjunction of this shape."""
        return [-part.spans[name][1] if upper else part.spans[name][0] for name, upper in self.axes]

    def ceiling(self, parts: Parts) -> list[Number] | None:
        """What the keys of an item may be at most for it to cover all of `parts`; None if it cannot."""
        for part in parts:
            if not self.fixed.covers(part):
                return None
        ceiling: list[Number] = []
        for name, upper in self.axes:
            key: Number = math.inf
            for part in parts:
                span = part.span(name)
                if span is None:
                    return None
                key = min(key, -span[1] if upper else span[0])
            ceiling.append(key)
        return ceiling

    def floor(self, part: Conjunct) -> list[Number] | None:
        """What the keys of an item must be at least for `part` to cover it; None if it cannot.

        That is all that is asked of the item if `part` `looks_at_ends` only.
        """
        fixed = self.fixed
        for name, point in part.points.items():
            if fixed.points.get(name) != point:
                return None
        floor: list[Number] = [-math.inf] * len(self.axes)
        for name, (low, high) in part.spans.items():
            place = self.places.get(name)
            if place is None:
                span = fixed.span(name)
                if span is None or span[0] < low or high < span[1]:
                    return None
                continue
            for upper, key in ((False, low), (True, -high)):
                if upper in place:
                    floor[place[upper]] = key
                elif key != -math.inf:
                    return None
        for name, wide in part.others.items():
            if name not in self.places and not fixed.lies_within(name, wide):
                return None
        return floor

    def looks_at_ends(self, part: Conjunct) -> bool:
        """Whether the axes are all by which `part` tells the items apart."""
        return not any(name in self.places for name in part.others)


class _Chain(_Shaped[T]):
    """Conjunctions with at most one free end, the widest first."""

    def __init__(self, shape: Shape, first: Conjunct) -> None:
        super().__init__(shape, first)
        self._keys: list[Number] = []
        self._parts: list[Conjunct] = []

    def add(self, item: T, part: Conjunct) -> None:
        key = _first(self.keys_of(part))
        i = bisect_left(self._keys, key)
        self._keys.insert(i, key)
        self._parts.insert(i, part)
        self.items.insert(i, item)

    def remove(self, item: T, part: Conjunct) -> None:
        i = bisect_left(self._keys, _first(self.keys_of(part)))
        assert self.items[i] is item
        del self._keys[i], self._parts[i], self.items[i]

    def same(self, part: Conjunct) -> T | None:
        key = _first(self.keys_of(part))
        i = bisect_left(self._keys, key)
        return self.items[i] if i < len(self._keys) and self._keys[i] == key else None

    def covering(self, parts: Parts) -> list[T]:
        ceiling = self.ceiling(parts)
        if ceiling is None:
            return []
        i = bisect_right(self._keys, _first(ceiling))
        return self.items[i - 1 : i]

    def covered(self, part: Conjunct, parts: Parts) -> list[T]:  # noqa: ARG002
        floor = self.floor(part)
        if floor is None:
            return []
        i = bisect_left(self._keys, _first(floor))
        if not self.looks_at_ends(part):
            i = bisect_left(self._parts, True, lo=i, key=part.covers)
        return self.items[i : i + 1]


class _Boxes(_Shaped[T]):
    """Conjunctions with several free ends, in no order.

    The keys stand in an array of floats, a row an axis. Rounding an int to a float keeps `<=` true, so
    comparisons there miss nothing; what they find has to be compared exactly only if something was rounded.
    """

    def __init__(self, shape: Shape, first: Conjunct) -> None:
        super().__init__(shape, first)
        self._keys: NDArray[np.float64] = np.empty((len(shape.axes), _COLUMNS_AT_FIRST))
        self._rounded = False
        self._parts: list[Conjunct] = []
        self._columns: dict[T, int] = {}

    def add(self, item: T, part: Conjunct) -> None:
        i = self._columns[item] = len(self.items)
        if i == self._keys.shape[1]:
            self._keys = np.concatenate([self._keys, np.empty_like(self._keys)], axis=1)
        keys = self.keys_of(part)
        self._keys[:, i] = keys
        self._rounded |= _is_rounded(keys)
        self._parts.append(part)
        self.items.append(item)

    def remove(self, item: T, part: Conjunct) -> None:  # noqa: ARG002
        # The last one takes its place.
        i = self._columns.pop(item)
        last, last_part = self.items.pop(), self._parts.pop()
        if i < len(self.items):
            self._keys[:, i] = self._keys[:, len(self.items)]
            self.items[i], self._parts[i], self._columns[last] = last, last_part, i

    def same(self, part: Conjunct) -> T | None:
        found = self._columns_where(np.equal, self.keys_of(part)).tolist()
        return next((self.items[i] for i in found if self._parts[i].spans == part.spans), None)

    def covering(self, parts: Parts) -> list[T]:
        ceiling = self.ceiling(parts)
        if ceiling is None:
            return []
        found = self._columns_where(np.less_equal, ceiling)
        if self._rounded or _is_rounded(ceiling):
            return [self.items[i] for i in found if parts_cover((self._parts[i],), parts)]
        return [self.items[i] for i in _greatest(self._keys[:, found], found)]

    def covered(self, part: Conjunct, parts: Parts) -> list[T]:  # noqa: ARG002
        floor = self.floor(part)
        if floor is None:
            return []
        found = self._columns_where(np.greater_equal, floor)
        if self._rounded or _is_rounded(floor) or not self.looks_at_ends(part):
            return [self.items[i] for i in found if part.covers(self._parts[i])]
        return [self.items[i] for i in _greatest(-self._keys[:, found], found)]

    def _columns_where(self, compare: np.ufunc, keys: list[Number]) -> NDArray[np.int64]:
        """The items whose keys all compare so with `keys`, after rounding."""
        kept = np.ones(len(self.items), bool)
        for row, key in zip(self._keys[:, : len(self.items)], keys, strict=True):
            kept &= compare(row, float(key))
        return np.flatnonzero(kept)


def _is_rounded(keys: list[Number]) -> bool:
    return any(float(key) != key for key in keys)


def _greatest(keys: NDArray[np.float64], names: NDArray[np.int64]) -> list[int]:
    """The names of the columns that no other column exceeds on every axis; no two columns are equal."""
    # In this order no column exceeds one before it.
    order = np.lexsort(keys)[::-1]
    keys, names = keys[:, order], names[order]
    greatest = []
    while len(names):
        greatest.append(int(names[0]))
        beside = (keys > keys[:, :1]).any(axis=0)
        keys, names = keys[:, beside], names[beside]
    return greatest


def _first(keys: list[Number]) -> Number:
    return keys[0] if keys else 0


def _shape(part: Conjunct) -> Shape:
    axes = []
    for name, (low, high) in sorted(part.spans.items()):
        if low != -math.inf:
            axes.append(Axis(name, False))
        if high != math.inf:
            axes.append(Axis(name, True))
    return Shape(
        tuple(sorted(part.points.items())), tuple(axes), tuple(sorted(part.others.items()))
    )


def _demands(part: Conjunct) -> list[AccessKey]:
    """What it demands, an access key an attribute; points come first."""
    demands: list[AccessKey] = list(part.points.items())
    demands.extend((name,) for name in part.spans)
    demands.extend((name,) for name in part.others)
    return demands


def _all_keys(part: Conjunct) -> list[AccessKey]:
    """All access keys that something which covers the part can have."""
    return [(), *((name,) for name in part.points), *_demands(part)]


def _take_out(
    group: _Group[T],
    table: dict[AccessKey, dict[_Group[T], None]],
    keys: Iterable[AccessKey],
) -> None:
    for key in keys:
        groups = table.get(key)
        if groups is not None:
            groups.pop(group, None)
            if not groups:
                del table[key]
