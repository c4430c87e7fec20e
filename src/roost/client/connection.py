"""A client's end of a connection: bytes in, parcels to its line; parcels out, bytes to the transport.

Everything that one turn of the event loop wants to say goes out in one write at the end of the turn, or
earlier if it has become much: a publisher that never lets the loop run is heard all the same. The transport
is a socket's, with or without TLS, or one inside this process (`memory`).

A broker that has been reached has so long to answer the greeting. After that, one that says nothing is asked
whether it is there (`keepalive`), if it knows such questions: it does if it has asked one itself, as brokers
do that are new enough, right at the beginning. The machine sees nothing of all that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from roost.broker.messages import Attached, Login, Parcel, Ping, Pong
from roost.client.arriving import end_of_frame, whole_frames
from roost.runtime.keepalive import Keepalive, Verdict, set_options
from roost.wire import PREFACE, StreamDecoder, WireError, encode
from roost.wire.limits import NO_LIMITS

if TYPE_CHECKING:
    from roost.client.line import Line

# So much is written at once, without waiting for the end of the turn.
WRITE_BYTES = 1 << 16
# Bytes that the broker has not taken, above which publishers wait.
WRITE_BUFFER_BYTES = 1 << 20
# How long a broker may take to answer a greeting.
GREETING_S = 5.0
# A broker that says nothing for so long is asked whether it is there; after three times as long it is not.
KEEPALIVE_S = 3.0
# ... and if it has a standby, which goes on in its place.
STANDBY_KEEPALIVE_S = 0.5
STANDBY_GREETING_S = 0.5
# How often we look meanwhile: what is noticed late is late by as much, and 10 s are promised in all.
LOOKS = 6

# If so many frames in a row are no plain deliveries, the rest of a read is not looked through for them.
MISSES_MAX = 4

ASIDE = frozenset((Ping, Pong))
# What a server with TLS answers whom it does not understand.
TLS_ALERT = b"\x15\x03"


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(
        self,
        line: Line,
        login: Login | None,
        broker: str,
        *,
        keepalive_s: float = KEEPALIVE_S,
        greeting_s: float | None = None,  # None: as usual
        has_standby: Callable[[str], None] = lambda _: None,  # and where that is
    ) -> None:
        self.line = line
        self._broker = broker  # as the machine calls it
        self.id = line.new_id()
        self.congested = False  # the broker reads more slowly than we write
        self.lost: asyncio.Future[None] = line.loop.create_future()
        self.transport: asyncio.Transport
        self._login = login
        # The broker sends what others could publish, under limits that are its own to choose.
        self._decoder = StreamDecoder(NO_LIMITS)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._reason = ""
        self._is_greeted = False
        self._is_looking = False
        self._keepalive_s = keepalive_s
        self._greeting_s = GREETING_S if greeting_s is None else greeting_s
        self._has_standby = has_standby
        self._keepalive: Keepalive | None = None
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # --- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        login = b"" if self._login is None else encode(self._login)
        set_options(transport)
        self.transport.write(PREFACE + login)
        self._timer = self.line.loop.call_later(self._greeting_s, self._not_greeted)
        self.line.opened(self, self._broker)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.line.loop.time()
        kept = self._decoder.kept_bytes
        if not self._is_greeted or kept > len(data) or not self.line.intake.is_short:
            self._feed(data)
        else:
            self.take(self._decoder.take_back() + data if kept else data)

    def take(self, data: bytes, *, waited: bool = False) -> None:
        """Frames, the last of which may not be whole: deliveries the short way, the rest by the decoder.

        With `waited` they were kept by the intake, and are all whole: what the decoder has of the next one
        stands aside.
        """
        intake, decoder = self.line.intake, self._decoder
        part = decoder.take_back() if waited else b""
        at, misses = 0, 0
        while at < len(data):
            if intake.holds(self, waited=waited):
                stop = len(data) if waited else whole_frames(data, at)
                intake.keep(self, data[at:stop], waited=waited)
                self._feed(data[stop:])
                break
            start, at = at, intake.take(self, data, at)
            decoder.skip(at - start)
            misses = 0 if at > start else misses + 1
            if at == len(data) or intake.holds(self, waited=waited):
                continue
            stop = end_of_frame(data, at)
            if stop > len(data) or misses > MISSES_MAX:
                stop = len(data)
            self._feed(data[at:stop])
            at = stop
            if not self.line.is_open(self):
                break
        decoder.put_back(part)
        self.line.progressed()

    def _feed(self, data: bytes) -> None:
        """Have bytes decoded, and the machine hear what they say."""
        try:
            parcels: Sequence[Parcel] = self._decoder.feed(data)
        except WireError as error:
            self.line.received(self, self._without_aside(error.parcels))
            self.close(f"the broker sent what is no message: {error}")
            if not self._is_greeted:
                said = "it speaks TLS; expected roosts://" if data.startswith(TLS_ALERT) else error
                self.line.is_no_broker(f"there is no broker in plain words: {said}")
            return
        if not self._is_greeted or not ASIDE.isdisjoint(map(type, parcels)):
            parcels = self._without_aside(parcels)
        if parcels:
            self.line.received(self, parcels)

    def connection_lost(self, error: Exception | None) -> None:
        self._set_timer(None)
        if not self.lost.done():
            self.lost.set_result(None)
        said = str(error) if error else "the broker closed the connection"
        self.line.lost(self, self._reason or f"{said}{self.doubt}")

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        self.line.progressed()

    # --- whether the broker is there ----------------------------------------------------------------

    def _without_aside(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Those that are for the machine; the others are for us."""
        rest: list[Parcel] = []
        for parcel in parcels:
            if type(parcel) is Ping:
                self.send(Pong(parcel.number))
                if self._keepalive is None:
                    self._keepalive = Keepalive(self._keepalive_s, self._heard_at)
            elif type(parcel) is not Pong or not self._is_greeted:
                rest.append(parcel)  # ahead of a greeting, a Pong answers the machine
                if type(parcel) is Attached:
                    self._is_greeted = True
                    self._attached(parcel)
        if self._is_greeted and not self._is_looking:
            self._set_timer(None)  # which was for the greeting
            if self._keepalive is not None and self._keepalive_s:
                self._is_looking = True
                self._look_later()
        return rest

    def _attached(self, greeting: Attached) -> None:
        """One that has a standby is not waited for as long: the other goes on in its place."""
        if greeting.beside:
            self._has_standby(greeting.beside)
            if self._keepalive_s > STANDBY_KEEPALIVE_S:
                self._keepalive_s = STANDBY_KEEPALIVE_S
                self._keepalive = Keepalive(self._keepalive_s, self._heard_at)

    @property
    def doubt(self) -> str:
        """What may be wrong with a broker that is silent: all speak first, unless they wait for TLS."""
        if self._heard_at or self.transport.get_extra_info("sslcontext") is not None:
            return ""
        return "; nothing was heard at all: if it speaks TLS, expected roosts://"

    def _not_greeted(self) -> None:
        self._cut(
            f"the broker did not answer the greeting within {self._greeting_s:g} s{self.doubt}"
        )

    def _look_later(self) -> None:
        self._set_timer(self.line.loop.call_later(self._keepalive_s / LOOKS, self._look))

    def _look(self) -> None:
        if self.transport.is_closing() or self._keepalive is None:
            return
        verdict = self._keepalive.look(
            self.line.loop.time(),
            self._heard_at,
            can_hear=self.transport.is_reading(),
            can_see=not self._decoder.has_part,
        )
        if verdict is Verdict.DEAD:
            self._cut(f"nothing was heard for {self._keepalive.dead_after_s:g} s")
            return
        if verdict is Verdict.ASK and not self.congested:
            self.send(Ping(0))
        self._look_later()

    def _cut(self, reason: str) -> None:
        self._reason = reason
        self.abort()

    def _set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    # --- the line's side ----------------------------------------------------------------------------

    def send(self, parcel: Parcel) -> None:
        self.send_bytes(encode(parcel))

    def send_bytes(self, data: bytes) -> None:
        """Whole frames."""
        if not self._out:
            self.line.loop.call_soon(self.flush)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._out:
            out, self._out, self._out_bytes = self._out, [], 0
            if not self.transport.is_closing():
                self.transport.write(b"".join(out))

    def pause_reading(self) -> None:
        if not self.transport.is_closing() and self.transport.is_reading():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.transport.is_closing() and not self.transport.is_reading():
            self.transport.resume_reading()

    def close(self, reason: str) -> None:
        """After what was sent."""
        self._reason = reason
        self.flush()
        self.transport.close()

    def abort(self) -> None:
        """At once, whatever waits to be written."""
        self.transport.abort()
