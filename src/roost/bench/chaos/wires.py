"""A wire: TCP connections go through it, and it can be cut, slowed down, or become a black hole.

In a black hole nothing passes, in one direction or both, and nobody is told: not even that an end has closed
the connection. Nothing of it is thrown away: as in a network that drops packets, whose senders have to send
them again, all of it goes on when the hole is over, if there is anybody left to send it to.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Literal, TypeAlias

HOST = "127.0.0.1"
PIECE_BYTES = 1 << 16
# Closing a socket that is told not to linger resets the connection.
NO_LINGER = struct.pack("ii", 1, 0)

Way: TypeAlias = Literal["up", "down"]  # up is from whoever has dialled
WAYS: tuple[Way, ...] = ("up", "down")


class Wire:
    """Listens on `port`, and passes on to another one; of several, to the next in turn that answers."""

    def __init__(self, name: str, port: int, *ports_behind: int) -> None:
        self.name = name
        self.port = port
        self.delay_s = 0.0
        self._ports_behind = ports_behind
        self._turn = 0
        self._gates = {way: asyncio.Event() for way in WAYS}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self.heal()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)

    # --- faults -------------------------------------------------------------------------------------

    def swallow(self, *ways: Way) -> None:
        """Nothing passes in these directions, until it is healed."""
        for way in ways:
            self._gates[way].clear()

    def heal(self) -> None:
        self.delay_s = 0.0
        for gate in self._gates.values():
            gate.set()

    def cut(self, *, reset: bool) -> None:
        """All connections end at once; what is on its way in them is lost."""
        for writer in list(self._writers):
            if reset:
                sock = writer.get_extra_info("socket")
                if sock is not None:
                    with contextlib.suppress(OSError):
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            writer.transport.abort()

    # --- passing on ---------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        found = None
        try:
            for gate in self._gates.values():
                await gate.wait()  # to be connected takes a word each way
            found = await self._behind()
        finally:
            if found is None:  # nobody answers, or this is closed meanwhile
                self._writers.discard(writer)
                writer.close()
        if found is None:
            return
        behind, to_behind = found
        if self._is_closed:
            to_behind.transport.abort()
            return
        self._writers.add(to_behind)
        self._spawn("up", reader, to_behind)
        self._spawn("down", behind, writer)

    async def _behind(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        # One that was stopped takes connections, too, and answers nobody: others begin with the next.
        first, self._turn = self._turn, self._turn + 1
        for number in range(first, first + len(self._ports_behind)):
            port = self._ports_behind[number % len(self._ports_behind)]
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(HOST, port)
        return None

    def _spawn(self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._pass(way, source, sink))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(PIECE_BYTES):
                    if self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    await self._gates[way].wait()
                    sink.write(data)
                    await sink.drain()
            await self._gates[way].wait()
        finally:
            self._writers.discard(sink)
            sink.close()

    async def close(self) -> None:
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        self.heal()
        self.cut(reset=False)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
