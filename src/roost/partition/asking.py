"""Questions: which events a dispatcher asks which matchers about, in how many notes.

All that comes at once is asked about at once: events with the same attributes become columns (`batch`), and
are divided among the best candidates of each (`candidates`). What there is none for is asked about again
later, and so is all while nobody knows what has to be known (`needs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from roost.broker.hops import Link
from roost.broker.pausing import Pausing
from roost.partition import notes
from roost.partition.batch import Batch, Written
from roost.partition.candidates import Candidates
from roost.partition.direct import Envelope
from roost.partition.holding import Held, Holding
from roost.partition.needs import Needs
from roost.partition.segments import Option
from roost.partition.shares import Shares


class Asking:
    """Of one dispatcher. `later()`: have `again` called. `direct`: whole events go, and matchers deliver."""

    def __init__(
        self,
        me: str,
        holding: Holding,
        candidates: Candidates,
        shares: Shares,
        needs: Needs,
        links: Mapping[str, Link],
        pausing: Pausing,
        *,
        say: Callable[[Link, notes.Said], None],
        later: Callable[[], None],
        link_outbox_max: int,
        direct: bool,
    ) -> None:
        self._me = me
        self._holding = holding
        self._candidates = candidates
        self._shares = shares
        self._needs = needs
        self._links = links
        self._pausing = pausing
        self._say = say
        self._later = later
        self._link_outbox_max = link_outbox_max
        self._direct = direct
        self._due: dict[Held, None] = {}

    def add(self, some: Iterable[Held]) -> None:
        """They are to be asked about, when all that has come at once has been handled."""
        for held in some:
            self._due[held] = None

    def again(self) -> None:
        """About all that nobody is asked about."""
        self.add(self._holding.waiting())

    def put(self, now: float) -> list[list[Held]]:
        """Ask now, with all that has been subscribed to here; what was asked about, by their attributes."""
        if not self._due:
            return []
        self._shares.flush()
        due, self._due = self._due, {}
        kinds: dict[tuple[str, ...], list[Held]] = {}
        for held in due:
            if held.asked is None and held.found is None:
                kinds.setdefault(tuple(held.publication.event.attributes), []).append(held)
        for some in kinds.values():
            self._divide(some, now)
        return list(kinds.values())

    def _divide(self, some: Sequence[Held], now: float) -> None:
        """Ask the best candidates that have not been asked; about what there is none for, later."""
        if not self._needs.complete:
            self._later()  # nobody knows what has to be known
            return
        events = Batch.of([held.publication.event.attributes for held in some])
        points = events.points(self._candidates.dimensions)
        tried = [held.tried for held in some]
        division, nobody = self._candidates.divide(points, tried, now)
        for option, places in division:
            self._question(option, [some[place] for place in places.tolist()], events.take(places))
        for place in nobody:
            some[place].tried = ()
            self._later()

    def _question(self, option: Option, some: Sequence[Held], events: Batch) -> None:
        """In as many notes as it takes."""
        count, parts = len(some), 1
        if count > notes.EVENTS_MAX:
            parts = -(-count // notes.EVENTS_MAX)
        elif count > 1 and self._size(some, events) > notes.BULK_BYTES:
            parts = 2
        if parts > 1:
            for places in np.array_split(np.arange(count), parts):
                part = some[places[0] : places[-1] + 1]
                self._question(option, part, events.take(places))
            return
        link, heard = self._links[option.matcher], self._shares.heard(option.matcher)
        request = self._holding.asking(some, option, heard)
        needs = {**self._needs.marks, self._me: (self._shares.epoch, heard)}
        whole = tuple(Envelope.of(held.publication) for held in some) if self._direct else ()
        written = Written(count) if whole else events.written()
        self._say(link, notes.Asks(self._holding.life, request, option.key, needs, written, whole))
        lane = link.channel.data
        if lane.sent - lane.acked >= self._link_outbox_max:
            for held in some:
                if held.source is not None:
                    self._pausing.block(held.source, link)

    def _size(self, some: Sequence[Held], events: Batch) -> int:
        if self._direct:
            return events.size() + sum(len(held.publication.payload) for held in some)
        return events.size()
