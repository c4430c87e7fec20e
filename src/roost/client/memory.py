"""A broker inside this process, for tests, examples and programs of one piece: `memory://name`.

It is a real one: the same machine in the same shell as a live broker, with pipes in place of sockets, and
bytes in the pipes. There is one a name and event loop. It comes with its first client, and goes with its
last.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import Congested, Received, Relieved, Started
from roost.broker.messages import AttachRefused, Login
from roost.client.connection import Connection
from roost.client.dialling import DialError
from roost.client.line import Line
from roost.runtime.shell import Shell
from roost.wire import PREFACE, StreamDecoder, WireError, encode

# As much as a socket would bring at once, and may hold before the writer is told.
PIECE_BYTES = 1 << 16
PIPE_BYTES = 1 << 20


class MemoryBroker:
    """One broker, for all clients of an event loop that name it."""

    _brokers: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, MemoryBroker]]] = (
        WeakKeyDictionary()
    )

    @classmethod
    def of(cls, name: str) -> MemoryBroker:
        """The one of this name, in this event loop."""
        brokers = cls._brokers.setdefault(asyncio.get_running_loop(), {})
        if name not in brokers:
            brokers[name] = cls(name, brokers)
        return brokers[name]

    def __init__(self, name: str, brokers: dict[str, MemoryBroker]) -> None:
        self.name = name
        self.shell = Shell(
            Broker(BrokerConfig(broker=name or "memory", incarnation=secrets.token_hex(8))),
            dial=_never,
            persist=_never,
            fetch=_never,
        )
        self.shell.handle(Started())
        self._brokers_here = brokers
        self._clients = 0

    def acquire(self) -> None:
        self._clients += 1

    def release(self) -> None:
        self._clients -= 1
        if not self._clients:
            self.shell.stop()
            if self._brokers_here.get(self.name) is self:
                del self._brokers_here[self.name]


class MemoryDialler:
    """Connects lines to a broker in this process."""

    def __init__(self, broker: MemoryBroker, url: str) -> None:
        self._memory = broker
        self.broker = url

    async def dial(self, line: Line, broker: str) -> None:
        if broker != self.broker:
            raise DialError(f"{broker} is not in this process")
        connection = Connection(line, None, broker)
        connection.connection_made(MemoryTransport(self._memory.shell, connection))

    def lost(self, now: float) -> None:
        """There is no other to go to."""


class Pipe:
    """Bytes on their way to `deliver`, in pieces, none of them at once."""

    def __init__(
        self,
        deliver: Callable[[bytes], None],
        ended: Callable[[], None],
        congested: Callable[[bool], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._ended = ended
        self._congested = congested
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._is_congested = False
        self._is_due = False
        self._is_ending = False
        self.is_paused = False

    def write(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._pieces.extend(_cut(data))
        self._bytes += len(data)
        if self._bytes > PIPE_BYTES and not self._is_congested:
            self._is_congested = True
            self._congested(True)
        self._go_on()

    def end(self) -> None:
        """After what was written."""
        self._is_ending = True
        self._go_on()

    def cut(self) -> None:
        """At once."""
        self._pieces.clear()
        self.is_paused = False
        self.end()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_due and not self.is_paused and (self._pieces or self._is_ending):
            self._is_due = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        if self.is_paused:
            return
        if self._pieces:
            piece = self._pieces.popleft()
            self._bytes -= len(piece)
            self._deliver(piece)
            if self._is_congested and self._bytes < PIPE_BYTES / 4:
                self._is_congested = False
                self._congested(False)
            self._go_on()
        elif self._is_ending:
            self._ended()


class MemoryTransport(asyncio.Transport):
    """A client's end, which looks like a socket's."""

    def __init__(self, shell: Shell, protocol: Connection) -> None:
        super().__init__()
        self._protocol = protocol
        self._is_closing = False
        self._is_lost = False
        end = BrokerEnd(shell)
        self._down = end.down = Pipe(protocol.data_received, self._lose, end.congested)
        self._up = Pipe(end.received, end.lost, self._congested)
        end.begin()

    def _congested(self, is_so: bool) -> None:
        if is_so:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()

    def write(self, data: Any) -> None:
        self._up.write(bytes(data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._up.end()
            self._down.cut()

    def abort(self) -> None:
        self._is_closing = True
        self._up.cut()
        self._down.cut()

    def _lose(self) -> None:
        """The last that the client hears."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._up.end()
            self._protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._down.is_paused

    def pause_reading(self) -> None:
        self._down.pause()

    def resume_reading(self) -> None:
        self._down.resume()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """A pipe has its own."""


class BrokerEnd:
    """A broker's end: what its shell needs of a connection."""

    down: Pipe  # to the client

    def __init__(self, shell: Shell) -> None:
        self.id = shell.new_id()
        self.out: list[bytes] = []
        self._shell = shell
        self._decoder = StreamDecoder()

    def begin(self) -> None:
        self.down.write(PREFACE)
        self._shell.accepted(self)

    def received(self, data: bytes) -> None:
        try:
            parcels = self._decoder.feed(data)
        except WireError as error:
            self._shell.handle(Received(self.id, error.parcels))
            self.out.append(encode(AttachRefused(str(error))))
            self.close(str(error))
            self._shell.closed(self, str(error))
            return
        # Whoever is in this process is trusted, whatever they say they are.
        said = [parcel for parcel in parcels if type(parcel) is not Login]
        if said:
            self._shell.handle(Received(self.id, said))

    def lost(self) -> None:
        self._shell.closed(self, "the client has closed it")

    def congested(self, is_so: bool) -> None:
        self._shell.handle(Congested(self.id) if is_so else Relieved(self.id))

    def flush(self) -> None:
        out, self.out = self.out, []
        if out:
            self.down.write(b"".join(out))

    def close(self, reason: str) -> None:  # noqa: ARG002
        self.flush()
        self.down.end()

    def pause(self) -> None:
        """Only brokers with neighbours want it: see `Broker.set_pauses`."""

    def resume(self) -> None:
        """See `pause`."""


def _cut(data: bytes) -> Iterable[bytes]:
    if len(data) <= PIECE_BYTES:
        return (data,)
    return (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))


def _never(_: object) -> None:
    raise AssertionError("a broker in memory has neither neighbours nor a store")
