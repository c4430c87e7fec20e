"""How the index reads an event, for kernels that make one from something else than an `Event`.

A part of the index, as its kernels are, and like them for those who know it from inside.
"""

from __future__ import annotations

from typing import NamedTuple

from roost.matching.contract import Ids
from roost.matching.index import Index
from roost.matching.kernels import search
from roost.matching.spans import Odds
from roost.matching.vocabulary import Attribute, Watcher


class Reading(NamedTuple):
    """What is asked of events."""

    words: list[str]  # attributes of which only words are asked, in their order
    bounds: dict[str, int]  # those with bounds, and their slots
    others: list[Attribute]  # those of which anything else is asked
    many: bool  # words are taken in the order of the event, not in theirs
    event: Ids  # where it goes: tokens, and from `search.NUMBERS` on numbers by slot


class IndexReader:
    """An index from inside."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @property
    def revision(self) -> int:
        """Another number when what `reading` and `frame` have said is no longer so."""
        return self._index._store.revision

    @property
    def answers_max(self) -> int:
        """How many answers a match may have, with the room that it needs behind them."""
        return self._index._out_size

    @property
    def odds(self) -> Odds:
        """What keys of the index's own stand for."""
        return self._index._odds

    def watch(self, watcher: Watcher) -> None:
        """See `Store.watch`."""
        self._index._store.watch(watcher)

    def reading(self) -> Reading:
        """As it is now."""
        index = self._index
        if index._revision != index._store.revision:
            index._refresh()
        bounds = dict(index._bounds_of.values())
        return Reading(list(index._words_of), bounds, index._others, index._many, index._event)

    def frame(self, answers: Ids) -> Ids:
        """What `search.match_one` takes: an event of `reading` is matched into `answers`, from 0 on.

        An answer below zero is a key of the index's own: see `odds`.
        """
        store = self._index._store
        return search.frame_of(store.cells, store.directory, self._index._event, answers)
