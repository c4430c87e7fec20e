"""Events that are let go together go to clients as bytes: one *run* for each, written by kernels.

A delivery is a message with a number, and by itself takes microseconds of Python, times the clients that an
event is for, times the events of an answer. So what a stretch of events sends is written at once: sorted by
client (`roster`), for each a head, names and the event's own bytes (`kernels.framing`), and kept as one run
of the client's outbox (see `roost.broker.runs`).

That is for the usual: a client that is there, reads, has room for all of it and was told of all that it lost;
an event that is not large, of which nothing has changed since a matcher was asked, and whose names fit into a
frame. Anything else goes one by one, in its place, as `Station.route` says it. The two ways end in the same
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from roost.broker.commands import SendRun
from roost.broker.config import BrokerConfig
from roost.broker.hops import Session
from roost.broker.messages import DATA, Delivery, Frame, Publication
from roost.broker.runs import Run
from roost.broker.work import Work
from roost.chunks.taking import OWN_BYTES_MAX
from roost.language import Event
from roost.partition.kernels.framing import NAMES_MAX, measure_frames, measure_names, write_frames
from roost.partition.notes import Found
from roost.partition.roster import Answer, Roster
from roost.wire import delivery_head, publication_bytes
from roost.wire.runs import AS_SENT

# So many events are written at once: the bytes of a run go when the last of them has been acknowledged.
STRETCH = 512
_NUMBER_MAX = 0xFFFF_FFFF  # of a message, as frames mostly spell it
_NOT_WRITTEN = -1

OneByOne: TypeAlias = Callable[[Publication, Mapping[Session, Sequence[str]]], None]


class Parting(NamedTuple):
    """An event that is let go: whom it is for stands at a place of an answer."""

    publication: Publication
    answer: Answer
    place: int


def _head() -> bytes:
    """What stands in front of the names in the frame of a delivery to a client."""
    nothing = Delivery(Publication("", 0, Event({})), ())
    return delivery_head(Frame(DATA, 0, nothing, 0), 0)[:-1]


_HEAD = np.frombuffer(_head(), np.uint8)


class Bundles:
    """Of one dispatcher. `one_by_one` sends an event to some of its clients."""

    def __init__(
        self, roster: Roster, work: Work, config: BrokerConfig, one_by_one: OneByOne
    ) -> None:
        self._roster = roster
        self._work = work
        self._one_by_one = one_by_one
        self._ids_bytes_max = min(config.delivery_ids_bytes_max, NAMES_MAX)
        self._outbox_max = config.session_outbox_max

    def let_go(self, some: Sequence[Parting]) -> None:
        """Send events to all clients here that they are for, in this order."""
        for first in range(0, len(some), STRETCH):
            _Stretch(self._roster, some[first : first + STRETCH], self._ids_bytes_max).send(self)

    def is_usual(self, session: Session, count: int) -> bool:
        """Whether so many more go out to a client at once, and nobody has to wait or be told for that."""
        lane = session.channel.data
        after = lane.sent + count
        return (
            session.open
            and not session.dropped
            and not lane.memory_max
            and lane.journal is None
            and after - lane.acked <= self._outbox_max
            and after <= _NUMBER_MAX
        )

    def alone(self, event: Parting, only: Mapping[Session, object] | None = None) -> None:
        """One event, to all clients, or only to some."""
        publication, answer, place = event
        here = self._roster.receivers(answer, place, publication.event)
        if only is not None:
            here = {session: ids for session, ids in here.items() if session in only}
        if here:
            self._one_by_one(publication, here)

    def sent(self, session: Session, last: int, data: bytes) -> None:
        lane = session.channel.data
        run = Run(lane.sent + 1, last, data, AS_SENT)
        lane.push_run(run)
        assert session.connection is not None
        self._work.command(SendRun(session.connection, run))


class _Stretch:
    """Some events, sorted by client."""

    def __init__(self, roster: Roster, some: Sequence[Parting], ids_bytes_max: int) -> None:
        self._roster = roster
        self._some = some
        self._groups = groups = roster.groups([(event.answer, event.place) for event in some])
        bodies = [publication_bytes(event.publication) for event in some]
        lengths = np.array([len(body) for body in bodies])
        self._body_ends = np.cumsum(lengths)
        self._bodies = np.frombuffer(b"".join(bodies), np.uint8)
        self._sizes = np.empty(len(groups.ends), np.int64)
        odd = {*groups.changed, *np.flatnonzero(lengths > OWN_BYTES_MAX).tolist()}
        if measure_names(groups.slots, groups.ends, roster.widths, self._sizes) > ids_bytes_max:
            many = np.flatnonzero(self._sizes > ids_bytes_max)
            odd.update(np.searchsorted(groups.event_ends, many, "right").tolist())
        self._odd = sorted(odd)

    def send(self, bundles: Bundles) -> None:
        for first, last in self._usual():
            if first < last:
                self._write(first, last, bundles)
            if last < len(self._some):
                bundles.alone(self._some[last])

    def _usual(self) -> Iterator[tuple[int, int]]:
        """From where to where there are no odd events; behind each of them is one, if it is not the end."""
        first = 0
        for place in (*self._odd, len(self._some)):
            yield first, place
            first = place + 1

    def _write(self, first: int, last: int, bundles: Bundles) -> None:
        roster, groups = self._roster, self._groups
        counts = np.zeros(len(roster.sessions), np.int64)
        totals = np.zeros_like(counts)
        measure_frames(
            groups.owners,
            self._sizes,
            groups.event_ends,
            self._body_ends,
            first,
            last,
            len(_HEAD),
            counts,
            totals,
        )
        numbers, places = np.zeros_like(counts), np.full_like(counts, _NOT_WRITTEN)
        runs: list[tuple[Session, int, int, int]] = []
        others: dict[Session, None] = {}
        size = 0
        for owner in np.flatnonzero(counts).tolist():
            session, count = roster.sessions[owner], int(counts[owner])
            if session is None:
                continue  # it was ended by an event before these
            if not bundles.is_usual(session, count):
                others[session] = None
                continue
            sent, end = session.channel.data.sent, size + int(totals[owner])
            numbers[owner], places[owner] = sent, size
            runs.append((session, sent + count, size, end))
            size = end
        out = np.empty(size, np.uint8)
        write_frames(
            groups.slots,
            groups.owners,
            groups.ends,
            self._sizes,
            groups.event_ends,
            self._bodies,
            self._body_ends,
            roster.names,
            roster.widths,
            first,
            last,
            _HEAD,
            numbers,
            places,
            out,
        )
        for session, number, begin, end in runs:
            bundles.sent(session, number, out[begin:end].tobytes())
        if others:
            for event in self._some[first:last]:
                bundles.alone(event, others)


@cache
def warm_up() -> None:
    """Have the kernels loaded, and compiled where they never have been, before the first event comes."""
    answer = Answer(Found("", 0, None, bytes(4), b""), 0)
    config = BrokerConfig(broker="", incarnation="")
    bundles = Bundles(Roster({}), Work(durable=False), config, lambda *_: None)
    bundles.let_go([Parting(Publication("", 0, Event({})), answer, 0)])
