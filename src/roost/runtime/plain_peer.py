"""A peer that speaks the protocol and nothing more: no machine, no memory, no second attempt.

For whoever wants to say just this to a broker and hear just what it answers, right or wrong. Frames that it
says are numbered in order, unless it is told to say others, and deliveries are acknowledged only when it is
told to. Whether it is there is answered whenever it hears anything, unless it is told to be mute.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from typing import TypeVar

from roost.broker.messages import (
    PROTOCOL_VERSION,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Frame,
    Login,
    Message,
    Parcel,
    Ping,
    Pong,
    Publication,
    Subscribe,
    priority_of,
)
from roost.language import Event, Value, parse_advertisement, parse_subscription
from roost.wire import PREFACE, Limits, StreamDecoder, encode
from roost.wire.limits import NO_LIMITS

PATIENCE_S = 10.0
READ_BYTES = 1 << 16

T = TypeVar("T")


class RefusedError(Exception):
    """The broker does not want this connection; its reason, and whether it may be otherwise before long."""

    def __init__(self, reason: str, transient: bool = False) -> None:
        super().__init__(reason)
        self.transient = transient


class PlainPeer:
    """One end of a connection to a broker."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.client = ""
        self.sent = [0, 0]  # the last number of each class
        self.received = [0, 0]
        self.published = 0
        self.pinged = 0  # by the broker
        self.is_mute = False
        self._reader = reader
        self._writer = writer
        self._decoder = StreamDecoder(limits)
        self._heard: deque[Parcel] = deque()

    @classmethod
    async def connect(
        cls, host: str, port: int, *, tls: ssl.SSLContext | None = None, preface: bytes = PREFACE
    ) -> PlainPeer:
        peer = cls(*await asyncio.open_connection(host, port, ssl=tls, limit=READ_BYTES))
        peer.write(preface)
        return peer

    # --- saying -------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """These bytes, whatever they are."""
        self._writer.write(data)

    def put(self, *parcels: Parcel) -> None:
        """These, as they are."""
        self.write(b"".join(map(encode, parcels)))

    def say(self, *messages: Message) -> None:
        """These, each with the next number of its class."""
        for message in messages:
            priority = priority_of(message)
            self.sent[priority] += 1
            self.put(Frame(priority, self.sent[priority], message))

    def subscribe(self, id_: str, text: str) -> None:
        self.say(Subscribe(id_, parse_subscription(text), id_))

    def advertise(self, id_: str, text: str) -> None:
        self.say(Advertise(id_, parse_advertisement(text), id_))

    def publish(self, attributes: dict[str, Value], payload: bytes = b"") -> int:
        """An event in the client's own name; its number."""
        self.published += 1
        self.say(Publication(self.client, self.published, Event(attributes), payload))
        return self.published

    def acknowledge(self) -> None:
        """All that has been heard."""
        self.put(Ack(*self.received))

    async def drain(self) -> None:
        await self._writer.drain()

    # --- hearing ------------------------------------------------------------------------------------

    async def hear(self, within_s: float = PATIENCE_S) -> Parcel | None:
        """The next parcel; None if the broker has closed the connection; TimeoutError if nothing comes."""
        while not self._heard:
            try:
                data = await asyncio.wait_for(self._reader.read(READ_BYTES), within_s)
            except ConnectionError:
                return None
            if not data:
                return None
            for parcel in self._decoder.feed(data):
                if type(parcel) is Ping:
                    self.pinged += 1
                    if not self.is_mute:
                        self.put(Pong(parcel.number))
                else:
                    self._heard.append(parcel)
        parcel = self._heard.popleft()
        if isinstance(parcel, Frame):
            self.received[parcel.priority] = parcel.sequence
        return parcel

    async def next(self, kind: type[T], within_s: float = PATIENCE_S) -> T:
        """The next parcel, or message in a frame, of this kind; what comes ahead of it is passed over."""
        async with asyncio.timeout(within_s):
            while True:
                parcel = await self.hear(within_s)
                if parcel is None:
                    raise ConnectionError(f"the broker has closed before any {kind.__name__}")
                said = parcel.message if isinstance(parcel, Frame) else parcel
                if isinstance(said, kind):
                    return said
                if isinstance(said, AttachRefused):
                    raise RefusedError(said.reason, said.transient)

    async def acknowledged(self, within_s: float = PATIENCE_S) -> None:
        """Wait until the broker has all that was said."""
        while True:
            ack = await self.next(Ack, within_s)
            if [ack.control, ack.data] == self.sent:
                return

    async def attach(
        self,
        client: str,
        session: str = "",
        *,
        login: tuple[str, str] | None = None,
        resume: bool = False,
        durable: bool = False,
        process: str = "",
        version: int = PROTOCOL_VERSION,
    ) -> Attached:
        """Greet, as this client; RefusedError if the broker does not want it."""
        self.client = client
        if login is not None:
            self.put(Login(*login))
        control, data = self.received
        self.put(
            Attach(version, client, session or client, resume, control, data, durable, process)
        )
        return await self.next(Attached)

    # --- the end ------------------------------------------------------------------------------------

    async def farewell(self, within_s: float = PATIENCE_S) -> str:
        """What the broker says before it hangs up: the reason of a refusal, "" if it gave none."""
        reason = ""
        async with asyncio.timeout(within_s):
            while (parcel := await self.hear(within_s)) is not None:
                if isinstance(parcel, AttachRefused):
                    reason = parcel.reason
        return reason

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()
