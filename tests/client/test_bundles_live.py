"""Columns over sockets: connections that are cut, a broker that is killed, and what is acknowledged."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from unittest import mock

import pyarrow as pa

from roost.client import Client, bundling, connect
from roost.client.bundle import Bundle
from roost.client.inbox import Inbox
from roost.runtime.child_broker import HOST, ChildBroker
from roost.runtime.federation import free_ports
from tests.client.support import cut, in_loop, serving, url_of

COUNT = 6_000


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch({"n": numbers, "s": [f"text {n % 7}" for n in numbers]})


@in_loop
async def test_cuts_amid_columns_that_a_small_buffer_holds_up() -> None:
    """Every event once and in order, of two subscriptions, one of which is read as single events."""
    taken: list[int] = []
    put = Inbox.put_bundle

    def note(inbox: Inbox[object], bundle: Bundle) -> None:
        taken.append(len(bundle))
        put(inbox, bundle)

    async with (
        serving() as server,
        connect(url_of(server), pending_max=500) as publisher,
        connect(url_of(server)) as subscriber,
    ):
        columns = subscriber.subscribe("n < 10000", buffer_max=300)
        single = subscriber.subscribe("n >= 10000", buffer_max=200)
        await single.ready()

        async def publish() -> None:
            for start in range(0, COUNT, 600):
                await publisher.publish_many(rows(start, 600))
                await publisher.publish_many(rows(10_000 + start, 600))
                cut(server)

        async def read_single() -> list[object]:
            return [(await single.get())["n"] for _ in range(COUNT)]

        with mock.patch.object(Inbox, "put_bundle", note):
            tasks = asyncio.create_task(publish()), asyncio.create_task(read_single())
            got: list[int] = []
            async for batch in columns.batches(77, arrow=True):
                assert columns.waiting <= 300
                got += batch.column("n").to_pylist()
                assert batch.column("s").to_pylist() == [
                    f"text {n % 7}" for n in got[-len(batch) :]
                ]
                if len(got) >= COUNT:
                    break
            await tasks[0]
            assert await tasks[1] == list(range(10_000, 10_000 + COUNT))
        assert got == list(range(COUNT))
        assert sum(taken) > COUNT // 10  # many came that way: how many is a matter of luck


@in_loop
async def test_columns_of_a_durable_subscription_are_acknowledged_event_by_event() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        async with client.subscribe("n >= 0", durable="d", auto_ack=True) as subscription:
            await subscription.ready()
            await client.publish_many(rows(0, 1_000))
            batches = subscription.batches(300, arrow=True)
            first, second = await anext(batches), await anext(batches)
            await batches.aclose()  # type: ignore[attr-defined]
            read = first.num_rows + second.num_rows
        # The second batch was not done with: the next one had not been asked for.
        async with client.subscribe("n >= 0", durable="d", auto_ack=True) as subscription:
            event = await subscription.get()
            assert event["n"] == first.num_rows
            assert read > first.num_rows
            await subscription.forget()


@in_loop
async def test_a_broker_that_is_killed_amid_columns(tmp_path: Path) -> None:
    """One with a store goes on where it was: nothing is lost, doubled or out of order."""
    settings = {"broker": {"name": "B1", "data": "data", "port": free_ports(1)[0]}}
    broker = ChildBroker(tmp_path, settings)
    url = f"roost://{HOST}:{broker.port}"

    async def publish(client: Client) -> None:
        for start in range(0, COUNT, 500):
            await client.publish_many(rows(start, 500))
            await asyncio.sleep(0.01)
        await client.flush(60.0)

    try:
        async with connect(url) as publisher, connect(url) as subscriber:
            subscription = subscriber.subscribe("n >= 0", buffer_max=1_000)
            await subscription.ready()
            publishing = asyncio.create_task(publish(publisher))
            got: list[int] = []
            is_killed = False
            async for batch in subscription.batches(arrow=True):
                got += batch.column("n").to_pylist()
                if len(got) > COUNT // 3 and not is_killed:
                    is_killed = True
                    broker.signal(signal.SIGKILL)
                    broker.stop()
                    broker = await asyncio.to_thread(ChildBroker, tmp_path, settings)
                if len(got) >= COUNT:
                    break
            await publishing
            assert is_killed
            assert got == list(range(COUNT))
    finally:
        broker.stop()


@in_loop
async def test_without_numba_columns_are_made_of_events() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        subscription = client.subscribe("n >= 0")
        await client.publish_many(rows(0, 500))
        got = 0
        with (
            mock.patch("importlib.util.find_spec", return_value=None),
            mock.patch.object(bundling.Bundling, "take", side_effect=AssertionError),
        ):
            async for batch in subscription.batches(arrow=True):
                assert batch.schema.names == ["n", "s"]
                got += batch.num_rows
                if got == 500:
                    break
