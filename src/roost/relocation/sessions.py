"""Trace sessions of GRAPE: what a broker remembers of the publications that pass (000 section 4.1).

A session is `count` consecutive publications of a publisher, and is known by the number of the first. The
paper's publications carry the session that they are in, because its numbers are given by brokers. Here a
publisher numbers its own from 1 on, so every broker knows that publication s is in the session that began at
s - (s - 1) mod count, and nothing has to be carried or written into a publication on its way. All brokers
of a federation have to count alike; whoever is asked for a session of another length says so.

Of each publisher a broker keeps the session that is under way, and no other: the request for it comes
behind its last publication on the same links, so ahead of the first of the next. When the direction has
changed that publications come from, the publisher has moved, and the session begins anew, in part. That is
the business of nobody: the broker where a publisher is asks only for sessions that it has seen in whole.

The paper's publishers publish a few times a second, and sessions follow each other. One that publishes a
million times would be decided for ten thousand times a second: between its sessions it can have a *rest*, in
which the broker where it is looks at nothing that it publishes. The others don't know, and need not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from roost.broker.hops import Hop, Session
from roost.broker.module import Passage, Visit, Way
from roost.optimising.bitvector import BitVector

# Publishers of which something is remembered; the one that began its session first is forgotten first.
PUBLISHERS_MAX = 10_000


class TraceSession(Struct, gc=False):
    """What has passed of a session."""

    first: int
    upstream: str  # the neighbour, or the client, that it comes from
    from_client: bool
    began: float
    last: float
    is_whole: bool  # it was here from the first publication on
    bits: BitVector = field(default_factory=BitVector)  # delivered to clients here
    deliveries: int = 0
    neighbours: dict[str, None] = field(default_factory=dict)  # it was sent to, at least once
    clients: dict[str, BitVector] = field(default_factory=dict)  # delivered to each, if asked for


class Steps(NamedTuple):
    """Where publications came from and went to."""

    source: str
    from_client: bool
    neighbours: Iterable[str]
    clients: Collection[str]


def steps_of(source: Hop, way: Way) -> Steps:
    name = source.client if isinstance(source, Session) else source.name
    clients = dict.fromkeys(hop.client for hop in way.local if isinstance(hop, Session))
    return Steps(name, source.is_session, [link.name for link in way.links], clients.keys())


class TraceSessions:
    """The sessions under way, by publisher."""

    def __init__(self, count: int, *, by_client: bool = False, rest_s: float = 0.0) -> None:
        self._count = count
        self._by_client = by_client
        self._rest_s = rest_s
        self._until: dict[str, float] = {}  # the rests of publishers here
        self._sessions: dict[str, TraceSession] = {}

    def visited(self, visit: Visit, now: float) -> TraceSession | None:
        """A publication has been routed. The session, if it is over and the publisher is a client here."""
        publication = visit.publication
        if visit.from_client and self._rests(publication.publisher, now):
            return None
        way = Steps(visit.source, visit.from_client, visit.neighbours, visit.matches)
        return self._visited(publication.publisher, publication.sequence, 1, way, now)

    def passed(self, passage: Passage, now: float) -> list[tuple[str, TraceSession]]:
        """The same of many that were routed together: publishers, and their sessions that are over.

        What goes the same way, and is of one session, is looked at together. Of a publisher behind a
        neighbour only the newest session counts: the request for an earlier one would have come behind it.
        """
        source = passage.source
        if isinstance(source, Session) and self._rests(source.publisher, now):
            return []
        publishers, places = passage.publishers
        sequence, way = passage.sequence, passage.way
        if not source.is_session:
            newest = np.zeros(len(publishers), np.int64)
            newest[places] = sequence  # they rise: the last one counts
            first = newest - (newest - 1) % self._count
            rows = np.flatnonzero(sequence >= first[places])
            places, sequence, way = places[rows], sequence[rows], way[rows]
        begins = np.ones(len(sequence), bool)
        begins[1:] = (places[1:] != places[:-1]) | (sequence[1:] != sequence[:-1] + 1)
        begins[1:] |= ((sequence[1:] - 1) % self._count == 0) | (way[1:] != way[:-1])
        at = np.flatnonzero(begins)
        counts = np.diff(np.append(at, len(sequence)))
        over = []
        known: dict[int, Steps] = {}
        for place, number, count, of in zip(
            places[at].tolist(),
            sequence[at].tolist(),
            counts.tolist(),
            way[at].tolist(),
            strict=True,
        ):
            steps = known.get(of)
            if steps is None:
                steps = known[of] = steps_of(source, passage.ways[of])
            session = self._visited(publishers[place], number, count, steps, now)
            if session is not None:
                over.append((publishers[place], session))
        return over

    def may_end(self, source: Hop, now: float) -> bool:
        """Whether a session may be over among what comes next: its publisher is here, and does not rest."""
        return (
            isinstance(source, Session)
            and source.publisher == source.client
            and not self._rests(source.client, now)
        )

    def _rests(self, publisher: str, now: float) -> bool:
        return now < self._until.get(publisher, now)

    def _visited(
        self, publisher: str, sequence: int, count: int, way: Steps, now: float
    ) -> TraceSession | None:
        """So many publications of one session have been routed, one behind the other, the same way."""
        place = (sequence - 1) % self._count
        session = self._sessions.get(publisher)
        if (
            session is None
            or session.first != sequence - place
            or session.upstream != way.source
            or session.from_client != way.from_client
        ):
            session = self._begin(publisher, sequence - place, way, now, is_whole=place == 0)
        session.last = now
        for neighbour in way.neighbours:
            session.neighbours[neighbour] = None
        if way.clients:
            everywhere = range(place, place + count)
            session.bits.set_all(everywhere)
            session.deliveries += len(way.clients) * count
            if self._by_client:
                for client in way.clients:
                    session.clients.setdefault(client, BitVector()).set_all(everywhere)
        is_over = place + count == self._count
        # A durable publisher has another name than its client, and stays.
        if is_over and session.is_whole and session.from_client and publisher == way.source:
            if self._rest_s:
                self._rest(publisher, now)
            return self.take(publisher, session.first)
        return None

    def _rest(self, publisher: str, now: float) -> None:
        self._until.pop(publisher, None)
        if len(self._until) >= PUBLISHERS_MAX:
            del self._until[next(iter(self._until))]
        self._until[publisher] = now + self._rest_s

    def _begin(
        self, publisher: str, first: int, way: Steps, now: float, *, is_whole: bool
    ) -> TraceSession:
        self._sessions.pop(publisher, None)
        if len(self._sessions) >= PUBLISHERS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = self._sessions[publisher] = TraceSession(
            first=first,
            upstream=way.source,
            from_client=way.from_client,
            began=now,
            last=now,
            is_whole=is_whole,
        )
        return session

    def take(self, publisher: str, first: int) -> TraceSession | None:
        """The session that began there, which is no longer kept; None if nothing of it has come here."""
        session = self._sessions.get(publisher)
        if session is None or session.first != first:
            return None
        return self._sessions.pop(publisher)
