"""The doorstep: a connection until it has greeted.

Whoever is here may be anybody, so it gets little. Its bytes are read a few KB at a time, and as many are
held, in the form that they came in, whatever would become of them: a frame that takes a hundred bytes on the
wire may take a thousand as objects. While its token is checked nothing behind the login is looked at, and
beyond the bound the socket is not read at all. A frame that declares more than any greeting needs is
refused by its length.

    Ping      answered, a few times: somebody takes the time from there to here, and goes again. No greeting.
    Locate    answered, if this is an entry point (`roost.entry`): somebody goes where it had better go
    Login     once, and checked
    else      is the greeting, or something wrong in its place, which the machine refuses. From then on the
              connection is on its own (`SocketConnection`), with whatever stands behind.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

from roost.broker.messages import Locate, Login, Parcel, Ping, Pong
from roost.wire import PREFACE, WireError, encode

if TYPE_CHECKING:
    from roost.runtime.connection import SocketConnection

# Bytes that are read at once; each broker has one such buffer for all.
READ_BYTES = 4_096
# Bytes of whoever waits for an answer to its login, above which it is not read.
HELD_BYTES_MAX = 8_192
# What a greeting takes besides its names, which are at most six, of up to four bytes a character.
GREETING_BYTES = 512
NAMES_BYTES = 24
PINGS_MAX = 16
# One who was refused, and goes on: so much is read of it, so that it hears why, and then no more.
DEAF_BYTES_MAX = 1 << 16

_length_of = struct.Struct(">I").unpack_from
PREFIX_SIZE = 4


class Doorstep(asyncio.BufferedProtocol):
    """Reads what strangers say, until they are none."""

    __slots__ = (
        "_buffer",
        "_connection",
        "_frame_bytes_max",
        "_has_asked",
        "_has_logged_in",
        "_held",
        "_is_over",
        "_offset",
        "_pings",
        "_unheard",
    )

    def __init__(self, connection: SocketConnection) -> None:
        self._connection = connection
        self._buffer = connection.server.doorstep_buffer
        self._frame_bytes_max = (
            GREETING_BYTES + NAMES_BYTES * connection.server.config.limits.name_length_max
        )
        self._held = bytearray()
        self._offset = 0  # of that, in the stream
        self._unheard = 0  # bytes, since we have hung up
        self._pings = 0
        self._has_asked = False
        self._has_logged_in = False
        self._is_over = False

    # --- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.doorstep = self
        self._connection.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        # The same for all: nothing happens between this and `buffer_updated`.
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        data = bytes(self._buffer[:count])
        if self._is_over:
            self._connection.data_received(data)
        elif not self._connection.is_deaf:
            self._held += data
            self.go_on()
        else:
            self._unheard += count
            if self._unheard > DEAF_BYTES_MAX:
                self._connection.transport.abort()

    # --- what it says -------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        # Else it is one frame that is not complete, which has its own bound.
        return self._connection.is_checking and len(self._held) > HELD_BYTES_MAX

    def go_on(self) -> None:
        """Look at what has come, up to the greeting, or to a login that has to be checked first."""
        connection = self._connection
        while not (self._is_over or connection.is_deaf or connection.is_checking):
            size = self._next_size()
            if not size:
                break
            piece = bytes(self._held[:size])
            del self._held[:size]
            self._offset += size
            try:
                parcels = connection.decode(piece)
            except WireError as error:
                connection.refuse(str(error))
                return
            for parcel in parcels:  # one, or none of the preface
                self._heard(parcel)
        connection.read_or_not()

    def _next_size(self) -> int:
        """Of what is looked at next; 0 if it is not there yet."""
        have = len(self._held)
        if self._offset < len(PREFACE):  # as it comes: the first byte may tell that it is none
            return min(have, len(PREFACE) - self._offset)
        if have < PREFIX_SIZE:
            return 0
        (length,) = _length_of(self._held)
        if length > self._frame_bytes_max:
            self._connection.refuse(
                f"frame at byte {self._offset:,} of the stream: declares {length:,} bytes;"
                f" at most {self._frame_bytes_max:,} are allowed before a greeting"
            )
            return 0
        size = PREFIX_SIZE + int(length)
        return size if have >= size else 0

    def _heard(self, parcel: Parcel) -> None:
        connection = self._connection
        if type(parcel) is Ping and not connection.neighbour:
            self._pings += 1
            if self._pings > PINGS_MAX:
                connection.refuse(f"there were {PINGS_MAX} pings, and no greeting")
            else:
                connection.transport.write(encode(Pong(parcel.number)))
        elif type(parcel) is Locate and not (connection.neighbour or self._has_asked):
            self._has_asked = True
            connection.server.locate(connection, parcel)
        elif type(parcel) is Login and not self._has_logged_in and not connection.neighbour:
            self._has_logged_in = True
            connection.log_in(parcel)
        elif connection.greeted_with(parcel):
            self._leave()

    def _leave(self) -> None:
        """It is no stranger any more."""
        self._is_over = True
        held, self._held = bytes(self._held), bytearray()
        # Not at once: whoever reads from the socket is about to come back to us.
        self._connection.shell.loop.call_soon(self._hand_over)
        if held:
            self._connection.first_words(held)

    def _hand_over(self) -> None:
        connection, transport = self._connection, self._connection.transport
        if not transport.is_closing():
            is_reading = transport.is_reading()
            if is_reading:  # it is asked once a while how to read: not in the middle of it
                transport.pause_reading()
            transport.set_protocol(connection)
            connection.doorstep = None
            if is_reading:
                transport.resume_reading()
