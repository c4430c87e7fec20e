"""What a dispatcher tells matchers of its clients' subscriptions, and what it has promised each.

The other end of `wards`. Each change of a subscription has a number. A matcher that is promised some
regions is told of every subscription that overlaps one of them, then of the promise, and from then on of
every change, with its number. All matchers hear how far the numbers are, also those that a change does not
concern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from roost.language import Interest
from roost.partition.dimensions import Dimension, Footprint, Span, footprint_of
from roost.partition.notes import Fill
from roost.partition.segments import Bound, Region, overlaps_region

# So many subscriptions in a note: a frame has a bound.
CHUNK = 100


class Share:
    """What one matcher has been told."""

    __slots__ = ("dimensions", "life", "number", "promised", "told")

    def __init__(self, life: str) -> None:
        self.life = life
        self.number = 0
        self.promised: tuple[Region, ...] | None = None
        self.dimensions: tuple[Dimension, ...] = ()  # that these are on
        self.told: dict[str, None] = {}


class Shares:
    """Of all matchers. `send(matcher, fill)` says it."""

    def __init__(self, dimensions: Sequence[Dimension], send: Callable[[str, Fill], None]) -> None:
        self.epoch = ""
        self.number = 0  # of the last change
        self._dimensions = tuple(dimensions)
        self._send = send
        self.shares: dict[str, Share] = {}
        self._interests: dict[str, Interest] = {}
        self._texts: dict[str, str] = {}
        self._slots: dict[str, int] = {}
        self._footprints: dict[str, Footprint] = {}
        self._changed: dict[str, None] = {}  # ids that matchers have not been told of

    def add(self, id_: str, interest: Interest, slot: int) -> None:
        """It is told under this number, which matchers answer with."""
        self._interests[id_] = interest
        self._texts[id_] = str(interest)
        self._slots[id_] = slot
        self._footprints[id_] = footprint_of(interest, self._dimensions)
        self._change(id_)

    def remove(self, id_: str) -> None:
        del self._interests[id_], self._texts[id_], self._slots[id_], self._footprints[id_]
        self._change(id_)

    def _change(self, id_: str) -> None:
        self.number += 1
        self._changed[id_] = None

    def adopt(self, dimensions: Sequence[Dimension]) -> None:
        """What is promised from now on is on these."""
        if tuple(dimensions) != self._dimensions:
            self.flush()
            self._dimensions = tuple(dimensions)
            for id_, interest in self._interests.items():
                self._footprints[id_] = footprint_of(interest, dimensions)

    def heard(self, matcher: str) -> int:
        """The number of the last change that a matcher has been told of."""
        return self.shares[matcher].number

    # --- telling --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Tell everybody what has changed."""
        if not self._changed:
            return
        changed, self._changed = list(self._changed), {}
        for matcher, share in self.shares.items():
            if share.promised is not None and share.number < self.number:
                added = [i for i in changed if self._concerns(i, share.promised)]
                # One that is said again takes the place of what it was: at no moment is there none.
                removed = [i for i in changed if i in share.told and i not in added]
                self._tell(matcher, share, added, removed)

    def begin(self, matcher: str, life: str, regions: tuple[Region, ...]) -> None:
        """A matcher begins, and knows nothing."""
        self.shares[matcher] = Share(life)
        self.promise(matcher, regions)

    def forget(self, matcher: str) -> None:
        self.shares.pop(matcher, None)

    def promise(self, matcher: str, regions: tuple[Region, ...]) -> None:
        """These are a matcher's from now on: it hears what it lacks, and forgets what is in none of them."""
        share = self.shares.get(matcher)
        if share is None:
            return
        if share.promised == regions and share.dimensions == self._dimensions:
            return
        self.flush()
        wanted = {i: None for i, f in self._footprints.items() if _overlaps(f, regions)}
        added = [i for i in wanted if i not in share.told]
        self._tell(matcher, share, added, [])
        share.promised, share.told, share.dimensions = regions, wanted, self._dimensions
        self._send(
            matcher,
            Fill(
                share.life,
                self.epoch,
                self.number,
                promised=regions,
                dimensions=self._dimensions,
            ),
        )

    def _concerns(self, id_: str, regions: tuple[Region, ...]) -> bool:
        return id_ in self._footprints and _overlaps(self._footprints[id_], regions)

    def _tell(
        self, matcher: str, share: Share, added: Sequence[str], removed: Sequence[str]
    ) -> None:
        """In parts; the number comes with the last of them."""
        number = self.number
        for part in _chunks(removed):
            self._send(matcher, Fill(share.life, self.epoch, share.number, removed=tuple(part)))
        for part in _chunks(added):
            texts = tuple((i, self._texts[i], self._slots[i]) for i in part)
            self._send(matcher, Fill(share.life, self.epoch, share.number, added=texts))
        for id_ in removed:
            share.told.pop(id_, None)
        share.told.update(dict.fromkeys(added))
        share.number = number
        self._send(matcher, Fill(share.life, self.epoch, number))

    # --- for decisions --------------------------------------------------------------------------------

    def sample(self, most: int) -> list[Interest]:
        """Some of the subscriptions, from all of the time that they have come in."""
        every = list(self._interests.values())
        return every[:: max(1, -(-len(every) // most))]

    def spans_in(self, bound: Bound, most: int = 500) -> list[Span]:
        """What some of the subscriptions take of a segment."""
        dimension, low, high = bound
        found: list[Span] = []
        for footprint in self._footprints.values():
            for one in footprint:
                spans = one[dimension]
                if spans is not None:
                    found += [s for s in spans if s[0] < high and s[1] >= low]
            if len(found) >= most:
                break
        return found


def _overlaps(footprint: Footprint, regions: Iterable[Region]) -> bool:
    return any(overlaps_region(footprint, region) for region in regions)


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
