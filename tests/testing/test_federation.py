"""Brokers in memory that are linked: what an application sees of them, and what it has to fear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from roost.client import Client, Refused, Subscription, connect
from roost.client.memory import MemoryBroker
from roost.testing import MemoryFederation, memory_federation, until
from tests.client.support import in_loop, numbers, take
from tests.example.crowd import Classed

LINE = (("B0", "B1"), ("B1", "B2"))


@asynccontextmanager
async def line(**config: Any) -> AsyncIterator[tuple[MemoryFederation, Client, Client]]:
    """Three brokers, and a client at either end."""
    async with (
        memory_federation(*LINE, **config) as brokers,
        brokers.connect("B0") as here,
        brokers.connect("B2") as there,
    ):
        yield brokers, here, there


async def publish(client: Client, first: int, count: int) -> None:
    for number in range(first, first + count):
        await client.publish({"n": number})
    await client.flush()


async def subscribed(client: Client) -> Subscription:
    subscription = client.subscribe("n >= 0")
    await subscription.ready()
    return subscription


@in_loop
async def test_events_cross_it_in_order() -> None:
    async with memory_federation(*LINE) as brokers:
        assert brokers.names == ["B0", "B1", "B2"]
        async with brokers.connect("B0") as here, connect("memory://B2") as there:
            subscription = await subscribed(there)
            await publish(here, 0, 500)
            assert numbers(await take(subscription, 500)) == list(range(500))
            assert brokers.clients("B2") == [there.name]
    assert not MemoryBroker.here()


@in_loop
async def test_more_than_a_pipe_holds() -> None:
    """Nobody reads: what is published waits, back to the publisher, and all of it comes."""
    async with line(link_outbox_max=20) as (_, here, there):
        subscription = await subscribed(there)
        payload = bytes(100_000)
        publishing = [here.publish({"n": n}, payload=payload) for n in range(200)]
        task = asyncio.gather(*publishing)
        assert numbers(await take(subscription, 200)) == list(range(200))
        await task


@in_loop
async def test_clients_that_lose_their_connections() -> None:
    async with line() as (brokers, here, there):
        subscription = await subscribed(there)
        for number in range(20):
            await publish(here, number, 1)
            assert brokers.disconnect("B2" if number % 2 else "B0") <= 1
        assert numbers(await take(subscription, 20)) == list(range(20))


@in_loop
async def test_a_link_that_is_cut_and_heals() -> None:
    async with line() as (brokers, here, there):
        subscription = await subscribed(there)
        await publish(here, 0, 5)
        assert numbers(await take(subscription, 5)) == list(range(5))
        brokers.cut("B1", "B2")
        await publish(here, 5, 5)
        await asyncio.sleep(0.1)  # it dials in vain
        with pytest.raises(TimeoutError):
            await subscription.get(0.05)
        await brokers.heal("B1", "B2")
        assert numbers(await take(subscription, 5)) == list(range(5, 10))


@in_loop
async def test_a_client_that_is_moved_there_and_back() -> None:
    async with line() as (brokers, here, there):
        subscription = await subscribed(there)
        for number, broker in enumerate(("B0", "B1", "B2")):
            await publish(here, number, 1)
            await brokers.move(there, broker)
            assert brokers.clients(broker)[-1] == there.name
        brokers.disconnect("B2")
        await publish(here, 3, 1)
        assert numbers(await take(subscription, 4)) == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="expected another broker"):
            await brokers.move(there, "B2")


@in_loop
async def test_a_router_of_ones_own() -> None:
    async with memory_federation("B0", router=Classed) as brokers, brokers.connect("B0") as client:
        await client.publish({"n": 1})
        with pytest.raises(Refused, match="an event without a class"):
            await client.flush()


@in_loop
async def test_what_there_is_not() -> None:
    async with memory_federation("B0", ("B1", "B2")) as brokers:
        with pytest.raises(ValueError, match="there is no broker 'B9'; there are B0, B1, B2"):
            brokers.connect("B9")
        with pytest.raises(ValueError, match="B0 and B1 are no neighbours"):
            brokers.cut("B0", "B1")
        with pytest.raises(ValueError, match="another broker memory://B0 in this event loop"):
            async with memory_federation("B0"):
                pass
    with pytest.raises(AssertionError, match=r"not so within 0\.01 s"):
        await until(lambda: False, within_s=0.01)
