"""Live brokers inside the test, for commands that ask brokers how they fare."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from roost.runtime.admin import Admin
from roost.runtime.in_process import start_server
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, ServerConfig, TraceTable

HOST = "127.0.0.1"
T = TypeVar("T")


class Live:
    """B0 and B1, which dials it, in an event loop of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.servers: list[BrokerServer] = []
        self.admins: list[Admin] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    @property
    def urls(self) -> list[str]:
        return [f"http://{HOST}:{admin.port}" for admin in self.admins]

    @property
    def options(self) -> list[str]:
        """For a command to ask them."""
        return [word for url in self.urls for word in ("--admin", url)]

    async def begin(self) -> None:
        await self._add("B0", {"B1": ""})
        await self._add("B1", {"B0": f"{HOST}:{self.servers[0].port}"})
        async with asyncio.timeout(10):
            while not self.servers[1].status()["links"]["B0"]["up"]:
                await asyncio.sleep(0.01)

    async def _add(self, name: str, neighbours: dict[str, str]) -> None:
        config = ServerConfig(
            broker=BrokerTable(name=name, port=0),
            links=LinksTable(neighbours=neighbours),
            admin=AdminTable(port=-1),
            trace=TraceTable(allowed=("/",)),
        )
        server = await start_server(config)
        self.servers.append(server)
        server.config = replace(config, admin=AdminTable(port=0))
        self.admins.append(Admin(server))
        await self.admins[-1].start()

    async def attach(self, broker: int, client: str) -> PlainPeer:
        peer = await PlainPeer.connect(HOST, self.servers[broker].port)
        await peer.attach(client)
        return peer

    async def stop(self, broker: int) -> None:
        await self.admins[broker].stop()
        await self.servers[broker].stop()

    def end(self) -> None:
        for number in range(len(self.servers)):
            self.run(self.stop(number))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def live_brokers() -> Iterator[Live]:
    live = Live()
    try:
        live.run(live.begin())
        yield live
    finally:
        live.end()
