"""The obvious matcher: try every subscription. It is the meaning that the fast index is held to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from roost.errors import type_of
from roost.language import Event, Interest, filters_of
from roost.matching.contract import DuplicateIdError, Ids, UnknownIdError, check_id


class Naive:
    """A `Matcher` that asks each subscription in turn."""

    def __init__(self) -> None:
        self._interests: dict[int, Interest] = {}

    def add(self, id_: int, interest: Interest) -> None:
        """Hold a subscription. DuplicateIdError if the id is in use."""
        if check_id(id_) in self._interests:
            raise DuplicateIdError(id_)
        filters_of(interest)  # or it says what it is instead
        self._interests[id_] = interest

    def remove(self, id_: int) -> None:
        """Forget a subscription. UnknownIdError if there is none."""
        if self._interests.pop(check_id(id_), None) is None:
            raise UnknownIdError(id_)

    def match(self, event: Event) -> Ids:
        """The ids of the subscriptions that the event matches."""
        if not isinstance(event, Event):
            raise TypeError(f"the event is {type_of(event)}; expected an Event")
        matched = [id_ for id_, interest in self._interests.items() if interest.matches(event)]
        return np.array(matched, np.int64)

    def match_batch(self, events: Iterable[Event]) -> tuple[Ids, Ids]:
        """(offsets, ids): event i matches ids[offsets[i]:offsets[i + 1]]."""
        if not isinstance(events, Iterable):
            raise TypeError(f"the events are {type_of(events)}; expected Events")
        answers = [self.match(event) for event in events]
        offsets = np.cumsum([0, *map(len, answers)], dtype=np.int64)
        return offsets, np.concatenate([np.empty(0, np.int64), *answers])

    def __len__(self) -> int:
        return len(self._interests)
