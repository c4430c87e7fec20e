"""Entry points at work: real brokers, real clients, and the URL is all that a client knows (003 IV.C)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

import roost
from roost.client.entry import Entry, NoEntry
from roost.client.url import BadUrl, target_of
from roost.entry import Directory, EntryPoint
from roost.runtime.federation import free_ports
from roost.runtime.in_process import start_server
from roost.runtime.security import User, changed_users, digest_token
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LinksTable,
    OptimisersTable,
    SecurityTable,
    ServerConfig,
)
from roost.testing import until
from tests.runtime.wires import Way, Wire

HOST = "127.0.0.1"
CLIENTS = 30
# Longer than a busy machine keeps one event loop waiting: who is silent for three of them is not handed out.
PERIOD_S = 0.4
FAR_S = 0.05
Servers = dict[str, BrokerServer]


def config_of(name: str, servers: Servers, *, mode: str = "acting") -> ServerConfig:
    """Of one that is linked to the first."""
    neighbours = {f"B{n}": "" for n in (1, 2)}
    if name != "B0":
        neighbours = {"B0": f"{HOST}:{servers['B0'].port}"}
    return ServerConfig(
        broker=BrokerTable(name=name, port=0),
        links=LinksTable(neighbours=neighbours),
        admin=AdminTable(port=-1),
        optimisers=OptimisersTable(modules={"entry": f"{mode} period_s={PERIOD_S}"}),
    )


@asynccontextmanager
async def federation() -> AsyncIterator[Servers]:
    """B0, B1 and B2, which know each other."""
    servers: Servers = {}
    try:
        for name in ("B0", "B1", "B2"):
            servers[name] = await start_server(config_of(name, servers))
        await until(lambda: all(len(known(server)) == 3 for server in servers.values()))
        yield servers
    finally:
        for server in servers.values():
            await server.stop()


def directory_of(server: BrokerServer) -> Directory:
    module = server.shell.broker.modules._hosts["entry"].module
    assert isinstance(module, EntryPoint)
    return module.directory


def known(server: BrokerServer) -> dict[str, str]:
    return directory_of(server).brokers(server.shell.loop.time())


def clients_of(servers: Servers) -> dict[str, int]:
    return {
        name: sum(
            session.connection is not None for session in server.shell.machine.sessions.values()
        )
        for name, server in servers.items()
    }


def entry(server: BrokerServer, by: str = "") -> str:
    return f"roost+entry://{HOST}:{server.port}{by}"


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


@pytest.mark.parametrize(("by", "apart"), [("", 0), ("?by=load", 2)])
def test_clients_are_spread_evenly(by: str, apart: int) -> None:
    """By load all but exactly: somebody who is on the way may have been counted already."""

    async def scenario() -> None:
        async with federation() as servers, AsyncExitStack() as stack:
            for _ in range(CLIENTS):
                await stack.enter_async_context(roost.connect(entry(servers["B0"], by)))
            found = clients_of(servers).values()
            assert sum(found) == CLIENTS
            assert max(found) - min(found) <= apart

    run(scenario)


def test_by_load_the_others_fill_up_first() -> None:
    async def scenario() -> None:
        async with federation() as servers, AsyncExitStack() as stack:
            for _ in range(6):
                plain = f"roost://{HOST}:{servers['B1'].port}"
                await stack.enter_async_context(roost.connect(plain))
            await until(lambda: directory_of(servers["B0"])._known["B1"].clients == 6)
            for _ in range(12):
                await stack.enter_async_context(roost.connect(entry(servers["B0"], "?by=load")))
            found = clients_of(servers)
            assert found["B1"] <= 7
            assert abs(found["B0"] - found["B2"]) <= 2

    run(scenario)


def test_events_go_from_one_to_the_other_whoever_sits_where() -> None:
    async def scenario() -> None:
        async with (
            federation() as servers,
            roost.connect(entry(servers["B1"])) as one,
            roost.connect(entry(servers["B1"])) as other,
        ):
            subscription = other.subscribe("n >= 0")
            await subscription.ready()
            for number in range(20):
                await one.publish({"n": number})
            assert [(await subscription.get())["n"] for _ in range(20)] == list(range(20))

    run(scenario)


def test_what_outlives_a_process_is_found_again() -> None:
    """Each process would be sent to another broker, and find nothing there of what the one before left."""

    async def scenario() -> None:
        async with federation() as servers:
            url = entry(servers["B0"])
            for number in range(3):
                async with (
                    roost.connect(url) as client,
                    client.outbox("orders") as outbox,
                    client.subscribe("n present", durable="books") as books,
                ):
                    assert outbox.last == number
                    await books.ready(everywhere=True)
                    await outbox.publish(number + 1, {"n": number})
                    await outbox.flush()
                    event = await books.get()
                    assert event["n"] == number
                    await books.ack(event)
            held = {
                name: [session for session in server.shell.machine.sessions if "/" in session]
                for name, server in servers.items()
            }
            assert sorted(held.pop("B0")) == ["durable/books", "outbox/orders"]
            assert held == {"B1": [], "B2": []}

    run(scenario)


def test_a_broker_that_is_gone_is_not_handed_out_and_its_clients_go_elsewhere() -> None:
    async def scenario() -> None:
        async with federation() as servers, AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(roost.connect(entry(servers["B0"]), failover_s=0.1))
                for _ in range(3)
            ]
            await servers["B2"].stop()
            await until(lambda: "B2" not in known(servers["B0"]))
            del servers["B2"]
            await until(lambda: sum(clients_of(servers).values()) == 3)
            for client in clients:
                await client.publish({"n": 1})
                await client.flush()

    run(scenario)


class Far(Wire):
    """A wire that takes its time."""

    async def _pass(
        self,
        way: Way,  # noqa: ARG002
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
    ) -> None:
        while data := await source.read(1 << 16):
            await asyncio.sleep(FAR_S)
            sink.write(data)
        sink.close()


def test_the_nearest_is_who_answers_soonest() -> None:
    """Two of the three are behind wires that take their time; they come first in turn."""

    async def scenario() -> None:
        servers: Servers = {}
        async with AsyncExitStack() as stack:
            for name, port in zip(("B0", "B1", "B2"), free_ports(3), strict=True):
                config = config_of(name, servers)
                broker = replace(config.broker, port=port)
                if name != "B2":
                    wire = await stack.enter_async_context(opened(Far(port)))
                    broker = replace(broker, advertised=f"{HOST}:{wire.port}")
                servers[name] = await start_server(replace(config, broker=broker))
                stack.push_async_callback(servers[name].stop)
            await until(lambda: all(len(known(server)) == 3 for server in servers.values()))
            for _ in range(3):
                async with roost.connect(entry(servers["B0"], "?by=near")):
                    assert clients_of(servers) == {"B0": 0, "B1": 0, "B2": 1}
                await until(lambda: not any(clients_of(servers).values()))

    run(scenario)


@asynccontextmanager
async def opened(wire: Wire) -> AsyncIterator[Wire]:
    await wire.open()
    try:
        yield wire
    finally:
        await wire.close()


def test_one_that_only_observes_is_told_of_to_nobody() -> None:
    async def scenario() -> None:
        servers: Servers = {}
        servers["B0"] = await start_server(config_of("B0", servers))
        servers["B1"] = await start_server(config_of("B1", servers, mode="observing"))
        try:
            await until(lambda: len(known(servers["B1"])) == 1)
            assert list(known(servers["B0"])) == ["B0"]
            async with roost.connect(entry(servers["B1"])):
                assert clients_of(servers) == {"B0": 1, "B1": 0}
        finally:
            for server in servers.values():
                await server.stop()

    run(scenario)


def test_a_broker_that_is_no_entry_point_says_so() -> None:
    async def scenario() -> None:
        server = await start_server(
            ServerConfig(broker=BrokerTable(name="B0", port=0), admin=AdminTable(port=-1))
        )
        try:
            with pytest.raises(
                roost.ConnectError, match=r"B0 is no entry point; expected .entry. mode"
            ):
                async with roost.connect(entry(server), timeout_s=1.0):
                    pass
        finally:
            await server.stop()

    run(scenario)


def test_nobody_there_is_an_error_at_once() -> None:
    async def scenario() -> None:
        with pytest.raises(roost.Unreachable):
            async with roost.connect(f"roost+entry://{HOST}:1"):
                pass

    run(scenario)


def test_one_that_hangs_up_is_somebody() -> None:
    """So a client goes on trying, and does not give up at once."""

    async def scenario() -> None:
        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with await asyncio.start_server(hang_up, HOST, 0) as listening:
            place = listening.sockets[0].getsockname()
            with pytest.raises(NoEntry) as error:
                await Entry("turn", None, None).addresses([place])
            assert not error.value.nobody

    run(scenario)


def test_strangers_are_not_told_where_brokers_are(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    token = "roost_secret-of-anna"
    with changed_users(users) as known_users:
        known_users["anna"] = User(token_digest=digest_token(token), publish="*", subscribe="*")

    async def scenario() -> None:
        config = ServerConfig(
            broker=BrokerTable(name="B0", port=0),
            admin=AdminTable(port=-1),
            optimisers=OptimisersTable(modules={"entry": "acting period_s=0.1"}),
            security=SecurityTable(enabled=True, users=str(users)),
        )
        server = await start_server(config)
        try:
            with pytest.raises(roost.ConnectError):
                async with roost.connect(entry(server), timeout_s=1.0):
                    pass
            async with roost.connect(entry(server), user="anna", token=token):
                assert clients_of({"B0": server}) == {"B0": 1}
        finally:
            await server.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("url", "by"),
    [
        ("roost+entry://h1,h2:7500", "turn"),
        ("roosts+entry://h1?by=load", "load"),
        ("roost+entry://anna:x@h1/?by=near", "near"),
        ("roost://h1", ""),
    ],
)
def test_urls(url: str, by: str) -> None:
    target = target_of(url, environment={})
    assert target.entry == by
    assert target.tls == url.startswith("roosts")
    assert "x@" not in target.url


@pytest.mark.parametrize(
    "url", ["roost://h1?by=load", "roost+entry://h1?by=luck", "roost+entry://"]
)
def test_urls_that_say_nothing(url: str) -> None:
    with pytest.raises(BadUrl):
        target_of(url, environment={})
