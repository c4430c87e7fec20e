"""Load for brokers with standbys: what subscribers get of what is acknowledged while nodes fail, one by one.

Events are numbered, and published, plainly and from an outbox, until the last fault is over and there are
enough; the last one says that it is. So a fault lasts as long as it takes, and there is load all through it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct, field

import roost

# Between two events: all brokers share two cores with the clients.
PAUSE_S = 0.002
PATIENCE_S = 480.0

Fault = Callable[[], Coroutine[Any, Any, None]]


class Got(Struct):
    """The numbers that came to each, in the order in which they came; and how many there were."""

    published: int = 0
    numbers: dict[str, list[int]] = field(
        default_factory=lambda: {"plain": [], "durable": [], "outbox": []}
    )

    @property
    def all_once_and_in_order(self) -> bool:
        everything = list(range(self.published))
        return all(numbers == everything for numbers in self.numbers.values())


async def through(
    url: str,
    reader_url: str,
    faults: Sequence[Fault],
    *,
    events: int = 400,
    apart: int = 100,
    tls: ssl.SSLContext | None = None,
) -> Got:
    """Each fault begins so many events after the one before is over; there are at least so many in all."""
    got = Got()
    async with roost.connect(reader_url, tls=tls) as reader, roost.connect(url, tls=tls) as writer:
        subscriptions = {
            "plain": reader.subscribe("class = 'A'"),
            "durable": reader.subscribe("class = 'A'", durable="keeper"),
            "outbox": reader.subscribe("class = 'B'", durable="boxes"),
        }
        for each in subscriptions.values():
            await each.ready()
        async with writer.outbox("box", advertise="class = 'B'") as outbox:
            await outbox.open()

            async def read(name: str, subscription: Any) -> None:
                async for event in subscription:
                    got.numbers[name].append(event["n"])
                    await event.ack()
                    if event["last"]:
                        return

            async def publish(*, last: bool = False) -> None:
                number = got.published
                got.published += 1
                own = {"n": number, "last": last}
                await writer.publish({"class": "A", **own})
                await outbox.publish(number + 1, {"class": "B", **own})
                await asyncio.sleep(PAUSE_S)

            async def publish_some(many: int) -> None:
                for _ in range(many):
                    await publish()

            async def write() -> None:
                for fault in faults:
                    await publish_some(apart)
                    failing = asyncio.create_task(fault())
                    while not failing.done():
                        await publish()
                    await failing
                await publish_some(max(apart, events - got.published))
                await publish(last=True)
                await writer.flush()
                await outbox.flush()

            async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
                for name, subscription in subscriptions.items():
                    group.create_task(read(name, subscription))
                group.create_task(write())
    return got
