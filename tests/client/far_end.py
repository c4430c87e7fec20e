"""A broker's end of a client's connection, in the hands of a test: bytes in, bytes out, and no broker."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, cast
from unittest import mock

from msgspec import msgpack

from roost.broker.messages import DATA, Ack, Attached, Delivery
from roost.client import Client, connect
from roost.client.connection import Connection
from roost.client.line import Line
from roost.wire import PREFACE, StreamDecoder, encode
from roost.wire.kinds import MESSAGE_TAGS


class FarEnd:
    """What a client dials, and the transport that it gets. What it sends waits until the client reads."""

    broker = "B"
    redial_max_s = 1.0

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False
        self.waiting: deque[bytes] = deque()
        self._is_reading = True
        self._connection: Connection | None = None

    async def client(self) -> Client:
        """One that is attached here."""
        with mock.patch.object(Client, "_dialler", return_value=self):
            return await connect("roost://nowhere:1")

    def send(self, data: bytes) -> None:
        self.waiting.append(data)
        self._pump()

    def _pump(self) -> None:
        assert self._connection is not None
        while self.waiting and self._is_reading and not self.is_closed:
            self._connection.data_received(self.waiting.popleft())

    def acks(self) -> list[Ack]:
        """What the client has acknowledged."""
        return [parcel for parcel in StreamDecoder().feed(self.written) if type(parcel) is Ack]

    # --- what dials ---------------------------------------------------------------------------------

    async def dial(self, line: Line, broker: str) -> None:
        if self._connection is not None:
            await asyncio.Event().wait()
        self._connection = Connection(line, None, broker, keepalive_s=0.0)
        self._connection.connection_made(cast(Any, self))
        session = line.machine.session
        greeting = Attached(session, resumed=False, control_received=0, data_received=0)
        self._connection.data_received(PREFACE + encode(greeting))

    def lost(self, now: float, *, answered: bool) -> None:
        """It is the only one."""

    # --- a transport --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        asyncio.get_running_loop().call_soon(self._pump)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            assert self._connection is not None
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    abort = close

    def set_write_buffer_limits(self, **_: object) -> None:
        """It takes all there is."""

    def get_extra_info(self, _: str) -> None:
        return None


def delivery(number: int, ids: Sequence[str], publication: bytes) -> bytes:
    """The frame of a delivery."""
    head = bytes((0x96, MESSAGE_TAGS[Delivery], DATA, 0xCE)) + struct.pack(">IB", number, 0)
    body = head + msgpack.encode(list(ids)) + publication
    return len(body).to_bytes(4, "big") + body
