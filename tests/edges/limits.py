"""Limits: what one user leaves lying, or asks for in plenty, is taken from nobody else."""

from __future__ import annotations

import asyncio

from roost.broker.messages import Delivery, Settle, Settled
from roost.client import Refused
from roost.runtime.plain_peer import PlainPeer
from roost.wire import DEFAULT_LIMITS, PREFACE, WireError
from tests.edges.kit import HOST, STOCK, WITHIN_S, BrokenPromise, Stage, case, publish, take

KB = 1_000


@case(once="REFUSED: .*the store of this broker is full")
async def an_abandoned_durable_subscription(stage: Stage) -> str:
    """A durable subscription that nobody reads any more does not make publishers refused."""
    for name in ("alice", "gone"):
        stage.add_user(name, "--publish", STOCK, "--subscribe", STOCK)
    broker = await stage.broker("B0", store={"retained_bytes_max": 1_000 * KB})
    async with (
        stage.connect(broker, "gone") as client,
        client.subscribe(STOCK, durable="books") as books,
    ):
        await books.ready()
    async with stage.connect(broker, "alice") as alice:
        reader = alice.subscribe(STOCK)
        await reader.ready()
        count = 0
        try:
            for _ in range(20):
                for n in range(50):
                    await alice.publish({"class": "STOCK", "n": n}, bytes(2 * KB))
                await alice.flush(WITHIN_S)
                count += len(await take(reader, 50))
        except Refused as error:
            raise BrokenPromise(f"REFUSED: {error}") from None
    return f"{count} events of 2 kB were published and read"


@case(once="TOO LONG to be read: .* at most 1,048,576 are allowed")
async def many_subscriptions_with_long_ids(stage: Stage) -> str:
    """An event for 1,100 subscriptions of one client arrives for each, however long their ids are."""
    broker = await stage.broker("B0")
    reader = PlainPeer(*await asyncio.open_connection(HOST, broker.port), DEFAULT_LIMITS)
    reader.write(PREFACE)
    await reader.attach("reader")
    ids = {f"{n}/".ljust(DEFAULT_LIMITS.name_length_max, "x") for n in range(1_100)}
    for id_ in sorted(ids):
        reader.subscribe(id_, STOCK)
    reader.say(Settle("now", ""))
    await reader.next(Settled, WITHIN_S)
    async with stage.connect(broker) as client:
        await publish(client, [7])
    try:
        while ids:
            ids -= set((await reader.next(Delivery, WITHIN_S)).subscriptions)
    except WireError as error:
        raise BrokenPromise(f"TOO LONG to be read: {error}") from None
    return "it arrived for all 1,100"
