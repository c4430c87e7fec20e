"""What begins while a broker or a link is away, over real sockets: what was acknowledged arrives.

The cases that were once lost, as a stranger would try them: two brokers as processes with stores, one of them
killed with -9, and applications that know nothing but what they published, acknowledged and asked for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roost.client import Client, NotEverywhere, Subscription, connect
from roost.runtime.child_broker import ChildBroker
from tests.runtime.wires import Wire

WITHIN_S = 60.0


class Pair:
    """B1 dials B0, by a wire that can be cut."""

    def __init__(self, folder: Path, grace_s: float) -> None:
        self._folder = folder
        self._grace_s = grace_s
        self.b0 = self._start("B0", {"B1": ""})
        self.wire = Wire(self.b0.port)

    async def open(self) -> None:
        await self.wire.open()
        self.b1 = self.start_b1()

    def start_b1(self, port: int = 0) -> ChildBroker:
        return self._start("B1", {"B0": f"127.0.0.1:{self.wire.port}"}, port)

    def _start(self, name: str, neighbours: dict[str, str], port: int = 0) -> ChildBroker:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return ChildBroker(
            folder,
            {
                "broker": {
                    "name": name,
                    "port": port,
                    "data": str(folder / "data"),
                    "absence_grace_s": self._grace_s,
                    "redial_max_s": 1.0,
                },
                "links": {"neighbours": neighbours},
            },
        )

    def end(self) -> None:
        for broker in (self.b0, self.b1):
            broker.stop()


@asynccontextmanager
async def pair(folder: Path, grace_s: float = 1.0) -> AsyncIterator[Pair]:
    both = Pair(folder, grace_s)
    await both.open()
    try:
        async with asyncio.timeout(WITHIN_S):
            yield both
    finally:
        both.end()
        await both.wire.close()


def url(broker: ChildBroker) -> str:
    return f"roost://127.0.0.1:{broker.port}"


async def numbers(subscription: Subscription, count: int) -> list[int]:
    got = []
    for _ in range(count):
        event = await subscription.get(WITHIN_S)
        got.append(int(event["n"]))
        await event.ack()
    return got


async def publish_plainly(client: Client, first: int) -> None:
    for n in range(first, first + 10):
        await client.publish({"class": "STOCK", "n": n})
    await client.flush()


@pytest.mark.parametrize(
    "how", [pytest.param("advertise", marks=pytest.mark.long), "plain", "outbox"]
)
def test_publishers_that_begin_while_a_broker_is_dead(tmp_path: Path, how: str) -> None:
    """A durable subscription was ready and had received; all publishers left; its broker was killed."""

    async def play() -> None:
        async with pair(tmp_path) as both:
            async with (
                connect(url(both.b1)) as client,
                client.subscribe("class = 'STOCK'", durable="books") as books,
            ):
                await books.ready(WITHIN_S)
                async with connect(url(both.b0)) as first:
                    await publish_plainly(first, 0)
                assert await numbers(books, 10) == list(range(10))
            port = both.b1.port
            os.kill(both.b1.pid, signal.SIGKILL)
            both.b1.stop()
            async with connect(url(both.b0)) as late:
                if how == "outbox":
                    async with late.outbox("orders", advertise="class = 'STOCK'") as outbox:
                        for n in range(10, 40):
                            await outbox.publish(n - 9, {"class": "STOCK", "n": n})
                        await outbox.flush()
                else:
                    if how == "advertise":
                        await late.advertise("class = 'STOCK'")
                    for first_number in (10, 20, 30):
                        await publish_plainly(late, first_number)
            both.b1 = both.start_b1(port)
            async with (
                connect(url(both.b1)) as client,
                client.subscribe("class = 'STOCK'", durable="books") as books,
            ):
                assert not books.is_new
                assert await numbers(books, 30) == list(range(10, 40))

    asyncio.run(play())


def test_a_subscription_that_is_ready_while_the_link_is_down(tmp_path: Path) -> None:
    async def play() -> None:
        async with pair(tmp_path) as both, connect(url(both.b0)) as publisher:
            await publish_plainly(publisher, 0)
            await both.wire.close()
            async with connect(url(both.b1)) as client:
                subscription = client.subscribe("class = 'STOCK'")
                await subscription.ready(WITHIN_S)
                with pytest.raises(NotEverywhere, match="has not reached B0: away") as raised:
                    await subscription.ready(WITHIN_S, everywhere=True)
                assert raised.value.missing == ("B0",)
                await publish_plainly(publisher, 10)
                await publish_plainly(publisher, 20)
                await both.wire.open()
                got = [int((await subscription.get(WITHIN_S))["n"])]
                while got[-1] != 29:
                    got.append(int((await subscription.get(WITHIN_S))["n"]))
                # What was published before may come too, if B1 had only just linked: B0 kept it for B1 then.
                assert got in (list(range(10, 30)), list(range(30)))
                await subscription.ready(WITHIN_S, everywhere=True)

    asyncio.run(play())
