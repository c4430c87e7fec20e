"""Say it: what an operator is told, rather than left to find out."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import urllib.error
import urllib.request

from tests.edges.kit import (
    HEALTHY,
    HOST,
    STOCK,
    BrokenPromise,
    Stage,
    arrived,
    case,
    free_port,
    publish,
    told,
    until,
)


@case(once="LOST 10 of 10, and the broker started as if nothing were missing")
async def a_store_without_its_log(stage: Stage) -> str:
    """A broker does not start with a store that lacks its latest part, unless it is told to."""
    broker = await stage.broker("B0")
    async with stage.connect(broker) as client, client.subscribe(STOCK, durable="books") as books:
        await books.ready()
    # What is in the store so far is no longer in its log only.
    broker.kill(signal.SIGTERM)
    await broker.ended()
    await broker.start()
    async with stage.connect(broker) as client:
        await publish(client, range(10))
    broker.kill()
    await broker.ended()
    (broker.folder / "data" / "roost.db-wal").unlink()
    try:
        await broker.start()
    except RuntimeError:
        return f"it says {broker.said().strip().splitlines()[-1]!r}"
    async with (
        stage.connect(broker) as client,
        client.subscribe(STOCK, durable="books") as books,
    ):
        lost = 10 - len(await arrived(books, range(10), client))
    raise BrokenPromise(f"LOST {lost} of 10, and the broker started as if nothing were missing")


@case(once=f"UNNOTICED: {HEALTHY}$")
async def a_store_that_is_deleted_under_its_broker(stage: Stage) -> str:
    """A broker whose store is deleted says that what it accepts is kept nowhere."""
    broker = await stage.broker("B0", admin={"port": free_port()})
    shutil.rmtree(broker.folder / "data")
    client = await stage.connect(broker).open()
    publishing = asyncio.create_task(publish(client, [1]))  # which may well wait
    try:
        return await told("deleted, moved or replaced", broker)
    finally:
        publishing.cancel()


@case(once="SILENT")
async def all_the_world_may_come_in(stage: Stage) -> str:
    """A broker that everybody may reach, without security, says so loudly."""
    broker = await stage.broker("B0", broker={"host": "0.0.0.0"})
    if not await until(lambda: "no security" in broker.said(), within_s=5.0):
        raise BrokenPromise("SILENT")
    return "it warns"


@case(once="WRITTEN outside of all folders for traces")
async def traces_elsewhere(stage: Stage) -> str:
    """Whoever reaches the admin face can't have files written wherever they like."""
    broker = await stage.broker("B0", admin={"port": free_port()})
    elsewhere = stage.folder / "elsewhere"
    elsewhere.mkdir()
    wanted = json.dumps({"on": True, "folder": str(elsewhere)}).encode()
    try:
        request = urllib.request.Request(f"http://{HOST}:{broker.admin_port}/trace", wanted)
        urllib.request.urlopen(request, timeout=60).close()
    except urllib.error.HTTPError as error:
        with error:
            return f"refused with {error.code}: {error.read().decode()}"
    raise BrokenPromise("WRITTEN outside of all folders for traces")
