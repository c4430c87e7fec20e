"""A broker with a standby, as processes: what was acknowledged arrives once and in order, whichever fails."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roost
from tests.runtime.pairs import Pair

EVENTS = 600


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.stop()


async def through(
    url: str, fault: Callable[[], Awaitable[None]], *, events: int = EVENTS
) -> dict[str, list[int]]:
    """What a durable and a plain subscriber get of events that an outbox and a client publish meanwhile."""
    got: dict[str, list[int]] = {"durable": [], "plain": [], "outbox": []}
    async with roost.connect(url) as reader, roost.connect(url) as writer:
        plain = reader.subscribe("class = 'A'")
        durable = reader.subscribe("class = 'A'", durable="keeper")
        boxed = reader.subscribe("class = 'B'", durable="boxes")
        for each in (plain, durable, boxed):
            await each.ready()
        outbox = writer.outbox("box", advertise="class = 'B'")
        await outbox.open()

        async def read(name: str, subscription: Any) -> None:
            async for event in subscription:
                got[name].append(event["n"])
                if len(got[name]) == events:
                    return

        async def write() -> None:
            for number in range(events):
                await asyncio.gather(
                    writer.publish({"class": "A", "n": number}),
                    outbox.publish(number + 1, {"class": "B", "n": number}),
                )
                if number == events // 3:
                    await fault()
            await writer.flush()
            await outbox.flush()

        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            group.create_task(read("plain", plain))
            group.create_task(read("durable", durable))
            group.create_task(read("outbox", boxed))
            group.create_task(write())
    return got


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_what_was_acknowledged_arrives_once_and_in_order(pair: Pair, how: signal.Signals) -> None:
    leader, other = pair.joined()

    async def fail() -> None:
        leader.running.signal(how)

    got = asyncio.run(through(pair.url, fail))
    everything = list(range(EVENTS))
    assert got == {"durable": everything, "plain": everything, "outbox": everything}
    assert other.pair()["epoch"] == 2
    # The old one is the standby, when it is back, and knows all.
    if how is signal.SIGSTOP:
        leader.running.signal(signal.SIGCONT)
    else:
        leader.start()
    assert pair.joined() == (other, leader)
