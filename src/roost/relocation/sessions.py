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
"""

from __future__ import annotations

from msgspec import Struct, field

from roost.broker.module import Visit
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


class TraceSessions:
    """The sessions under way, by publisher."""

    def __init__(self, count: int, *, by_client: bool = False) -> None:
        self._count = count
        self._by_client = by_client
        self._sessions: dict[str, TraceSession] = {}

    def visited(self, visit: Visit, now: float) -> TraceSession | None:
        """A publication has been routed. The session, if it is over and the publisher is a client here."""
        publication = visit.publication
        publisher, sequence = publication.publisher, publication.sequence
        place = (sequence - 1) % self._count
        session = self._sessions.get(publisher)
        if (
            session is None
            or session.first != sequence - place
            or session.upstream != visit.source
            or session.from_client != visit.from_client
        ):
            session = self._begin(visit, place, now)
        session.last = now
        for neighbour in visit.neighbours:
            session.neighbours[neighbour] = None
        if visit.matches:
            session.bits.set(place)
            session.deliveries += len(visit.matches)
            if self._by_client:
                for client in visit.matches:
                    session.clients.setdefault(client, BitVector()).set(place)
        is_over = place == self._count - 1
        # A durable publisher has another name than its client, and stays.
        if is_over and session.is_whole and session.from_client and publisher == visit.source:
            return self.take(publisher, session.first)
        return None

    def _begin(self, visit: Visit, place: int, now: float) -> TraceSession:
        publisher = visit.publication.publisher
        self._sessions.pop(publisher, None)
        if len(self._sessions) >= PUBLISHERS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = self._sessions[publisher] = TraceSession(
            first=visit.publication.sequence - place,
            upstream=visit.source,
            from_client=visit.from_client,
            began=now,
            last=now,
            is_whole=place == 0,
        )
        return session

    def take(self, publisher: str, first: int) -> TraceSession | None:
        """The session that began there, which is no longer kept; None if nothing of it has come here."""
        session = self._sessions.get(publisher)
        if session is None or session.first != first:
            return None
        return self._sessions.pop(publisher)
