"""Brokers inside this process, for tests, examples and programs of one piece: `memory://name`.

They are real ones: the same machine in the same shell as a live broker, with pipes in place of sockets, and
bytes in the pipes. There is one a name and event loop. It comes with its first client, and goes with its
last. `roost.testing` links several of them to a federation.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from roost.broker.config import BrokerConfig
from roost.broker.core import Broker
from roost.broker.events import (
    Congested,
    LinkOpened,
    LinkRefused,
    Received,
    Relieved,
    Started,
)
from roost.broker.messages import AttachRefused, Login
from roost.broker.names import Address
from roost.client.connection import Connection
from roost.client.dialling import REDIAL_MAX_S, DialError
from roost.client.line import Line
from roost.client.pipe import Pipe
from roost.runtime.shell import Shell
from roost.wire import PREFACE, StreamDecoder, WireError, encode

SCHEME = "memory://"


class MemoryBroker:
    """One broker, for all clients of an event loop that name it.

    `reach` finds a neighbour that it dials, by name; None if there is no way to it just now.
    """

    _brokers: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, MemoryBroker]]] = (
        WeakKeyDictionary()
    )

    @classmethod
    def here(cls) -> dict[str, MemoryBroker]:
        """Those of this event loop, by name."""
        return cls._brokers.setdefault(asyncio.get_running_loop(), {})

    @classmethod
    def of(cls, name: str) -> MemoryBroker:
        """The one of this name, in this event loop."""
        return cls.here().get(name) or cls(name)

    def __init__(
        self,
        name: str,
        config: BrokerConfig | None = None,
        reach: Callable[[str], MemoryBroker | None] = lambda _: None,
    ) -> None:
        self.name = name
        self._reach = reach
        self.shell = Shell(
            Broker(
                config or BrokerConfig(broker=name or "memory", incarnation=secrets.token_hex(8))
            ),
            dial=self._dial,
            persist=_never,
            fetch=_never,
        )
        # Where clients find it that were at another one.
        self.shell.machine.identity.address = Address(f"{SCHEME}{name}")
        self.shell.handle(Started())
        self._brokers_here = self.here()
        self._brokers_here[name] = self
        self._clients = 0

    def acquire(self) -> None:
        self._clients += 1

    def release(self) -> None:
        self._clients -= 1
        if not self._clients:
            self.stop()

    def stop(self) -> None:
        self.shell.stop()
        if self._brokers_here.get(self.name) is self:
            del self._brokers_here[self.name]

    def cut(self, connection: int) -> None:
        """One of its connections is gone, without a word."""
        end = self.shell.connections.get(connection)
        if isinstance(end, BrokerEnd):
            end.cut()

    def _dial(self, neighbour: str, _: str) -> None:
        # Not at once: the machine hears what came of it after it has asked for it.
        self.shell.loop.call_soon(self._dial_now, neighbour)

    def _dial_now(self, neighbour: str) -> None:
        there = self._reach(neighbour)
        if there is None:
            self.shell.handle(LinkRefused(neighbour, f"there is no way to {neighbour}"))
            return
        ours, theirs = BrokerEnd(self.shell), BrokerEnd(there.shell)
        ours.down = theirs.up = Pipe(theirs.received, theirs.lost, ours.congested)
        theirs.down = ours.up = Pipe(ours.received, ours.lost, theirs.congested)
        theirs.begin()
        ours.begin(neighbour)


class MemoryDialler:
    """Connects lines to a broker in this process."""

    def __init__(self, broker: MemoryBroker, url: str) -> None:
        self._memory = broker
        self.broker = url

    async def dial(self, line: Line, broker: str) -> None:
        there = self._memory
        if broker != self.broker:  # it was sent there
            found = MemoryBroker.here().get(broker.removeprefix(SCHEME))
            if found is None:
                raise DialError(f"{broker} is not in this process")
            there = found
        connection = Connection(line, None, broker)
        connection.connection_made(MemoryTransport(there.shell, connection))

    @property
    def redial_max_s(self) -> float:
        return REDIAL_MAX_S

    def lost(self, now: float, *, answered: bool) -> None:
        """There is no other to go to."""


class MemoryTransport(asyncio.Transport):
    """A client's end, which looks like a socket's."""

    def __init__(self, shell: Shell, protocol: Connection) -> None:
        super().__init__()
        self._protocol = protocol
        self._is_closing = False
        self._is_lost = False
        end = BrokerEnd(shell)
        self._down = end.down = Pipe(protocol.data_received, self._lose, end.congested)
        self._up = end.up = Pipe(end.received, end.lost, self._congested)
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

    down: Pipe  # to the peer
    up: Pipe  # from it

    def __init__(self, shell: Shell) -> None:
        self.id = shell.new_id()
        self.out: list[bytes] = []
        self._shell = shell
        self._decoder = StreamDecoder()

    def begin(self, neighbour: str = "") -> None:
        """The connection is there: to a neighbour that we dialled, or from somebody who dialled us."""
        self.down.write(PREFACE)
        if neighbour:
            self._shell.connections[self.id] = self
            self._shell.handle(LinkOpened(neighbour, self.id))
        else:
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
        self._shell.closed(self, "the peer has closed it")
        self.down.end()

    def congested(self, is_so: bool) -> None:
        self._shell.handle(Congested(self.id) if is_so else Relieved(self.id))

    def flush(self) -> None:
        out, self.out = self.out, []
        if out:
            self.down.write(b"".join(out))

    def close(self, reason: str) -> None:  # noqa: ARG002
        self.flush()
        self.down.end()

    def cut(self) -> None:
        """Both ways, with what is on the way."""
        self.down.cut()
        self.up.cut()

    def pause(self, briefly: bool) -> None:  # noqa: ARG002
        self.up.pause()

    def resume(self) -> None:
        self.up.resume()


def _never(_: object) -> None:
    raise AssertionError("a broker in memory has no store")
