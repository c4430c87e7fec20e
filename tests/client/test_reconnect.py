"""Connections that are cut, brokers that restart, move a client, or object: nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roost.broker.events import ClientRedirected
from roost.broker.names import Address
from roost.client import SessionOver, connect
from roost.client import connection as connections
from roost.client import line as lines
from roost.client.dialling import REDIAL_MAX_S
from roost.runtime.server import BrokerServer
from roost.runtime.tables import LimitsTable
from tests.client.support import (
    config,
    connections_of,
    cut,
    in_loop,
    linked,
    numbers,
    serving,
    take,
    until,
    url_of,
)


@in_loop
async def test_cuts_in_the_middle_of_everything() -> None:
    count = 4_000
    async with (
        serving() as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server)) as subscriber,
    ):
        subscription = subscriber.subscribe("n >= 0")
        await subscription.ready()

        async def publish() -> None:
            for n in range(count):
                await publisher.publish({"n": n}, b"x" * 1_000)
                if n % 400 == 399:
                    cut(server)

        publishing = asyncio.create_task(publish())
        got = numbers(await take(subscription, count))
        await publishing
        await publisher.flush()
        assert got == list(range(count))
        assert subscription.waiting == 0
        assert subscriber._line is not None
        assert subscriber._line.machine.duplicates == 0


@in_loop
async def test_a_cut_while_an_advertisement_settles() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        subscription = client.subscribe("n >= 0")
        await client.flush()
        for n in range(20):
            advertising = asyncio.create_task(client.advertise(f"n = {n}"))
            await asyncio.sleep(0)
            cut(server)
            await advertising
            await client.publish({"n": n})
        assert numbers(await take(subscription, 20)) == list(range(20))


@in_loop
async def test_what_is_asked_for_while_away_is_said_on_return() -> None:
    async with serving() as server:
        port = server.port
        client = await connect(url_of(server), settle_s=0.05)
    await until(lambda: client.state == "connecting")
    subscription = client.subscribe("n > 0")
    await client.publish({"n": 1})
    async with serving(config(port=port)):
        assert (await subscription.get(20))["n"] == 1
        await client.close()


@asynccontextmanager
async def restarted(server: BrokerServer) -> AsyncIterator[BrokerServer]:
    """The next life of a broker: the same port and the same store, if it has one."""
    table = server.config.broker
    data = Path(table.data) if table.data else None
    await server.stop(within_s=1.0)
    async with serving(config(table.name, server.port, data=data)) as again:
        yield again


@in_loop
async def test_a_broker_with_a_store_restarts(tmp_path: Path) -> None:
    async with serving(config(data=tmp_path)) as first:
        publisher = await connect(url_of(first))
        subscriber = await connect(url_of(first))
        subscription = subscriber.subscribe("n >= 0")
        await subscription.ready()
        for n in range(1_000):
            await publisher.publish({"n": n})
        async with restarted(first):
            for n in range(1_000, 2_000):
                await publisher.publish({"n": n})
            await publisher.flush()
            assert numbers(await take(subscription, 2_000)) == list(range(2_000))
            await publisher.close()
            await subscriber.close()


@in_loop
async def test_a_broker_without_a_store_restarts() -> None:
    """It has forgotten everybody: all begin anew, and what it had not acknowledged is sent again."""
    async with serving() as first:
        publisher = await connect(url_of(first))
        subscriber = await connect(url_of(first))
        subscription = subscriber.subscribe("n >= 0")
        await subscription.ready()
        for n in range(100):
            await publisher.publish({"n": n})
        async with restarted(first) as second:
            await until(lambda: publisher.state == subscriber.state == "connected")
            await subscription.ready()
            for n in range(100, 200):
                await publisher.publish({"n": n})
            await publisher.flush()
            assert len(second.shell.machine.sessions) == 2
            got: list[int] = []
            while not got or got[-1] != 199:
                got += numbers([await subscription.get()])
            assert got == sorted(set(got))
            assert set(range(100, 200)) <= set(got)
            await publisher.close()
            await subscriber.close()


@in_loop
async def test_the_brokers_of_a_url_in_turn() -> None:
    async with linked() as (first, second), connect(url_of(second)) as subscriber:
        subscription = subscriber.subscribe("n >= 0")
        await subscription.ready()
        async with connect(url_of(first, second), failover_s=0.1) as publisher:
            for n in range(500):
                await publisher.publish({"n": n})
            await publisher.flush()
            await first.stop(within_s=1.0)
            for n in range(500, 1_000):
                await publisher.publish({"n": n})
            await publisher.flush()
            assert len(second.shell.machine.sessions) == 2
            assert numbers(await take(subscription, 1_000)) == list(range(1_000))
        # The first is still away when somebody new comes, and does not hear of what they advertise.
        async with connect(url_of(first, second), settle_s=0.1) as late:
            await late.publish({"n": 1_000})
            assert (await subscription.get())["n"] == 1_000


@in_loop
async def test_one_that_takes_connections_and_never_answers_comes_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that was stopped: the system takes connections in its name."""
    monkeypatch.setattr(connections, "GREETING_S", 0.2)
    came = 0

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as stopped, serving() as server:
        port = stopped.sockets[0].getsockname()[1]
        url = f"roost://127.0.0.1:{port},127.0.0.1:{server.port}"
        async with connect(url, timeout_s=30) as client:
            await client.publish({"n": 1})
            await client.flush()
        assert came == 1


@in_loop
async def test_where_the_standby_is_all_sessions_of_a_client_know() -> None:
    """Also one that begins when the broker of the URL is gone."""
    async with serving() as first, serving() as second:
        for epoch, server, other in ((1, first, second), (2, second, first)):
            identity = server.shell.machine.identity
            identity.epoch, identity.beside = epoch, f"127.0.0.1:{other.port}"
        async with connect(url_of(first), settle_s=0.1) as client:
            await first.stop(within_s=1.0)
            subscription = client.subscribe("n > 0", durable="d")
            await subscription.ready()
            await until(lambda: len(second.shell.machine.sessions) == 2)


@in_loop
async def test_a_broker_that_has_a_standby_is_not_waited_for_as_long() -> None:
    async with serving() as first, serving() as second:
        identity = first.shell.machine.identity
        identity.epoch, identity.beside = 1, f"127.0.0.1:{second.port}"
        async with connect(url_of(first), keepalive_s=600) as client:
            assert client._line is not None
            (connection,) = client._line._connections
            assert connection._keepalive is not None
            assert connection._keepalive.dead_after_s < 60
        async with connect(url_of(second), keepalive_s=600) as client:
            assert client._line is not None
            (connection,) = client._line._connections
            assert connection._keepalive is not None
            assert connection._keepalive.dead_after_s > 600


@in_loop
async def test_ones_own_broker_is_waited_for_before_another_gets_its_turn(tmp_path: Path) -> None:
    async with (
        serving() as other,
        serving(config(data=tmp_path)) as own,
        connect(url_of(own, other), failover_s=30.0) as client,
    ):
        subscription = client.subscribe("n > 0")
        await subscription.ready()
        async with restarted(own) as again:
            await until(lambda: client.state == "connected")
            assert len(again.shell.machine.sessions) == 1
            assert not other.shell.machine.sessions
            await client.publish({"n": 1})
            assert (await subscription.get())["n"] == 1
            await client.close()


@in_loop
async def test_a_client_is_sent_elsewhere() -> None:
    async with linked() as (first, second), connect(url_of(first)) as client:
        subscription = client.subscribe("n >= 0")
        for n in range(100):
            await client.publish({"n": n})
        there = f"127.0.0.1:{second.port}"
        first.shell.handle(ClientRedirected(client.name, Address(there), "a test"))
        for n in range(100, 200):
            await client.publish({"n": n})
        await until(lambda: second.shell.machine.sessions)
        for n in range(200, 300):
            await client.publish({"n": n})
        got: list[int] = []
        while not got or got[-1] != 299:
            got += numbers([await subscription.get()])
        assert got == list(range(300))
        await until(lambda: not first.shell.machine.sessions)
        assert client._line is not None
        assert len(client.pauses_s) == 1


@in_loop
async def test_sent_to_where_nobody_is() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        subscription = client.subscribe("n > 0")
        await subscription.ready()
        server.shell.handle(ClientRedirected(client.name, Address("127.0.0.1:9"), "a test"))
        line = client._line
        assert line is not None
        await until(lambda: line.machine.moving)
        await client.publish({"n": 1})
        assert client.state == "connected"
        assert (await subscription.get())["n"] == 1


@in_loop
async def test_a_connection_that_the_broker_found_idle() -> None:
    """It is told why with the word for a refusal, and comes back all the same."""
    settings = config(limits=LimitsTable(idle_s=0.1))
    async with serving(settings) as server, connect(url_of(server)) as client:
        subscription = client.subscribe("n > 0")
        await subscription.ready()
        await until(lambda: client.state == "connecting")
        await until(lambda: client.state == "connected")
        await client.publish({"n": 1})
        assert (await subscription.get())["n"] == 1


@in_loop
async def test_a_broker_that_sends_what_is_no_message() -> None:
    """The client says so, and comes back."""
    told: list[tuple[str, str]] = []
    async with (
        serving() as server,
        connect(url_of(server), on_state=lambda *what: told.append(what)) as client,
    ):
        subscription = client.subscribe("n > 0")
        await client.publish({"n": 1})
        assert (await subscription.get())["n"] == 1
        (connection,) = connections_of(server)
        connection.transport.write(b"\x00\x00\x00\x01\xc1")
        await until(lambda: ("connected", "resumed") in told)
        await client.publish({"n": 2})
        assert (await subscription.get())["n"] == 2
    assert told[2][0] == "connecting"
    assert told[2][1].startswith("the broker sent what is no message: frame at byte ")


@in_loop
async def test_a_broker_that_objects_again_and_again() -> None:
    """It has smaller limits than we know of: to send the same again for ever would be no use."""
    settings = config(limits=LimitsTable(payload_bytes_max=100))
    async with serving(settings) as server:
        client = await connect(url_of(server))
        subscription = client.subscribe("n > 0")
        await client.publish({"n": 1}, b"x" * 101)
        with pytest.raises(SessionOver, match="payload"):
            await client.flush()
        with pytest.raises(SessionOver, match="payload"):
            await subscription.get()
        assert client.state == "failed"
        with pytest.raises(SessionOver):
            await client.close()  # the event was lost


@in_loop
async def test_a_cut_while_leaving() -> None:
    async with serving() as server:
        for _ in range(20):
            client = await connect(url_of(server), timeout_s=5.0)
            leaving = asyncio.create_task(client.close())
            await asyncio.sleep(0)
            cut(server)
            await leaving
            assert client.state == "closed"
        await until(lambda: not connections_of(server))


@in_loop
async def test_delays_grow_and_differ() -> None:
    async with connect("memory://") as client:
        line = client._line
        assert line is not None
        delays = [line._redial_delay() for _ in range(30)]
        assert 0 < delays[0] <= lines.REDIAL_S
        assert max(delays) <= REDIAL_MAX_S
        assert min(delays[10:]) >= REDIAL_MAX_S / 2
        assert len(set(delays)) == 30
