"""Entry points and a thousand clients (003 section IV.C, and what it leaves to the future): real sockets.

Five brokers in one process, each an entry point, and a thousand clients of the library in the same one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from msgspec.structs import replace

import roost
from roost.client import Client
from roost.runtime.federation import free_ports
from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, OptimisersTable, ServerConfig
from roost.testing import until
from tests.entry.test_entry import clients_of, directory_of, known
from tests.runtime.wires import Way, Wire

HOST = "127.0.0.1"
NAMES = ("B0", "B1", "B2", "B3", "B4")
CLIENTS = 1_000
# So many connect at the same time.
AT_ONCE = 50
# A loop that a thousand clients share is late now and then: three of these are a silence.
PERIOD_S = 2.0
Servers = dict[str, BrokerServer]


@asynccontextmanager
async def federation(
    weights: Sequence[float] = (1.0,) * 5, *, period_s: float = PERIOD_S
) -> AsyncIterator[Servers]:
    """A star, all of which know each other."""
    servers: Servers = {}
    try:
        for name, weight in zip(NAMES, weights, strict=True):
            first = {"B0": f"{HOST}:{servers['B0'].port}"} if servers else {}
            words = f"acting period_s={period_s} weight={weight}"
            servers[name] = await start_server(
                ServerConfig(
                    broker=BrokerTable(name=name, port=0),
                    links=LinksTable(neighbours=first or dict.fromkeys(NAMES[1:], "")),
                    admin=AdminTable(port=-1),
                    optimisers=OptimisersTable(modules={"entry": words}),
                )
            )
        await until(lambda: all(len(known(server)) == 5 for server in servers.values()))
        yield servers
    finally:
        for server in servers.values():
            await server.stop()


def entries(servers: Servers, number: int, by: str, asked: int) -> str:
    """Clients know the same entry points, and begin with one of so many."""
    ports = [server.port for server in servers.values()]
    first = number % asked
    hosts = ",".join(f"{HOST}:{port}" for port in (*ports[first:], *ports[:first]))
    return f"roost+entry://{hosts}?by={by}"


async def crowd(
    stack: AsyncExitStack, servers: Servers, by: str, many: int, *, asked: int = 4
) -> list[Client]:
    """So many clients, some of them at the same time."""
    numbers = iter(range(many))
    found = []

    async def some() -> None:
        for number in numbers:
            client = roost.connect(entries(servers, number, by, asked), timeout_s=60.0)
            found.append(await stack.enter_async_context(client))

    await asyncio.gather(*(some() for _ in range(min(AT_ONCE, many))))
    return found


@pytest.mark.long
def test_a_thousand_clients_in_turn_are_within_a_tenth_of_even() -> None:
    async def scenario() -> None:
        async with federation() as servers, AsyncExitStack() as stack:
            await crowd(stack, servers, "turn", CLIENTS)
            found = clients_of(servers)
            assert sum(found.values()) == CLIENTS
            even = CLIENTS / len(NAMES)
            assert all(abs(n - even) <= 0.1 * even for n in found.values()), found

    asyncio.run(scenario())


@pytest.mark.long
@pytest.mark.parametrize("asked", [1, 5])
def test_a_thousand_clients_by_load_are_within_a_twentieth_of_the_load(asked: int) -> None:
    """Brokers of different strength, some of which have clients already that nobody has sent."""
    weights = (1.0, 1.0, 1.5, 1.5, 2.0)
    before = {"B0": 40, "B2": 100}

    async def scenario() -> None:
        async with federation(weights) as servers, AsyncExitStack() as stack:
            for name, many in before.items():
                for _ in range(many):
                    plain = f"roost://{HOST}:{servers[name].port}"
                    await stack.enter_async_context(roost.connect(plain))
            await until(
                lambda: all(
                    directory_of(server)._known[name].clients == many
                    for server in servers.values()
                    for name, many in before.items()
                )
            )
            await crowd(stack, servers, "load", CLIENTS, asked=asked)
            found = clients_of(servers)
            every = CLIENTS + sum(before.values())
            assert sum(found.values()) == every
            due = {n: every * w / sum(weights) for n, w in zip(NAMES, weights, strict=True)}
            assert all(abs(n - due[name]) <= 0.05 * due[name] for name, n in found.items()), found

    asyncio.run(scenario())


@pytest.mark.long
def test_a_dead_broker_is_handed_out_to_none_of_a_thousand() -> None:
    """After three of its periods of silence; before, those who are sent there go to the next address."""

    async def scenario() -> None:
        async with federation(period_s=1.0) as servers, AsyncExitStack() as stack:
            dead = servers.pop("B3")
            address = f"{HOST}:{dead.port}"
            await dead.stop()
            early = await crowd(stack, servers, "turn", 50)
            await until(lambda: not any("B3" in known(server) for server in servers.values()))
            handed = Counter(
                address
                for server in servers.values()
                for policy in ("turn", "load", "near")
                for _ in range(250)
                for address in directory_of(server).some(policy, 3, server.shell.loop.time())
            )
            assert address not in handed
            assert len(handed) == 4
            late = await crowd(stack, servers, "turn", CLIENTS - 50)
            assert len(early) + len(late) == CLIENTS
            assert sum(clients_of(servers).values()) == CLIENTS

    asyncio.run(scenario())


class Long(Wire):
    """A wire of a given length."""

    def __init__(self, port_behind: int, delay_s: float) -> None:
        super().__init__(port_behind)
        self.delay_s = delay_s

    async def _pass(
        self,
        way: Way,  # noqa: ARG002
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
    ) -> None:
        while data := await source.read(1 << 16):
            await asyncio.sleep(self.delay_s)
            sink.write(data)
        sink.close()


def test_the_nearest_is_within_a_twentieth_of_the_best_latency() -> None:
    """Five brokers behind wires of known lengths, of which two are all but equal."""
    delays_s = dict(zip(NAMES, (0.2, 0.051, 0.12, 0.05, 0.08), strict=True))

    async def scenario() -> None:
        servers: Servers = {}
        async with AsyncExitStack() as stack:
            for name, port in zip(NAMES, free_ports(5), strict=True):
                wire = Long(port, delays_s[name])
                await wire.open()
                stack.push_async_callback(wire.close)
                neighbours = {"B0": f"{HOST}:{servers['B0'].port}"} if servers else {}
                config = ServerConfig(
                    broker=BrokerTable(name=name, port=port),
                    links=LinksTable(neighbours=neighbours or dict.fromkeys(NAMES[1:], "")),
                    admin=AdminTable(port=-1),
                    optimisers=OptimisersTable(modules={"entry": "acting period_s=0.4"}),
                )
                broker = replace(config.broker, advertised=f"{HOST}:{wire.port}")
                servers[name] = await start_server(replace(config, broker=broker))
                stack.push_async_callback(servers[name].stop)
            await until(lambda: all(len(known(server)) == 5 for server in servers.values()))
            urls = [f"roost+entry://{HOST}:{s.port}?by=near" for s in servers.values()]
            clients = await asyncio.gather(
                *(stack.enter_async_context(roost.connect(url)) for url in urls)
            )
            assert len(clients) == 5
            chosen = [name for name, many in clients_of(servers).items() if many]
            assert all(delays_s[name] <= 1.05 * min(delays_s.values()) for name in chosen), chosen

    asyncio.run(scenario())
