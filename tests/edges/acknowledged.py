"""Acknowledged means kept, also when the way is not there yet."""

from __future__ import annotations

import signal
import sys
from asyncio import create_subprocess_exec, subprocess

from tests.edges.kit import (
    STOCK,
    WITHIN_S,
    BrokenPromise,
    Stage,
    all_of,
    arrived,
    case,
    publish,
    take,
)
from tests.runtime.wires import wire_to


@case(once="LOST 30 of 30")
async def publishers_begin_while_a_broker_is_dead(stage: Stage) -> str:
    """What is published elsewhere while a durable subscription's broker is dead reaches it afterwards."""
    b0, b1 = await stage.pair()
    async with (
        stage.connect(b1) as client,
        client.subscribe(STOCK, durable="books") as books,
    ):
        await books.ready()
        async with stage.connect(b0) as first:
            await publish(first, range(10))
        await take(books, 10)
    b1.kill()
    await b1.ended()
    async with stage.connect(b0) as advertiser:
        await advertiser.advertise(STOCK)
        await publish(advertiser, range(10, 20))
    async with stage.connect(b0) as plain:
        await publish(plain, range(20, 30))
    async with stage.connect(b0) as client, client.outbox("orders", advertise=STOCK) as outbox:
        for n in range(30, 40):
            await outbox.publish(n - 29, {"class": "STOCK", "n": n})
        await outbox.flush(WITHIN_S)
    await b1.start()
    async with (
        stage.connect(b0) as witness,
        stage.connect(b1) as client,
        client.subscribe(STOCK, durable="books") as books,
    ):
        came = await arrived(books, range(10, 40), witness)
    return all_of(came, range(10, 20), range(20, 30), range(30, 40))


@case(once="LOST 20 of 20")
async def ready_while_the_link_is_down(stage: Stage) -> str:
    """When ready() has returned, nothing is missed, even if the link was down."""
    b0 = await stage.broker("B0", {"B1": ""})
    async with wire_to(b0.port) as wire:
        b1 = await stage.broker("B1", {"B0": f"127.0.0.1:{wire.port}"})
        await stage.linked(b0, b1)
        async with stage.connect(b0) as publisher, stage.connect(b1) as client:
            await publisher.advertise(STOCK)
            await wire.close()
            subscription = client.subscribe(STOCK)
            await subscription.ready()
            await publish(publisher, range(20))
            await wire.open()
            return all_of(await arrived(subscription, range(20), publisher), range(20))


READER = """
import asyncio, sys, roost
async def main(url):
    async with roost.connect(url) as client, client.subscribe("class = 'STOCK'", durable="books") as books:
        for _ in range(20):
            await (await books.get(60)).ack()
        # Acknowledgements are said after a twentieth of it; timers of a loop fire in their order.
        await asyncio.sleep(1)
        print("acknowledged", flush=True)
        await asyncio.Event().wait()
asyncio.run(main(sys.argv[1]))
"""


# It was kept then, too, but nothing would have noticed if not: acknowledgements that go only when the reader
# leaves (`DurableSession._is_due` is true from the start) are found here as "DOUBLED 20 of 20".
@case(once="")
async def acknowledged_by_a_client_that_is_killed(stage: Stage) -> str:
    """What a process has acknowledged does not come again after its kill -9."""
    broker = await stage.broker("B0")
    async with stage.connect(broker) as client:
        async with client.subscribe(STOCK, durable="books") as books:
            await books.ready()
        await publish(client, range(20))
        reader = await create_subprocess_exec(
            sys.executable, "-c", READER, broker.url, stdout=subprocess.PIPE
        )
        try:
            assert reader.stdout is not None
            assert await reader.stdout.readline() == b"acknowledged\n"
        finally:
            reader.kill()
        assert await reader.wait() == -signal.SIGKILL
        await publish(client, [20])
        async with client.subscribe(STOCK, durable="books") as books:
            came = await take(books, 1)
            while came[-1] != 20:
                came += await take(books, 1)
    if len(came) > 1:
        raise BrokenPromise(f"DOUBLED {len(came) - 1} of 20")
    return "none of 20 came again"
