"""The service on sockets, with stores: clients are unchanged, and servers stop and come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from roost.client import connect
from roost.client.polling import close_queue, open_queue, poll
from roost.partition.naming import DISPATCHER, MATCHER
from roost.runtime.config import check_config
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, ServerConfig

FRONTS = ("D0", "D1")
BACKS = ("M0", "M1")
NAMES = (*FRONTS, *BACKS)


class Service:
    """Two dispatchers and two matchers in this process. Each dials those before it."""

    def __init__(self, folder: Path, words: str = "") -> None:
        self._folder = folder
        self._words = words
        self._ports: dict[str, int] = {}
        self.servers: dict[str, BrokerServer] = {}

    async def start(self, name: str) -> None:
        place = NAMES.index(name)
        neighbours = {
            other: f"127.0.0.1:{self._ports[other]}" if number < place else ""
            for number, other in enumerate(NAMES)
            if other != name
        }
        words = f"dispatchers={','.join(FRONTS)}"
        machine = f"{MATCHER} {words} gossip_s=0.2"
        if name in FRONTS:
            matchers = ",".join(BACKS)
            machine = f"{DISPATCHER} {words} dimensions=x:0:10 matchers={matchers} {self._words}"
        config = ServerConfig(
            broker=BrokerTable(
                name=name,
                port=self._ports.get(name, 0),
                machine=machine.strip(),
                data=str(self._folder / name),
                redial_min_s=0.05,
                redial_max_s=0.1,
            ),
            links=LinksTable(neighbours=neighbours),
            admin=AdminTable(port=-1),
        )
        check_config(config)
        server = self.servers[name] = BrokerServer(config)
        await server.start()
        self._ports[name] = server.port

    async def stop(self, name: str) -> None:
        await self.servers.pop(name).stop()

    def url(self, name: str) -> str:
        return f"roost://127.0.0.1:{self._ports[name]}"


def test_live(tmp_path: Path) -> None:
    async def play() -> None:
        service = Service(tmp_path)
        for name in NAMES:
            await service.start(name)
        try:
            async with (
                connect(service.url("D0")) as writer,
                connect(service.url("D1")) as reader,
                asyncio.timeout(60),
            ):
                all_of_it = reader.subscribe("x >= 0")
                low, high = writer.subscribe("x < 5"), reader.subscribe("x >= 5")
                for subscription in (all_of_it, low, high):
                    await subscription.ready()
                got: list[int] = []

                async def expect(count: int) -> None:
                    while len(got) < count:
                        got.append(int((await all_of_it.get(30))["n"]))

                async def publish(first: int, count: int) -> None:
                    for number in range(first, first + count):
                        await writer.publish({"x": number % 10, "n": number})

                await publish(0, 50)
                await expect(50)
                # One matcher away: what is its alone waits; then it is taken over, or back.
                await service.stop("M1")
                await publish(50, 50)
                await service.start("M1")
                await expect(100)
                # A dispatcher away, with a subscriber: it is all kept.
                await service.stop("D1")
                await publish(100, 50)
                await service.start("D1")
                await expect(150)
                assert got == list(range(150))
                assert [int((await low.get(30))["n"]) for _ in range(75)] == [
                    n for n in range(150) if n % 10 < 5
                ]
                assert [int((await high.get(30))["n"]) for _ in range(75)] == [
                    n for n in range(150) if n % 10 >= 5
                ]
                status = service.servers["M0"].status()
                assert status["matched"] > 0
                assert service.servers["D0"].status()["held"] == 0
        finally:
            for name in list(service.servers):
                await service.stop(name)

    asyncio.run(play())


def test_a_queue_that_is_polled_outlives_its_dispatcher(tmp_path: Path) -> None:
    """II.B: the subscriber has a handle, and no connection."""

    async def play() -> None:
        service = Service(tmp_path)
        for name in NAMES:
            await service.start(name)
        try:
            async with connect(service.url("D0")) as writer, asyncio.timeout(60):
                handle = await open_queue(service.url("D1"), "x >= 5")
                for number in range(20):
                    await writer.publish({"x": number % 10, "n": number})
                await service.stop("D1")
                for number in range(20, 40):
                    await writer.publish({"x": number % 10, "n": number})
                await service.start("D1")
                got: list[int] = []
                while len(got) < 20:
                    async with poll(handle, most=8) as events:
                        got += [int(event["n"]) for event in events]
                assert got == [n for n in range(40) if n % 10 >= 5]
                await close_queue(handle)
        finally:
            for name in list(service.servers):
                await service.stop(name)

    asyncio.run(play())


def test_matchers_deliver_directly(tmp_path: Path) -> None:
    """The paper's way: all of it comes while nobody crashes, in any order, and says what it was called."""

    async def play() -> None:
        service = Service(tmp_path, "delivery=direct")
        for name in NAMES:
            await service.start(name)
        try:
            async with (
                connect(service.url("D0")) as writer,
                connect(service.url("D1")) as reader,
                asyncio.timeout(60),
            ):
                far, near = reader.subscribe("x >= 0"), writer.subscribe("x >= 5")
                await far.ready()
                await near.ready()
                for number in range(100):
                    await writer.publish({"x": number % 10, "n": number}, headers={"v": "2"})
                there = [await far.get(30) for _ in range(100)]
                here = [await near.get(30) for _ in range(50)]
                assert sorted(int(event["n"]) for event in there) == list(range(100))
                assert sorted(int(e["n"]) for e in here) == [n for n in range(100) if n % 10 >= 5]
                origins = {event.headers["roost-origin"] for event in there}
                assert len(origins) == 100
                assert all(event.headers["v"] == "2" for event in there)
                assert service.servers["D0"].status()["given_up"] == 0
        finally:
            for name in list(service.servers):
                await service.stop(name)

    asyncio.run(play())
