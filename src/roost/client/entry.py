"""Asking an entry point where to connect (003 section IV.C), and taking the time to those that it names.

An entry point is a broker like any other (`roost.entry`). It is asked on a connection of its own, before a
session begins, and again when the broker that had the session does not come back: so a client that is sent
elsewhere knows nothing of it but its URL.

**Nearest** is who answers soonest. All that were named are asked at the same moment, some times each, and the
least time counts: a queue on the way makes times longer, and nothing makes them shorter.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress

from roost.broker.messages import AttachRefused, Locate, Located, Login, Parcel, Ping, Pong
from roost.client.url import address_of, shown
from roost.wire import PREFACE, StreamDecoder, WireError, encode
from roost.wire.limits import NO_LIMITS

Place = tuple[str, int]
NEAR = "near"
# How long an entry point, and a broker whose distance is measured, may take.
ANSWER_S = 5.0
DISTANCE_S = 2.0
# So many times is each asked, one after the other.
ROUNDS = 4


class NoEntry(Exception):  # noqa: N818 (it is no fault of ours)
    """Nobody says where to go; `nobody`: nobody listens."""

    def __init__(self, reason: str, *, nobody: bool) -> None:
        super().__init__(reason)
        self.nobody = nobody


class Entry:
    """The entry points of a URL."""

    def __init__(self, by: str, tls: ssl.SSLContext | None, login: Login | None) -> None:
        self._by = by
        self._tls = tls
        self._login = login

    async def addresses(self, entries: Sequence[Place]) -> list[Place]:
        """Where to connect, the best first; of the first entry point that answers. NoEntry says why not."""
        reasons, nobody = [], True
        for place in entries:
            try:
                async with asyncio.timeout(ANSWER_S):
                    said = await self._ask(place)
            except TimeoutError:
                reasons.append(f"{shown(place)} does not answer")
                nobody = False
                continue
            except (OSError, EOFError, WireError) as error:
                nobody = nobody and isinstance(error, ConnectionRefusedError)
                number = getattr(error, "errno", None)
                reasons.append(f"{shown(place)}: {os.strerror(number) if number else error}")
                continue
            nobody = False
            found = [found for text in said.addresses if (found := address_of(text)) is not None]
            if found:
                return await self._nearest_first(found) if self._by == NEAR else found
            reasons.append(f"{shown(place)}: {said.reason or 'it knows of no broker'}")
        raise NoEntry("; ".join(reasons), nobody=nobody)

    async def _ask(self, place: Place) -> Located:
        ahead = b"" if self._login is None else encode(self._login)
        talk = await Talk.begin(place, self._tls, ahead + encode(Locate(self._by)))
        try:
            while True:
                parcel = await talk.next()
                if isinstance(parcel, Located):
                    return parcel
                if isinstance(parcel, AttachRefused):
                    return Located((), parcel.reason)
        finally:
            talk.end()

    async def _nearest_first(self, places: Sequence[Place]) -> list[Place]:
        """Those that answer, by the time that it takes them; those that don't, behind."""
        times = await distances(places, self._tls)
        # Of two that take as long, the one that was named first.
        return [places[number] for number in sorted(range(len(places)), key=times.__getitem__)]


async def distances(places: Sequence[Place], tls: ssl.SSLContext | None = None) -> list[float]:
    """How long it takes to ask brokers something and have their answer, in seconds; inf: it did not come."""
    return list(await asyncio.gather(*(_distance(place, tls) for place in places)))


async def _distance(place: Place, tls: ssl.SSLContext | None) -> float:
    best = float("inf")
    with suppress(TimeoutError, OSError, EOFError, WireError):
        async with asyncio.timeout(DISTANCE_S):
            talk = await Talk.begin(place, tls, b"")
            try:
                for number in range(ROUNDS):
                    asked_at = time.perf_counter()
                    talk.send(encode(Ping(number)))
                    while await talk.next() != Pong(number):
                        pass
                    best = min(best, time.perf_counter() - asked_at)
            finally:
                talk.end()
    return best


class Talk:
    """A few words with a broker, ahead of any greeting."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = StreamDecoder(NO_LIMITS)
        self._heard: list[Parcel] = []

    @classmethod
    async def begin(cls, place: Place, tls: ssl.SSLContext | None, words: bytes) -> Talk:
        """Connect, and say this first."""
        talk = cls(*await asyncio.open_connection(*place, ssl=tls))
        talk.send(PREFACE + words)
        return talk

    def send(self, words: bytes) -> None:
        self._writer.write(words)

    async def next(self) -> Parcel:
        """What it says next; EOFError if it has hung up."""
        while not self._heard:
            data = await self._reader.read(4_096)
            if not data:
                raise EOFError("it has hung up")
            self._heard = list(self._decoder.feed(data))
        return self._heard.pop(0)

    def end(self) -> None:
        """Without another word."""
        self._writer.close()
