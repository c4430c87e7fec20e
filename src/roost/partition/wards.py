"""What a matcher knows: the subscriptions that each dispatcher has told it of, in a set and an index a
dimension.

A dispatcher *promises* regions: from then on the matcher hears of every subscription of the dispatcher's
clients that overlaps one of them, in the order in which they change. The matcher answers for an event only
if **every** dispatcher has promised it a region with the event in it, and it has heard of each dispatcher
as much as the question needs. So what it answers is complete, whichever table anybody has; a table only
says whom to ask.

A subscription that says nothing of some attributes, or little, would be in all sets of a matcher: such *wide*
ones are kept once, apart, and searched with whichever set is asked for (004 section VI).

A dispatcher that starts again tells all anew, in a new *epoch*. What it said before stays in use until the
first promise of the new one: then that replaces it at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from roost.language import Subscription, parse_subscription
from roost.matching import Ids, Index
from roost.partition.batch import Batch
from roost.partition.dimensions import Dimension, Footprint, footprint_of
from roost.partition.names import Matches, Names
from roost.partition.notes import Asks, Fill, Mark
from roost.partition.segments import Region, SetKey, in_regions, key_of, overlaps_region

# The set of what belongs to all sets of a matcher: it is kept once, apart, and searched for every event.
WIDE: SetKey = ()
# Subscriptions that have been read, and need not be again.
PARSED_MAX = 8_192


class Kept:
    """A subscription of somebody else's client."""

    __slots__ = ("dispatcher", "footprint", "handle", "id", "keys", "subscription")

    def __init__(self, dispatcher: str, id_: str, handle: int, subscription: Subscription) -> None:
        self.dispatcher = dispatcher
        self.id = id_
        self.handle = handle
        self.subscription = subscription
        self.footprint: Footprint = ()
        self.keys: tuple[SetKey, ...] = ()  # the sets that it is in


class Ward:
    """What one dispatcher has told, in one epoch."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.number = 0
        self.dimensions: tuple[Dimension, ...] = ()
        self.promised: tuple[Region, ...] | None = None  # None: not yet
        self._regions: dict[SetKey, list[Region]] = {}  # the same, by set
        self.kept: dict[str, Kept] = {}

    def promise(self, promised: tuple[Region, ...], dimensions: Sequence[Dimension]) -> None:
        self.promised = promised
        self.dimensions = tuple(dimensions)
        self._regions = {}
        for region in promised:
            self._regions.setdefault(key_of(region), []).append(region)

    @property
    def keys(self) -> Iterable[SetKey]:
        return self._regions

    def covers(self, key: SetKey, events: Batch) -> NDArray[np.bool_]:
        """Of each event, whether all that can match it is in this set."""
        return in_regions(events.points(self.dimensions), self._regions.get(key, ()))


class Wards:
    """Of all dispatchers; and the sets that are searched."""

    def __init__(self) -> None:
        self.wards: dict[str, Ward] = {}
        self._coming: dict[str, Ward] = {}  # epochs without a promise ...
        self._going: dict[str, Ward] = {}  # ... and those that one has replaced
        self.sets: dict[SetKey, Index] = {}
        self.entries: dict[int, Kept] = {}
        self._names = Names()

    def size(self, key: SetKey) -> int:
        """How many are searched for an event of this set."""
        return self._length(key) + self._length(WIDE)

    def sizes(self) -> dict[SetKey, int]:
        """Of all sets that there are promises for, or were."""
        keys = {key: None for ward in self.wards.values() for key in ward.keys}
        keys.update((key, None) for key in self.sets if key != WIDE)
        return {key: self.size(key) for key in keys}

    @property
    def wide(self) -> int:
        """How many are kept apart."""
        return self._length(WIDE)

    def _length(self, key: SetKey) -> int:
        return len(self.sets[key]) if key in self.sets else 0

    # --- being filled -------------------------------------------------------------------------------

    def fill(self, dispatcher: str, fill: Fill) -> None:
        """A dispatcher tells."""
        for _ in self.filling(dispatcher, fill):
            pass

    def filling(self, dispatcher: str, fill: Fill) -> Iterator[None]:
        """The same in steps, a subscription each. Between any two, answers are as complete as they say."""
        ward = yield from self._ward(dispatcher, fill.epoch)
        for id_ in fill.removed:
            self._drop(ward, id_)
            yield
        for id_, text, slot in fill.added:
            self._drop(ward, id_)
            self._add(dispatcher, ward, id_, text, slot)
            yield
        ward.number = max(ward.number, fill.number)
        if fill.promised is not None:
            yield from self._promise(dispatcher, ward, fill.promised, fill.dimensions)

    def _ward(self, dispatcher: str, epoch: str) -> Generator[None, None, Ward]:
        there = self.wards.get(dispatcher)
        if there is not None and there.epoch == epoch:
            return there
        coming = self._coming.get(dispatcher)
        if coming is None or coming.epoch != epoch:
            if coming is not None:
                yield from self._clear(coming)
            coming = self._coming[dispatcher] = Ward(epoch)
        return coming

    def _add(self, dispatcher: str, ward: Ward, id_: str, text: str, slot: int) -> None:
        handle = self._names.add(dispatcher, id_, slot)
        kept = Kept(dispatcher, id_, handle, _parsed(text))
        ward.kept[id_] = self.entries[kept.handle] = kept
        if ward.promised is not None:
            kept.footprint = footprint_of(kept.subscription, ward.dimensions)
            self._place(kept, _keys(kept.footprint, ward.promised), only=True)

    def _promise(
        self,
        dispatcher: str,
        ward: Ward,
        promised: tuple[Region, ...],
        dimensions: Sequence[Dimension],
    ) -> Iterator[None]:
        """Into the sets that each belongs to; then it is promised; then out of all others."""
        belongs: dict[Kept, tuple[SetKey, ...]] = {}
        for kept in ward.kept.values():
            kept.footprint = footprint_of(kept.subscription, dimensions)
            belongs[kept] = keys = _keys(kept.footprint, promised)
            if WIDE not in kept.keys:  # else it is found already, whatever is asked
                self._place(kept, keys, only=WIDE in keys)
            yield
        if self._coming.get(dispatcher) is ward:
            if dispatcher in self.wards:  # of an earlier epoch: from now on nothing is known
                self._going[dispatcher] = self.wards.pop(dispatcher)
                yield from self._clear(self._going[dispatcher])
                del self._going[dispatcher]
            self.wards[dispatcher] = self._coming.pop(dispatcher)
        ward.promise(promised, dimensions)
        for kept, keys in belongs.items():
            self._place(kept, keys, only=True)
            if not keys:
                self._drop(ward, kept.id)
            yield

    def _place(self, kept: Kept, keys: tuple[SetKey, ...], *, only: bool) -> None:
        """Into these sets; and out of all others, or not yet."""
        for key in keys:
            if key not in kept.keys:
                self.sets.setdefault(key, Index()).add(kept.handle, kept.subscription)
        others = [key for key in kept.keys if key not in keys]
        if only:
            for key in others:
                self.sets[key].remove(kept.handle)
            others = []
        kept.keys = (*others, *keys)

    def _drop(self, ward: Ward, id_: str) -> None:
        kept = ward.kept.pop(id_, None)
        if kept is not None:
            for key in kept.keys:
                self.sets[key].remove(kept.handle)
            del self.entries[kept.handle]
            self._names.remove(kept.handle)

    def forget(self, dispatcher: str) -> None:
        """It will tell all anew, and until then nothing is known of it. Whatever it was telling is over."""
        for wards in (self.wards, self._coming, self._going):
            if dispatcher in wards:
                for _ in self._clear(wards.pop(dispatcher)):
                    pass

    def _clear(self, ward: Ward) -> Iterator[None]:
        for id_ in list(ward.kept):
            self._drop(ward, id_)
            yield

    # --- being asked --------------------------------------------------------------------------------

    def objection_to(self, asks: Asks) -> str:
        """Why none of it can be answered completely; nothing if some can."""
        for dispatcher, mark in asks.needs.items():
            ward = self.wards.get(dispatcher)
            if ward is None:
                return f"nothing has been heard of {dispatcher}"
            if not self._has_heard(ward, mark):
                return f"of {dispatcher} {ward.number} is known, and {mark[1]} needed"
        return ""

    def covered(self, asks: Asks, events: Batch) -> NDArray[np.bool_]:
        """Of each event, whether all dispatchers have promised that part."""
        found = np.ones(events.count, np.bool_)
        for dispatcher in asks.needs:
            found &= self.wards[dispatcher].covers(asks.key, events)
        return found

    def _has_heard(self, ward: Ward, mark: Mark) -> bool:
        epoch, number = mark
        return ward.epoch == epoch and ward.number >= number

    def match(self, asker: str, key: SetKey, events: Batch) -> Matches:
        """The subscriptions of one set that each of these events matches."""
        some = [self.sets[k] for k in (key, WIDE) if self._length(k)]
        if not some:
            return bytes(4 * events.count), b"", {}
        found = [events.match(index) for index in some]
        return self._names.found(asker, *(found[0] if len(found) == 1 else _joined(*found)))

    def is_filled(self, regions: Iterable[Region], dispatchers: Iterable[str]) -> bool:
        """Whether all of these have promised all of those."""
        wanted = list(regions)
        for dispatcher in dispatchers:
            ward = self.wards.get(dispatcher)
            if ward is None or ward.promised is None:
                return False
            if not all(region in ward.promised for region in wanted):
                return False
        return True


@lru_cache(maxsize=PARSED_MAX)
def _parsed(text: str) -> Subscription:
    """In the laboratory all matchers are in one process, and are told the same."""
    return parse_subscription(text)


@cache
def warm_up() -> None:
    """Have the kernels loaded, and compiled where they never have been, before the first event comes."""
    index = Index()
    index.add(1, parse_subscription("x > 1"))
    Batch.of([{"x": 2.0}]).match(index)


def _keys(footprint: Footprint, regions: Iterable[Region]) -> tuple[SetKey, ...]:
    """The sets that a subscription belongs to. What belongs to all, and these are several, is wide."""
    every: dict[SetKey, bool] = {}
    for region in regions:
        key = key_of(region)
        every[key] = every.get(key, False) or overlaps_region(footprint, region)
    found = tuple(key for key, belongs in every.items() if belongs)
    return (WIDE,) if len(found) == len(every) > 1 else found


def _joined(a: tuple[Ids, Ids], b: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    """What two sets that have nothing in common have found: of each event the first's, then the second's."""
    (ends_a, ids_a), (ends_b, ids_b) = a, b
    ids = np.empty(len(ids_a) + len(ids_b), np.int64)
    ids[np.arange(len(ids_a)) + np.repeat(ends_b[:-1], np.diff(ends_a))] = ids_a
    ids[np.arange(len(ids_b)) + np.repeat(ends_a[1:], np.diff(ends_b))] = ids_b
    return ends_a + ends_b, ids
