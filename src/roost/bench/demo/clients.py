"""The clients of the demo, in a process of their own: publishers, subscribers, and the oracle over them.

What an event is called stands in its payload, which brokers don't look into: the oracle takes nobody's word
for it. Delays are from the moment of publishing to the moment at which the subscriber has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

import roost
from roost.bench.demo.child import REPORT_S, Orders, run_child
from roost.bench.demo.oracle import Oracle, Verdict
from roost.bench.demo.plan import Plan, Publisher, Subscriber

if TYPE_CHECKING:
    from roost.client import Client, Subscription

# The last events have so long to arrive, and then what comes twice.
ARRIVE_S, AGAIN_S = 10.0, 0.3
LOOK_S = 0.02


class Begin(Struct, frozen=True):
    """To the clients: publish. The plan's times count from now on."""


class Finish(Struct, frozen=True):
    """To the clients: publish no more, see what arrives, and give the verdict."""


class Ready(Struct, frozen=True):
    """From them: all are connected, and every subscription is in place."""


class Pulse(Struct, frozen=True):
    """From them, now and then: what came since the last one."""

    at: float
    published: int
    arrived: int
    delay_ms: float | None  # the median; None if nothing came


class Judged(Struct, frozen=True):
    """From them, at the end."""

    verdict: Verdict
    delay_max_ms: float  # of any event ever, also of those that waited while their publisher moved


def clients_main(plan: Plan, addresses: Mapping[str, str], pipe: Connection) -> None:
    """Runs in the child: from the first connection to the verdict."""

    async def work() -> None:
        async with AsyncExitStack() as stack:
            clients = Clients(plan, addresses, stack)
            try:
                await clients.connect()
                pipe.send(Ready())
                orders = Orders(pipe)
                while not isinstance(await orders.next(), Begin):
                    pass
                clients.begin()
                while (order := await orders.next(REPORT_S)) is None:
                    pipe.send(clients.pulse())
                assert isinstance(order, Finish)
                pipe.send(await clients.finish())
            finally:
                await clients.stop()

    run_child(pipe, work)


class Clients:
    """All of them."""

    def __init__(self, plan: Plan, addresses: Mapping[str, str], stack: AsyncExitStack) -> None:
        self._plan = plan
        self._addresses = addresses
        self._stack = stack
        self._oracle = Oracle(
            {subscriber.name: subscriber.filter for subscriber in plan.subscribers}
        )
        self._publishers: dict[str, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []
        self._is_over = False
        self._published = 0  # since the last pulse
        self._delays_ms: list[float] = []
        self._delay_max_ms = 0.0

    async def connect(self) -> None:
        """Advertise first and subscribe then, so that `ready` says all."""
        await asyncio.gather(*map(self._join_publisher, self._plan.publishers))
        await asyncio.gather(*map(self._join_subscriber, self._plan.subscribers))

    async def _connected(self, name: str, broker: str) -> Client:
        url = f"roost://{self._addresses[broker]}"
        return await self._stack.enter_async_context(roost.connect(url, name=name))

    async def _join_publisher(self, publisher: Publisher) -> None:
        client = await self._connected(publisher.name, publisher.broker)
        await client.advertise(publisher.advertisement)
        self._publishers[publisher.name] = client

    async def _join_subscriber(self, subscriber: Subscriber) -> None:
        client = await self._connected(subscriber.name, subscriber.broker)
        subscription = client.subscribe(subscriber.filter)
        await subscription.ready()
        self._readers.append(asyncio.create_task(self._read(subscriber.name, subscription)))

    async def _read(self, name: str, subscription: Subscription) -> None:
        async for event in subscription:
            delay_ms = 1e3 * (time.time() - event.published_at)
            self._delays_ms.append(delay_ms)
            self._delay_max_ms = max(self._delay_max_ms, delay_ms)
            publisher, _, number = event.payload.decode().partition(":")
            self._oracle.arrived(name, (publisher, int(number)))

    # --- publishing -----------------------------------------------------------------------------------

    def begin(self) -> None:
        at = asyncio.get_running_loop().time()
        self._tasks = [
            asyncio.create_task(self._publish(publisher, at)) for publisher in self._plan.publishers
        ]

    async def _publish(self, publisher: Publisher, began: float) -> None:
        client, loop = self._publishers[publisher.name], asyncio.get_running_loop()
        pairs = zip(publisher.times_s, publisher.events, strict=True)
        for number, (at, attributes) in enumerate(pairs, 1):
            await asyncio.sleep(began + at - loop.time())
            if self._is_over:
                return
            self._oracle.published(publisher.name, attributes)
            self._published += 1
            await client.publish(attributes, f"{publisher.name}:{number}".encode())

    def pulse(self) -> Pulse:
        delays, self._delays_ms = self._delays_ms, []
        published, self._published = self._published, 0
        return Pulse(time.time(), published, len(delays), median(delays) if delays else None)

    async def stop(self) -> None:
        """Before connections are closed: nobody publishes or reads any more."""
        tasks = [*self._tasks, *self._readers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- the end ----------------------------------------------------------------------------------------

    async def finish(self) -> Judged:
        self._is_over = True
        await asyncio.gather(*self._tasks)
        for client in self._publishers.values():
            await client.flush()
        wanted = sum(map(len, self._oracle.wanted().values()))
        until = time.monotonic() + ARRIVE_S
        while self._oracle.arrivals < wanted and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(AGAIN_S)
        for reader in self._readers:
            if reader.done():
                await reader  # which says what has gone wrong
        return Judged(self._oracle.verdict(), self._delay_max_ms)
