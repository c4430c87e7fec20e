"""Live brokers for the tests of the client library, and waiting for what has to happen."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec

from msgspec import structs

from roost.broker.events import LinkAdded
from roost.broker.messages import Refused
from roost.client import ReceivedEvent, Subscription
from roost.partition.naming import DISPATCHER, MATCHER
from roost.runtime.connection import SocketConnection
from roost.runtime.in_process import running
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LimitsTable,
    LinksTable,
    SecurityTable,
    ServerConfig,
    TlsTable,
)

P = ParamSpec("P")

# Far above what anything takes, so that only what never happens runs into it.
DEADLINE_S = 60.0


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own, which has to be left without any task."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE_S):
                await test(*args, **kwargs)
            # asyncio's own, of a TLS handshake that failed, may take a moment longer than the test.
            only_us = {asyncio.current_task()}
            await until(lambda: asyncio.all_tasks() == only_us, "no task is left")

        asyncio.run(bounded())

    return run


async def until(is_so: Callable[[], object], what: str = "it") -> None:
    """Until something is so."""
    async with asyncio.timeout(DEADLINE_S / 2):
        while not is_so():
            await asyncio.sleep(0.002)
    assert is_so(), what


def config(
    name: str = "B0",
    port: int = 0,
    *,
    data: Path | None = None,
    neighbours: dict[str, str] | None = None,
    limits: LimitsTable = LimitsTable(),
    tls: TlsTable = TlsTable(),
    security: SecurityTable = SecurityTable(),
    **broker: Any,
) -> ServerConfig:
    table = BrokerTable(name=name, port=port, data=str(data or ""), redial_min_s=0.05, **broker)
    return ServerConfig(
        broker=table,
        admin=AdminTable(port=-1),
        links=LinksTable(neighbours=neighbours or {}),
        limits=limits,
        tls=tls,
        security=security,
    )


class House:
    """What `serving` starts: a broker, or the dispatcher of a partitioned service. See `conftest`."""

    is_service = False


@asynccontextmanager
async def serving(settings: ServerConfig | None = None) -> AsyncIterator[BrokerServer]:
    """A broker on this machine, or what clients take for one."""
    settings = settings or config()
    async with AsyncExitStack() as stack:
        if House.is_service:
            settings = await stack.enter_async_context(_matcher_for(settings))
        server = await stack.enter_async_context(running(settings, within_s=1.0))
        yield server
    await until(lambda: not server._open)


@asynccontextmanager
async def _matcher_for(settings: ServerConfig) -> AsyncIterator[ServerConfig]:
    """A matcher, and the settings with which a broker is the only dispatcher that it has."""
    name = settings.broker.name
    words = f"dispatchers={name}"
    machine = f"{MATCHER} {words} gossip_s=0.2"
    matcher = config("M0", neighbours={name: ""}, tls=settings.tls, machine=machine)
    async with running(matcher, within_s=0.0) as server:
        machine = f"{DISPATCHER} {words} dimensions=n:0:100 matchers=M0"
        yield structs.replace(
            settings,
            broker=structs.replace(settings.broker, machine=machine),
            links=LinksTable(neighbours={"M0": f"127.0.0.1:{server.port}"}),
        )


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[BrokerServer, BrokerServer]]:
    """Two brokers that are neighbours."""
    async with serving(config("B1")) as first:
        neighbours = {"B1": f"127.0.0.1:{first.port}"}
        async with serving(config("B2", neighbours=neighbours)) as second:
            first.shell.handle(LinkAdded("B2", dial=False))
            links = second.shell.machine.links
            await until(lambda: all(link.greeted for link in links.values()))
            yield first, second


def url_of(*servers: BrokerServer) -> str:
    return "roost://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


def connections_of(server: BrokerServer) -> list[SocketConnection]:
    """Those of clients."""
    return [c for c in server._open.values() if not c.neighbour]


def cut(server: BrokerServer) -> int:
    """Cut all connections of clients, without a word; how many."""
    connections = connections_of(server)
    for connection in connections:
        connection.transport.abort()
    return len(connections)


async def take(subscription: Subscription, count: int) -> list[ReceivedEvent]:
    """The next so many events."""
    return [await subscription.get(DEADLINE_S / 2) for _ in range(count)]


def numbers(events: Iterable[ReceivedEvent], name: str = "n") -> list[Any]:
    return [event[name] for event in events]


def refuses(server: BrokerServer, client: str, request: str, reason: str) -> None:
    """Have the broker refuse a request that it has carried out."""
    shell = server.shell
    for session in shell.machine.sessions.values():
        if session.client == client:
            shell.machine.node.work.commands = []
            shell.machine.node.flow.tell(session, Refused(request, reason))
            shell.execute(shell.machine.node.work.commands)
