"""Rows of `interests`: what the clients of a broker want and offer, by comparing it with what it was before.

A broker tells nobody of each subscription that comes and goes, and need not: to compare the tables of its
sessions with their copies of the last time takes microseconds for hundreds of them, once a sample. What comes
and goes between two samples is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roost.broker.hops import Entry, Session
from roost.traces.rows import InterestRow

KINDS = ("subscription", "advertisement")
Known = tuple[dict[str, Entry], dict[str, Entry]]
NOTHING: Known = ({}, {})


class Interests:
    """What is known of the sessions of a broker in one life of it."""

    def __init__(self, broker: str, life: int) -> None:
        self._broker = broker
        self._life = life
        self._known: dict[str, tuple[str, Known]] = {}  # by session: its client, and what it has

    def changes(self, sessions: Mapping[str, Session], now: float) -> Iterator[InterestRow]:
        """A row for each that has come or gone since the last time; what has changed has done both."""
        for name in [name for name in self._known if name not in sessions]:
            client, known = self._known.pop(name)
            yield from self._rows(client, known, NOTHING, now)
        for name, session in sessions.items():
            client, known = self._known.get(name, (session.client, NOTHING))
            there = (session.subscriptions, session.advertisements)
            if known != there:
                copies = (dict(session.subscriptions), dict(session.advertisements))
                self._known[name] = (client, copies)
                yield from self._rows(client, known, copies, now)

    def _rows(self, client: str, before: Known, after: Known, now: float) -> Iterator[InterestRow]:
        for kind, old, new in zip(KINDS, before, after, strict=True):
            for entries, others, added in ((old, new, False), (new, old, True)):
                for id_, entry in entries.items():
                    if others.get(id_) is not entry:
                        yield InterestRow(
                            time=now,
                            broker=self._broker,
                            life=self._life,
                            client=client,
                            id=id_,
                            kind=kind,
                            filter=str(entry.interest),
                            added=added,
                        )
