"""Healing: whoever is away, deaf, mistaken or set back is noticed, and everybody else goes on."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import time
from collections.abc import Iterator

from roost.client import NotInTime
from tests.edges.kit import (
    HEALTHY,
    HOST,
    STOCK,
    BrokenPromise,
    Broker,
    Stage,
    all_of,
    arrived,
    case,
    free_port,
    publish,
    take,
    told,
    until,
)
from tests.runtime.wires import Wire, wire_to

# What is to be noticed within 10 s, on a machine that may be busy.
NOTICED_S = 20.0
NEWS = "class = 'NEWS'"


@case(once="DIED: 12 of 12 durable clients: .*the broker is about to stop")
async def a_broker_that_is_about_to_stop(stage: Stage) -> str:
    """A durable client that comes to a broker that is just stopping comes again when it is back."""
    broker = await stage.broker("B0", admin={"port": free_port()})
    async with wire_to(broker.port) as wire, stage.connect(wire) as client:
        books = [client.subscribe(STOCK, durable=f"books-{number}") for number in range(12)]
        for each in books:
            await each.ready()
        met = False
        while not met:
            # An answer that is owed keeps it from closing for a moment.
            with operator_who_waits(broker):
                broker.kill(signal.SIGTERM)
                await until(lambda: "B0 stops" in broker.said())
                await wire.close()
                await wire.open()
                await broker.ended()
            met = "about to stop" in broker.said()  # else that was too late
            await broker.start()
        async with stage.connect(broker) as publisher:
            await publish(publisher, [7])
        ends = await asyncio.gather(*(take(each, 1) for each in books), return_exceptions=True)
        died = [str(end) for end in ends if end != [7]]
    if died:
        raise BrokenPromise(f"DIED: {len(died)} of 12 durable clients: {died[0]}")
    return "all 12 went on"


@contextlib.contextmanager
def operator_who_waits(broker: Broker) -> Iterator[None]:
    """A request that has begun to be answered, and does not go on."""
    with socket.create_connection((HOST, broker.admin_port)) as operator:
        head = (
            b"POST /trace HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
        )
        operator.sendall(head)
        assert b"100" in operator.recv(100)
        yield


@case(once="UNNOTICED for 20 s")
async def a_client_whose_connection_is_dead(stage: Stage) -> str:
    """A client whose connection passes nothing any more, and was not closed, comes anew."""
    broker = await stage.broker("B0")
    async with wire_to(broker.port) as wire, stage.connect(wire) as client:
        subscription = client.subscribe(STOCK)
        await subscription.ready()
        found = await noticed(wire)
        async with stage.connect(broker) as publisher:
            await publish(publisher, range(10))
        return f"{found}; {all_of(await take(subscription, 10), range(10))}"


@case(once="UNNOTICED for 20 s")
async def a_link_that_is_dead_in_one_direction(stage: Stage) -> str:
    """Neighbours notice that nothing passes from one to the other any more, and link anew."""
    b0 = await stage.broker("B0", {"B1": ""})
    async with wire_to(b0.port) as wire:
        b1 = await stage.broker("B1", {"B0": f"{HOST}:{wire.port}"})
        await stage.linked(b0, b1)
        async with stage.connect(b0) as publisher, stage.connect(b1) as client:
            subscription = client.subscribe(STOCK)
            await publisher.advertise(STOCK)
            await subscription.ready()
            found = await noticed(wire, "down")
            await publish(publisher, range(10))
            return f"{found}; {all_of(await take(subscription, 10), range(10))}"


@case(once="UNNOTICED for 20 s")
async def a_neighbour_that_never_greets(stage: Stage) -> str:
    """A neighbour that takes the connection and says nothing is dialled again."""
    dialled: list[asyncio.StreamWriter] = []
    mute = await asyncio.start_server(lambda _, writer: dialled.append(writer), HOST, 0)
    port = mute.sockets[0].getsockname()[1]
    await stage.broker("B0", {"B1": f"{HOST}:{port}"})
    try:
        await until(lambda: dialled)
        if not await until(lambda: len(dialled) > 1, NOTICED_S):
            raise BrokenPromise(f"UNNOTICED for {NOTICED_S:g} s")
    finally:
        mute.close()
        for writer in dialled:
            writer.close()
    return "it is dialled again"


async def noticed(wire: Wire, *ways: str) -> str:
    """From now on nothing passes on these ways, or on both, until somebody dials again."""
    before, begin = wire.connections, time.monotonic()
    wire.kill(*ways)  # type: ignore[arg-type]
    if not await until(lambda: wire.connections > before, NOTICED_S):
        raise BrokenPromise(f"UNNOTICED for {NOTICED_S:g} s")
    return f"noticed after {time.monotonic() - begin:.0f} s"


@case(once="NOTHING passes within .* s")
async def a_store_that_is_older(stage: Stage) -> str:
    """A broker whose store was replaced by an older copy of it links again, and events pass."""
    b0, b1 = await stage.pair()
    data, copy = b1.folder / "data", b1.folder / "copy"
    async with stage.connect(b1) as client, client.subscribe(STOCK, durable="books") as books:
        await books.ready()
    b1.kill(signal.SIGTERM)
    await b1.ended()
    shutil.copytree(data, copy)
    await b1.start()
    await stage.linked(b0, b1)
    async with stage.connect(b0) as publisher:
        await publish(publisher, range(20))
        async with stage.connect(b1) as client, client.subscribe(STOCK, durable="books") as books:
            await take(books, 20)
    b1.kill()
    await b1.ended()
    shutil.rmtree(data)
    copy.rename(data)
    await b1.start()
    async with (
        stage.connect(b1) as client,
        client.subscribe(STOCK, durable="books") as books,
        stage.connect(b0) as publisher,
    ):
        await arrived(books, [-1], publisher)
        await publish(publisher, range(20, 30))
        return all_of(await arrived(books, range(20, 30), publisher), range(20, 30))


@case(once="STOPPED: who publishes for others")
async def a_dead_neighbour_whose_outbox_is_full(stage: Stage) -> str:
    """It stops those who publish for it, and nobody else."""
    settings = {"stored": False, "broker": {"link_outbox_max": 100}}
    b0 = await stage.broker("B0", {"B1": "", "B2": ""}, **settings)  # type: ignore[arg-type]
    b1 = await stage.broker("B1", {"B0": b0.address}, **settings)  # type: ignore[arg-type]
    b2 = await stage.broker("B2", {"B0": b0.address}, **settings)  # type: ignore[arg-type]
    await stage.linked(b0, b1)
    await stage.linked(b0, b2)
    dead, for_dead, for_others, reader = [
        await stage.connect(broker).open() for broker in (b1, b0, b0, b2)
    ]
    await for_dead.advertise(STOCK)
    await for_others.advertise(NEWS)
    stock, news = dead.subscribe(STOCK), reader.subscribe(NEWS)
    for subscription in (stock, news):
        await subscription.ready()
    b1.kill()
    await b1.ended()
    for n in range(1_000):
        await for_dead.publish({"class": "STOCK", "n": n})
    with contextlib.suppress(NotInTime):
        await for_dead.flush(5.0)
    waits = for_dead.unacknowledged
    try:
        for n in range(10):
            await for_others.publish({"class": "NEWS", "n": n})
        await for_others.flush(NOTICED_S)
        late = reader.subscribe(NEWS)
        await late.ready(NOTICED_S)
    except NotInTime:
        raise BrokenPromise("STOPPED: who publishes for others") from None
    return f"{waits} wait for the dead one; of the others {all_of(await take(news, 10), range(10))}"


@case(once=f"UNNOTICED:( {HEALTHY})+$")
async def a_circle_of_links(stage: Stage) -> str:
    """A link that closes a circle is refused, and operators are told."""
    b0 = await stage.broker("B0", {"B1": "", "B2": ""}, admin={"port": free_port()})
    b1 = await stage.broker("B1", {"B0": b0.address, "B2": ""}, admin={"port": free_port()})
    both = {"B0": b0.address, "B1": b1.address}
    b2 = await stage.broker("B2", both, admin={"port": free_port()})
    return await told("circle", b0, b1, b2)


@case(once=f"UNNOTICED:( {HEALTHY})+$")
async def two_brokers_of_one_name(stage: Stage) -> str:
    """A second broker of a name is refused, however far away the first is, and operators are told."""
    b0 = await stage.broker("B0", {"B1": "", "B2": ""}, admin={"port": free_port()})
    b1 = await stage.broker("B1", {"B0": b0.address}, admin={"port": free_port()})
    b2 = await stage.broker("B2", {"B0": b0.address, "B1": ""}, admin={"port": free_port()})
    await stage.linked(b0, b1)
    await stage.linked(b0, b2)
    second = await stage.broker(
        "B1", {"B2": b2.address}, folder="second", admin={"port": free_port()}
    )
    return await told("two brokers called B1", b0, b1, b2, second)
