"""A broker with a standby, as processes: what was acknowledged arrives once and in order, whichever fails."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.runtime.child_broker import ChildBroker
from roost.runtime.child_pair import ChildPair as Pair
from roost.runtime.child_pair import until

EVENTS = 600


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.stop()


async def through(
    url: str, reader_url: str, fault: Callable[[], Awaitable[None]], *, events: int = EVENTS
) -> dict[str, list[int]]:
    """What a durable and a plain subscriber get of events that an outbox and a client publish meanwhile."""
    got: dict[str, list[int]] = {"durable": [], "plain": [], "outbox": []}
    async with roost.connect(reader_url) as reader, roost.connect(url) as writer:
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
def test_what_was_acknowledged_arrives_once_and_in_order(
    tmp_path: Path, how: signal.Signals
) -> None:
    """The subscribers of a neighbour, who finds the standby, too; or of the broker itself."""
    at_neighbour = how is signal.SIGKILL
    tables = {"links": {"neighbours": {"B1": ""}}} if at_neighbour else {}
    pair = Pair(tmp_path, tables=tables)
    neighbour = None
    try:
        leader, other = pair.joined()
        reader_url = pair.url
        if at_neighbour:
            (tmp_path / "B1").mkdir()
            links = {"neighbours": {"B0": f"{leader.address},{other.address}"}}
            own = {"name": "B1", "data": "data", "redial_min_s": 0.1}
            neighbour = ChildBroker(tmp_path / "B1", {"broker": own, "links": links})
            reader_url = f"roost://{neighbour.host}:{neighbour.port}"

        async def fail() -> None:
            leader.running.signal(how)

        got = asyncio.run(through(pair.url, reader_url, fail))
        everything = list(range(EVENTS))
        assert got == {"durable": everything, "plain": everything, "outbox": everything}
        assert other.pair()["epoch"] == 2
        # The old one is the standby, when it is back, and knows all.
        if how is signal.SIGSTOP:
            leader.running.signal(signal.SIGCONT)
        else:
            leader.start()
        assert pair.joined() == (other, leader)
    finally:
        pair.stop()
        if neighbour is not None:
            neighbour.stop()


def test_the_old_one_says_nothing_when_it_wakes(pair: Pair) -> None:
    """Nor does it let anybody in: what it would have to say is not safe without the other."""
    leader, other = pair.joined()
    leader.running.signal(signal.SIGSTOP)
    until(lambda: other.has_role("leader"), "a take-over")

    async def asks() -> None:
        # In its queue, before it wakes up.
        async with roost.connect(f"roost://{leader.address}", timeout_s=8) as client:
            await client.publish({"class": "A"})
            await client.flush()

    async def main() -> None:
        asking = asyncio.create_task(asks())
        await asyncio.sleep(0)
        leader.running.signal(signal.SIGCONT)
        with pytest.raises(roost.ConnectError):
            await asking

    asyncio.run(main())
    assert pair.joined() == (other, leader)


@pytest.mark.long
def test_a_disk_is_deleted_a_role_given_back_and_both_die(pair: Pair) -> None:
    one, two = pair.joined()
    numbers = list(range(100))

    async def publish() -> None:
        async with roost.connect(pair.url) as client:
            async with client.subscribe("class = 'A'", durable="keeper") as kept:
                await kept.ready()
            for number in numbers:
                await client.publish({"class": "A", "n": number})
            await client.flush()

    async def read() -> list[Any]:
        async with (
            roost.connect(pair.url) as client,
            client.subscribe("class = 'A'", durable="keeper") as kept,
        ):
            return [(await kept.get())["n"] for _ in numbers]

    asyncio.run(publish())
    # The primary and its disk are gone; a new one is brought up to date by a snapshot ...
    one.running.kill()
    shutil.rmtree(one.folder / "data")
    one.start()
    assert pair.joined() == (two, one)
    # ... and is given its role back.
    assert one.ask("/promote", {})["role"] in ("standby", "leader")
    until(lambda: pair.joined() == (one, two), "its role back")
    # Both die. The one that led does not know whether the other has gone on since, and says so.
    for node in (one, two):
        node.running.kill()
    one.start()
    trouble = until(lambda: one.pair().get("trouble"), "what it knows")
    assert "it may have taken over since" in trouble
    assert one.ask("/health")["ok"] is False
    # The other knows that nothing was said without it, and goes on by itself.
    one.running.kill()
    two.start()
    until(lambda: two.has_role("leader"), "a take-over")
    assert asyncio.run(read()) == numbers
    one.start()
    assert pair.joined() == (two, one)


@pytest.mark.long
def test_alone_is_a_setting(tmp_path: Path) -> None:
    pair = Pair(tmp_path, standby={"alone": True})
    try:
        leader, other = pair.joined()
        other.running.kill()
        until(lambda: leader.pair().get("alone"), "it to go on alone")
        warnings = leader.ask("/health")["warnings"]
        assert any(each["what"] == "standby" for each in warnings)

        async def publish() -> None:
            async with roost.connect(f"roost://{leader.address}") as client:
                await client.publish({"class": "A", "n": 1})
                await client.flush()

        asyncio.run(publish())
        # The other has not heard of that, does not know that it has not, and does not go on by itself.
        leader.running.kill()
        other.start()
        trouble = until(lambda: other.pair().get("trouble"), "what it knows")
        assert "it may have gone on alone since" in trouble
        leader.start()
        assert pair.joined() == (leader, other)
    finally:
        pair.stop()
