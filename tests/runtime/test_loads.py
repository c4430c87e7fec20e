"""Live load indices: what was declared, what waits, and for whom; and what GRAPE makes of one slow link."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

import roost
from roost.broker.events import LoadIndices
from roost.client import Client
from roost.runtime.in_process import running
from roost.runtime.loads import LoadMeter
from roost.runtime.queues import Outlet, wait_s
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, RelocationTable, ServerConfig

HOST = "127.0.0.1"
FILTER = "class = 'STOCK'"
PAYLOAD = b"x" * 4_000


# --- how long something waits -----------------------------------------------------------------------


def test_what_waits_over_what_leaves() -> None:
    assert wait_s(0, 0, 1.0, 5.0) == 0.0
    assert wait_s(500, 1_000, 2.0, 0.0) == 1.0
    assert wait_s(500, 0, 1.0, 3.0) == 4.0  # nothing moves


def test_an_outlet_counts_what_has_gone_not_what_was_written() -> None:
    outlet = Outlet(0, 0)
    outlet.look(written=10_000, messages=10, unsent=6_000, kept=2, period_s=1.0)
    assert outlet.left == 4_000
    assert outlet.waiting == 6_000 + 2 * 1_000
    assert outlet.wait_s == 2.0
    outlet.look(written=10_000, messages=10, unsent=0, kept=0, period_s=1.0)
    assert (outlet.left, outlet.wait_s) == (6_000, 0.0)


# --- live -------------------------------------------------------------------------------------------


class Relay:
    """Stands between two brokers, and passes on so many bytes a second; the way back is free."""

    def __init__(self, port: int, bytes_per_s: float) -> None:
        self._port = port
        self._bytes_per_s = bytes_per_s
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        listener = socket.create_server((HOST, 0))
        # Or the system would take it all at once.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        self._server = await asyncio.start_server(self._connected, sock=listener, limit=4_096)
        return int(listener.getsockname()[1])

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, there = await asyncio.open_connection(HOST, self._port)
        for work in (self._pass(near, there, self._bytes_per_s), self._pass(far, back, 1e9)):
            task = asyncio.create_task(work)
            self._tasks.add(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bytes_per_s: float
    ) -> None:
        try:
            with suppress(ConnectionError):
                while data := await reader.read(2_048):
                    writer.write(data)
                    await writer.drain()
                    if bytes_per_s < 1e9:
                        await asyncio.sleep(len(data) / bytes_per_s)
        finally:
            writer.transport.abort()  # whatever it still holds

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def two_brokers(
    bytes_per_s: float, relocation: RelocationTable | None = None
) -> AsyncIterator[tuple[BrokerServer, BrokerServer]]:
    """B0 dials B1, by a relay."""
    off, tables = AdminTable(port=-1), relocation or RelocationTable(mode="off")
    there = ServerConfig(
        broker=BrokerTable(name="B1", port=0),
        links=LinksTable(neighbours={"B0": ""}),
        admin=off,
        relocation=tables,
    )
    async with AsyncExitStack() as stack:
        b1 = await stack.enter_async_context(running(there, within_s=0.0))
        relay = Relay(b1.port, bytes_per_s)
        stack.push_async_callback(relay.stop)
        here = ServerConfig(
            broker=BrokerTable(name="B0", port=0, bandwidth_mbps=8.0),
            links=LinksTable(neighbours={"B1": f"{HOST}:{await relay.start()}"}),
            admin=off,
            relocation=tables,
        )
        b0 = await stack.enter_async_context(running(here, within_s=0.0))
        while not all(b.shell.machine.links[n].greeted for b, n in ((b0, "B1"), (b1, "B0"))):
            await asyncio.sleep(0.01)
        yield b0, b1


async def subscriber(stack: AsyncExitStack, broker: BrokerServer) -> None:
    """Reads all that comes."""
    client = await stack.enter_async_context(roost.connect(f"roost://{HOST}:{broker.port}"))
    subscription = client.subscribe(FILTER)
    await subscription.ready()

    async def read() -> None:
        while await subscription.batch():
            pass

    task = asyncio.create_task(read())
    stack.callback(task.cancel)


async def publish(client: Client, per_s: float, seconds: float) -> None:
    """Steadily, whatever becomes of it."""
    loop = asyncio.get_running_loop()
    begun, count = loop.time(), 0
    while (now := loop.time()) < begun + seconds:
        while count < (now - begun) * per_s:
            count += 1
            await client.publish({"class": "STOCK", "n": count}, payload=PAYLOAD)
        await asyncio.sleep(0.005)


def loads_of(broker: BrokerServer) -> LoadIndices:
    load = broker.shell.machine.load
    assert load is not None
    return load


def test_what_waits_for_one_neighbour_is_told_apart() -> None:
    """The link takes 100 kB a second of 400; clients here get all of it."""

    async def work() -> None:
        async with two_brokers(100e3) as (b0, b1), AsyncExitStack() as stack:
            publisher = await stack.enter_async_context(roost.connect(f"roost://{HOST}:{b0.port}"))
            await publisher.advertise(FILTER)
            for broker in (b0, b1):
                await subscriber(stack, broker)
            await publish(publisher, per_s=100, seconds=4.0)
            load = loads_of(b0)
            assert load.link_queueing_delay_s["B1"] > 1.0
            assert load.client_queueing_delay_s < 0.2
            assert 0.0 < load.output_queueing_delay_s < load.link_queueing_delay_s["B1"]
            assert loads_of(b1).link_queueing_delay_s["B0"] < 0.2
            # 400 kB a second here, and what the link takes, of 1 MB.
            assert 0.3 < load.output_utilisation < 1.5
            assert loads_of(b1).output_utilisation == 0.0  # nobody has declared it
            assert b0.status()["load"]["link_queueing_delay_s"]["B1"] > 1.0

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize(("bytes_per_s", "choice"), [(1e9, "B0"), (80e3, "B1")])
def test_one_slow_link_changes_what_is_best_for_delay(bytes_per_s: float, choice: str) -> None:
    """000 section 4.2, P = 100 for delay: two subscribers are here, and one behind the link.

    Here is the best place, unless it takes seconds to get out: the way back is free.
    """
    delay100 = RelocationTable(mode="observing", priority="delay", weight=100.0, session=20)

    async def work() -> None:
        async with two_brokers(bytes_per_s, delay100) as (b0, b1), AsyncExitStack() as stack:
            publisher = await stack.enter_async_context(roost.connect(f"roost://{HOST}:{b0.port}"))
            await publisher.advertise(FILTER)
            for broker in (b0, b0, b1):
                await subscriber(stack, broker)
            await publish(publisher, per_s=40, seconds=4.0)
            chosen: list[str] = []
            while not chosen or (choice == "B1" and chosen[-1] != "B1"):
                await asyncio.sleep(0.1)
                chosen = [
                    decided.decision.evidence["chosen"]["broker"]
                    for decided in b0.optimisers.decisions
                    if decided.decision.kind in ("move", "stay")
                ]
            assert chosen[-1] == choice

    asyncio.run(asyncio.wait_for(work(), 60))


# --- more than can be handled -----------------------------------------------------------------------


def test_input_passes_one_when_more_comes_than_can_be_handled() -> None:
    """001 eq. 3.1: the processor is busy for the whole period, and as much again waits to be read."""

    async def work() -> None:
        config = ServerConfig(broker=BrokerTable(port=0), admin=AdminTable(port=-1))
        async with running(config, within_s=0.0) as broker:
            meter = LoadMeter(config.broker)
            async with roost.connect(f"roost://{HOST}:{broker.port}") as client:
                await client.advertise(FILTER)
                for number in range(50):
                    await client.publish({"class": "STOCK", "n": number}, payload=PAYLOAD)
                await client.flush()
                (connection,) = broker._open.values()
                # Nobody else gets a turn from here on: what comes stays with the system.
                for number in range(50):
                    await client.publish({"class": "STOCK", "n": number}, payload=PAYLOAD)
                await asyncio.sleep(0)
                burn(1.2)
                load = meter.sample(broker.shell, broker._open)
                assert load is not None
                assert connection.is_read
                assert load.input_queue > 10
                assert load.input_utilisation > 1.0
                assert load.input_utilisation > load.cpu_utilisation
                assert load.input_queueing_delay_s > 0.1

    asyncio.run(asyncio.wait_for(work(), 60))


def burn(cpu_s: float) -> None:
    """Takes so much of the processor."""
    until = time.process_time() + cpu_s
    while time.process_time() < until:
        pass
