"""A client's end of a connection: bytes in, parcels to its line; parcels out, bytes to the transport.

Everything that one turn of the event loop wants to say goes out in one write at the end of the turn, or
earlier if it has become much: a publisher that never lets the loop run is heard all the same. The transport
is a socket's, with or without TLS, or one inside this process (`memory`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from roost.broker.messages import Login, Parcel
from roost.wire import PREFACE, StreamDecoder, WireError, encode
from roost.wire.limits import NO_LIMITS

if TYPE_CHECKING:
    from roost.client.line import Line

# So much is written at once, without waiting for the end of the turn.
WRITE_BYTES = 1 << 16
# Bytes that the broker has not taken, above which publishers wait.
WRITE_BUFFER_BYTES = 1 << 20


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, line: Line, login: Login | None, broker: str) -> None:
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

    # --- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        login = b"" if self._login is None else encode(self._login)
        self.transport.write(PREFACE + login)
        self.line.opened(self, self._broker)

    def data_received(self, data: bytes) -> None:
        try:
            parcels = self._decoder.feed(data)
        except WireError as error:
            self.line.received(self, list(error.parcels))
            self.close(f"the broker sent what is no message: {error}")
            return
        if parcels:
            self.line.received(self, parcels)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        said = str(error) if error else "the broker closed the connection"
        self.line.lost(self, self._reason or said)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        self.line.progressed()

    # --- the line's side ----------------------------------------------------------------------------

    def send(self, parcel: Parcel) -> None:
        data = encode(parcel)
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
        self._out = []
        self.transport.abort()
