"""A wire between two that can go dead: nothing passes any more, and neither end is told.

So it is when a machine loses its power, a cable is pulled, or something on the way forgets a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

HOST = "127.0.0.1"

Way: TypeAlias = Literal["up", "down"]


class Wire:
    """Listens on `port`, and passes on to another one."""

    def __init__(self, port_behind: int) -> None:
        self.port = 0
        self.passed: dict[Way, int] = {"up": 0, "down": 0}  # pieces; up is from who has dialled
        self.connections = 0
        self._port_behind = port_behind
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def kill(self, *ways: Way) -> None:
        """From now on nothing passes on these ways, for those who are connected, and for ever."""
        for task in list(self._tasks):
            if task.get_name() in (ways or ("up", "down")):
                task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            behind, to_behind = await asyncio.open_connection(HOST, self._port_behind)
        except OSError:
            writer.close()
            return
        if writer.transport.is_closing():  # this was closed meanwhile
            to_behind.transport.abort()
            return
        self._writers.add(to_behind)
        self._spawn("up", reader, to_behind)
        self._spawn("down", behind, writer)

    def _spawn(self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._pass(way, source, sink), name=way)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
                self.passed[way] += 1
        sink.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        _close_all(self._writers)
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _close_all(writers: Iterable[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    wire = Wire(port)
    await wire.open()
    try:
        yield wire
    finally:
        await wire.close()
