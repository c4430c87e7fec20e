"""A connection over a socket: bytes in, parcels to the shell; parcels out, bytes to the socket.

**Reading.** Each piece that arrives is one event for the machine, with all the parcels that it completes.
The machine may want no more data from a peer (`pause`): data is then held here, while acknowledgements and
control go on, because whoever waits for us may be waiting for just those. What is held has a bound, beyond
which the socket is not read at all.

**Writing.** Above a mark of bytes that the peer has not taken, the machine hears `Congested`, and below it
again `Relieved`; so what waits for a slow reader waits in the machine, under its bounds. One that reads
nothing for too long is closed.

**Strangers.** A peer has so long to say who it is, and to finish a frame it has begun; bytes that are no
frames close the connection with a reason, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from roost.broker.events import Congested, Received, Relieved
from roost.broker.messages import DATA, AttachRefused, Frame, Login, Parcel, Publication
from roost.wire import PREFACE, Limits, StreamDecoder, WireError, encode

if TYPE_CHECKING:
    from roost.runtime.server import BrokerServer

# Bytes of data that are held of a peer that is paused; its acknowledgements stand behind them.
HELD_BYTES_MAX = 16_000_000
# How long a peer may take to read what was written before its connection was closed.
LAST_WORDS_S = 5.0


class SocketConnection(asyncio.Protocol):
    """One connection of a broker."""

    def __init__(self, server: BrokerServer, limits: Limits, *, neighbour: str = "") -> None:
        self.server = server
        self.shell = server.shell
        self.id = self.shell.new_id()
        self.out: list[bytes] = []
        self.neighbour = neighbour  # whom we dialled
        self.greeted = bool(neighbour)  # a neighbour that we dial is who it is
        self.since = self.heard_at = self.shell.loop.time()
        self.part_since: float | None = None  # a frame has begun to arrive
        self.congested_since: float | None = None
        self.address = ""
        self.principal = ""  # who it says it is
        self.transport: asyncio.Transport
        self._decoder = StreamDecoder(limits)
        self._is_deaf = False  # we have hung up
        self._paused = False  # by the machine
        self._checking = False  # who it says it is
        self._throttled = False
        self._held: deque[Parcel] = deque()
        self._held_bytes = 0
        self._not_reading = False
        self._rate_max = 0.0 if neighbour else server.config.limits.publish_rate_max
        self._credit = float(server.config.limits.publish_burst)
        self._credited_at = self.since

    # --- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.server.config.limits.write_buffer_bytes)
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        self.transport.write(PREFACE)
        self.server.connected(self)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self.heard_at = self.shell.loop.time()
        try:
            parcels = self._decoder.feed(data)
        except WireError as error:
            if error.parcels:
                self._take(list(error.parcels))
            self.refuse(str(error))
            return
        if self._decoder.has_part:
            if self.part_since is None or parcels:
                self.part_since = self.heard_at
        else:
            self.part_since = None
        if parcels:
            self._take(parcels)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.disconnected(self)
        self.shell.closed(self, str(error) if error else "the other end has closed it")

    def pause_writing(self) -> None:
        self.congested_since = self.shell.loop.time()
        self.shell.handle(Congested(self.id))

    def resume_writing(self) -> None:
        self.congested_since = None
        self.shell.handle(Relieved(self.id))

    # --- reading ------------------------------------------------------------------------------------

    def _take(self, parcels: list[Parcel]) -> None:
        if self.neighbour and type(parcels[0]) is AttachRefused:
            self.server.turned_away(self.neighbour, parcels[0].reason)
            self.transport.close()
            return
        if not self.greeted and not self._checking:
            if type(parcels[0]) is Login:
                self._log_in(cast(Login, parcels.pop(0)))
            else:
                self.greeted = True
        if self._checking:
            self._hold(parcels)
        elif self._paused or self._held:  # what was held goes first
            self._hold([p for p in parcels if _is_data(p)])
            self._pass_on([p for p in parcels if not _is_data(p)])
        else:
            self._pass_on(parcels)

    def _pass_on(self, parcels: list[Parcel]) -> None:
        if not parcels:
            return
        if self._rate_max:
            self._throttle(parcels)
        self.shell.handle(Received(self.id, parcels))

    def _hold(self, parcels: list[Parcel]) -> None:
        self._held.extend(parcels)
        self._held_bytes += sum(map(_size, parcels))
        self.read_or_not()

    def read_or_not(self) -> None:
        """Read the socket, unless something speaks against it."""
        not_reading = not self._is_deaf and (
            self._throttled or self.server.choked or self._held_bytes > HELD_BYTES_MAX
        )
        if not_reading != self._not_reading and not self.transport.is_closing():
            self._not_reading = not_reading
            if not_reading:
                self.transport.pause_reading()
                self.part_since = None  # the time in which we don't read is not the peer's
            else:
                self.transport.resume_reading()
                if self._decoder.has_part:
                    self.part_since = self.shell.loop.time()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        # Not at once: whoever resumes is still at work.
        self.shell.loop.call_soon(self._let_go)

    def _let_go(self) -> None:
        if self._paused or self._checking or not self._held:
            return
        held, self._held, self._held_bytes = list(self._held), deque(), 0
        self._pass_on(held)
        self.read_or_not()

    def _throttle(self, parcels: list[Parcel]) -> None:
        """Read on when the rate allows for what has come; a burst is free."""
        limits, now = self.server.config.limits, self.shell.loop.time()
        earned = (now - self._credited_at) * self._rate_max
        self._credit = min(float(limits.publish_burst), self._credit + earned)
        self._credited_at = now
        self._credit -= sum(_is_data(p) for p in parcels)
        if self._credit < 0:
            self._throttled = True
            self.shell.loop.call_later(-self._credit / self._rate_max, self._unthrottle)
            self.read_or_not()

    def _unthrottle(self) -> None:
        self._throttled = False
        self.read_or_not()

    # --- who it is ----------------------------------------------------------------------------------

    def _log_in(self, login: Login) -> None:
        self._checking = True
        self.server.check_login(self, login)

    def checked(self, objection: str) -> None:
        """What it says has been checked."""
        self._checking = False
        self.greeted = True
        if objection:
            self.refuse(objection)
        else:
            self._let_go()

    # --- writing ------------------------------------------------------------------------------------

    def flush(self) -> None:
        out, self.out = self.out, []
        if out and not self._is_deaf and not self.transport.is_closing():
            data = b"".join(out)
            self.shell.bytes_out += len(data)
            self.transport.write(data)

    def close(self, _: str) -> None:
        self.flush()
        self._hang_up()

    def _hang_up(self) -> None:
        """After what was written, if the peer reads it; else without.

        To close with something unread would make the system throw away what we have written, the reason
        among it. So the rest of what the peer says is read, and not heard.
        """
        self._is_deaf = True
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self.read_or_not()
        else:
            self.transport.close()
        within_s = min(LAST_WORDS_S, self.server.config.limits.stalled_s)
        self.shell.loop.call_later(within_s, self.transport.abort)

    def refuse(self, reason: str) -> None:
        """Say why, as well as can be said, and hang up."""
        if not self._is_deaf and not self.transport.is_closing():
            self.server.refused(self.id, "connection", reason)
            self.flush()
            self.transport.write(encode(AttachRefused(reason)))
            self._hang_up()
        self.shell.closed(self, reason)

    def abort(self, reason: str) -> None:
        """Without waiting for what was written: the peer does not read."""
        self.server.refused(self.id, "connection", reason)
        self.shell.closed(self, reason)
        self.transport.abort()


def _is_data(parcel: Any) -> bool:
    return type(parcel) is Frame and parcel.priority == DATA


def _size(parcel: Parcel) -> int:
    if type(parcel) is Frame and type(parcel.message) is Publication:
        return len(parcel.message.encoded)
    return 100
