"""Bounds: a publisher that is too fast waits; a subscription that is not read holds up its client only, and
others of its client not for long."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pyarrow
import pytest

from roost.broker.messages import Ack
from roost.client import Client, EventsDropped, Overrun, Stalled, Subscription, connect, intake
from roost.client import inbox as inboxes
from roost.client import line as lines
from roost.client.inbox import Inbox
from roost.client.line import Line, Lookup
from roost.runtime.server import BrokerServer
from roost.wire import encode
from tests.client.support import (
    DEADLINE_S,
    connections_of,
    in_loop,
    numbers,
    serving,
    take,
    until,
    url_of,
)


def choke(server: BrokerServer, choked: bool) -> None:
    """The broker reads nothing, as when its disk does not follow."""
    server.choked = choked
    for connection in server._open.values():
        connection.read_or_not()


async def of_choked(server: BrokerServer, client: Client) -> Lookup:
    """The machine of a client that has published, to a broker that reads nothing from now on."""
    await client.publish({"n": 0})
    await client.flush()
    assert client._line is not None
    choke(server, True)
    return client._line.machine


@in_loop
async def test_a_publisher_of_columns_waits_for_acknowledgements() -> None:
    """It publishes half of what may be on its way at a time."""
    async with serving() as server, connect(url_of(server), pending_max=100) as client:
        machine = await of_choked(server, client)
        table = pyarrow.table({"n": list(range(1, 1_001))})
        publishing = asyncio.create_task(client.publish_many(table))
        await until(lambda: machine.pending >= 100)
        for _ in range(20):
            await asyncio.sleep(0)
        assert machine.pending <= 150
        assert not publishing.done()
        choke(server, False)
        assert await publishing == 1_000
        await client.flush()
        assert machine.accepted == 1_001


@pytest.mark.parametrize("pending_max", [1, 2, 3])
@in_loop
async def test_many_go_out_though_hardly_any_may_be_on_their_way(pending_max: int) -> None:
    async with serving() as server, connect(url_of(server), pending_max=pending_max) as client:
        table = pyarrow.table({"n": list(range(40))})
        assert await client.publish_many(table) == 40
        assert await client.publish_many([{"n": n} for n in range(40)]) == 40
        await client.flush()
        assert client._line is not None
        assert client._line.machine.accepted == 80


@in_loop
async def test_a_publisher_waits_for_acknowledgements() -> None:
    async with serving() as server, connect(url_of(server), pending_max=100) as client:
        machine = await of_choked(server, client)

        async def publish() -> None:
            for n in range(1, 1_000):
                await client.publish({"n": n})

        publishing = asyncio.create_task(publish())
        await until(lambda: machine.pending == 100)
        for _ in range(20):
            await asyncio.sleep(0)
        assert machine.pending == 100
        assert not publishing.done()
        choke(server, False)
        await publishing
        await client.flush()
        assert machine.accepted == 1_000


@in_loop
async def test_large_events_are_bounded_by_their_bytes() -> None:
    async with serving() as server, connect(url_of(server), pending_bytes_max=4_000_000) as client:
        machine = await of_choked(server, client)

        async def publish() -> None:
            for n in range(100):
                await client.publish({"n": n}, bytes(500_000))

        publishing = asyncio.create_task(publish())
        done, _ = await asyncio.wait((publishing,), timeout=0.2)
        assert not done
        assert machine.pending <= 10
        choke(server, False)
        await publishing
        await client.flush()
        assert machine.pending == 0


@pytest.mark.parametrize("as_columns", [False, True])
@in_loop
async def test_many_events_wait_for_their_bytes_as_well(as_columns: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"n": n, **{f"a{i}": "x" * 1_000 for i in range(20)}} for n in range(3_000)
    ]
    async with serving() as server, connect(url_of(server), pending_bytes_max=400_000) as client:
        machine = await of_choked(server, client)
        events = pyarrow.Table.from_pylist(rows) if as_columns else rows
        publishing = asyncio.create_task(client.publish_many(events))
        done, _ = await asyncio.wait((publishing,), timeout=0.5)
        assert not done
        # Half of the bound at a time; the buffers of the system would take more.
        assert 400_000 < machine.pending * 20_000 <= 600_000
        choke(server, False)
        assert await publishing == 3_000
        await client.flush()
        assert machine.pending == 0


@in_loop
async def test_a_publisher_goes_on_when_half_of_its_bytes_are_acknowledged() -> None:
    async with serving() as server, connect(url_of(server), pending_bytes_max=700_000) as client:
        machine = await of_choked(server, client)

        async def publish() -> None:
            for n in range(1, 5):
                await client.publish({"n": n}, bytes(270_000))

        publishing = asyncio.create_task(publish())
        await until(lambda: machine.pending == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not publishing.done()
        channel = machine.channel
        (connection,) = connections_of(server)
        connection.transport.write(encode(Ack(channel.control.sent, channel.data.sent - 1)))
        await publishing
        assert client.unacknowledged == 2
        choke(server, False)
        await client.flush()


@in_loop
async def test_a_publisher_that_waits_can_be_cancelled() -> None:
    async with serving() as server, connect(url_of(server), pending_max=10) as client:
        await client.publish({"n": 0})
        await client.flush()
        choke(server, True)
        subscription = client.subscribe("n >= 0")

        async def publish() -> None:
            for n in range(1, 100):
                await client.publish({"n": n})

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publish(), 0.05)
        choke(server, False)
        await client.flush()
        assert client._line is not None
        published = client._line.machine.published
        assert published < 20
        # What was published was published whole, and what was not, not at all.
        assert numbers(await take(subscription, published - 1)) == list(range(1, published))


@in_loop
async def test_a_slow_subscription_holds_up_its_client_only() -> None:
    count, bound, payload = 3_000, 50, b"x" * 2_000
    async with (
        serving() as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server)) as quick,
        connect(url_of(server), buffer_max=bound) as slow,
    ):
        read, unread = quick.subscribe("n >= 0"), slow.subscribe("n >= 0")
        await read.ready()
        await unread.ready()
        for n in range(count):
            await publisher.publish({"n": n}, payload)
        assert numbers(await take(read, count)) == list(range(count))
        await publisher.flush()
        assert unread.waiting == bound
        # What was not read was not lost.
        assert numbers(await take(unread, count)) == list(range(count))


@in_loop
async def test_one_of_two_subscriptions_is_not_read() -> None:
    async with connect("memory://", buffer_max=20) as client:
        unread, read = client.subscribe("n >= 0"), client.subscribe("n >= 0", buffer_max=20_000)
        for n in range(10_000):
            await client.publish({"n": n})
            if client._line is not None and client._line.intake.full:
                break
        assert unread.waiting >= 20
        # It is enough to close it.
        await unread.close()
        await client.flush()
        assert numbers(await take(read, n + 1)) == list(range(n + 1))


@in_loop
async def test_waiting_behind_what_nobody_reads_is_an_error_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "LOOK_S", 0.02)
    async with serving() as server, connect(url_of(server), buffer_max=20, timeout_s=0.2) as client:
        subscription = client.subscribe("n >= 0")
        for n in range(3_000):
            await client.publish({"n": n}, b"x" * 2_000)
        with pytest.raises(Stalled, match=r"the subscription to 'n >= 0', which nobody has read"):
            await client.flush()
        reading = asyncio.create_task(take(subscription, 3_000))
        await client.flush()
        assert numbers(await reading) == list(range(3_000))


@pytest.mark.parametrize("url", ["memory://", ""])
@pytest.mark.parametrize("durable", [None, "d"])
@in_loop
async def test_the_bound_is_one(url: str, durable: str | None) -> None:
    """Small events, of which one read brings thousands."""
    async with (
        serving() as server,
        connect(url or url_of(server)) as publisher,
        connect(url or url_of(server)) as client,
    ):
        subscription: Subscription
        if durable is None:
            subscription = client.subscribe("n >= 0", buffer_max=1)
        else:
            subscription = client.subscribe("n >= 0", durable=durable, buffer_max=1)
        await subscription.ready()
        for n in range(2_000):
            await publisher.publish({"n": n})
        await publisher.flush()
        for n in range(2_000):
            event = await subscription.get(DEADLINE_S)
            assert event["n"] == n
            assert subscription.waiting <= 1
            await event.ack()


@in_loop
async def test_a_subscription_that_nobody_reads_does_not_starve_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inboxes, "UNREAD_S", 0.1)
    count = 3_000
    async with (
        serving() as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server)) as client,
    ):
        unread = client.subscribe("n >= 0", buffer_max=10)
        read = client.subscribe("n >= 0")
        await read.ready()
        for n in range(count):
            await publisher.publish({"n": n}, b"x" * 1_000)
        assert numbers(await take(read, count)) == list(range(count))
        # What it held is still there, and behind it stands why there is no more.
        assert numbers(await take(unread, 10)) == list(range(10))
        with pytest.raises(Overrun, match="10 events that were not read: others of this client"):
            await unread.get()
        await publisher.publish({"n": count})
        assert numbers(await take(read, 1)) == [count]


def test_how_long_one_that_is_full_may_hold_up_others() -> None:
    """A while without being read at all, or as long as was said, whoever reads it now and then."""
    line = mock.Mock()
    line.loop.time.return_value = full_at = 1_000.0
    inbox: Inbox[int] = Inbox(line, "i", "it", 1, stalled_s=30.0)
    inbox.put(1)
    assert not inbox.holds_up_too_long(full_at + inboxes.UNREAD_S)
    assert inbox.holds_up_too_long(full_at + inboxes.UNREAD_S + 1.0)
    inbox.read_at = full_at + 29.0
    assert not inbox.holds_up_too_long(full_at + 30.0)
    assert inbox.holds_up_too_long(full_at + 31.0)


@in_loop
async def test_one_that_is_read_too_slowly_holds_up_others_for_as_long_as_was_said() -> None:
    async with (
        serving() as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server), timeout_s=1.0) as client,
    ):
        slow = client.subscribe("n >= 0", buffer_max=1_000)
        read = client.subscribe("n >= 0")
        await read.ready(DEADLINE_S)
        for n in range(3_000):
            await publisher.publish({"n": n})
        taking = asyncio.create_task(take(read, 3_000))
        while not taking.done():
            await slow.get(DEADLINE_S)
            await asyncio.sleep(0.01)
        assert numbers(await taking) == list(range(3_000))
        with pytest.raises(Overrun):
            await take(slow, 1_000)


@in_loop
async def test_nobody_is_set_aside_where_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "UNREAD_S", 0.01)
    monkeypatch.setattr(intake, "HELD_UP_S", 0.01)
    async with connect("memory://") as publisher, connect("memory://") as client:
        one, other = (client.subscribe("n >= 0", buffer_max=10) for _ in range(2))
        await publisher.advertise("n present")
        for n in range(100):
            await publisher.publish({"n": n})
        await publisher.flush()
        await asyncio.sleep(0.2)
        assert (one.waiting, other.waiting) == (10, 10)
        monkeypatch.undo()
        reading = asyncio.create_task(take(one, 100))
        assert numbers(await take(other, 100)) == list(range(100))
        assert numbers(await reading) == list(range(100))


@in_loop
async def test_events_that_waited_are_read_apart_from_one_that_is_half_there() -> None:
    """Else they are glued behind it, and the client takes the broker for one that talks nonsense."""
    states: list[str] = []
    async with (
        serving() as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server), on_state=lambda state, _: states.append(state)) as client,
    ):
        subscription = client.subscribe("n >= 0", buffer_max=7)
        await subscription.ready()
        publishing = asyncio.create_task(publish_all(publisher, 2_000))
        assert numbers(await take(subscription, 2_000)) == list(range(2_000))
        await publishing
        assert states.count("connected") == 1


async def publish_all(publisher: Client, count: int) -> None:
    for n in range(count):
        await publisher.publish({"n": n}, bytes(997))


@in_loop
async def test_nobody_looks_after_one_that_has_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = mock.Mock()
    monkeypatch.setattr(intake, "HELD_UP_S", 0.05)
    monkeypatch.setattr(Client, "_held_up", looks)
    async with connect("memory://") as client:
        one = client.subscribe("n >= 0", buffer_max=10)
        for n in range(30):
            await client.publish({"n": n})
        await until(lambda: one.waiting == 10)
        assert numbers(await take(one, 30)) == list(range(30))
        before = looks.call_count
        await asyncio.sleep(0.2)
        assert looks.call_count == before


@in_loop
async def test_policies_of_one_that_is_full() -> None:
    async with connect("memory://") as client:
        drops = client.subscribe("n >= 0", buffer_max=3, when_full="drop")
        ends = client.subscribe("n >= 0", buffer_max=3, when_full="end")
        read = client.subscribe("n >= 0", buffer_max=1_000)
        for n in range(10):
            await client.publish({"n": n})
        assert numbers(await take(read, 10)) == list(range(10))
        assert (drops.waiting, drops.dropped) == (3, 7)
        assert numbers(await take(drops, 3)) == [0, 1, 2]
        await client.publish({"n": 10})
        with pytest.warns(EventsDropped, match="dropped 7 events, as 3 waited to be read"):
            assert numbers(await take(drops, 1)) == [10]
        assert (drops.waiting, drops.dropped) == (0, 7)
        assert numbers(await take(ends, 3)) == [0, 1, 2]
        with pytest.raises(Overrun, match="when_full is 'end'"):
            await ends.get()
        with pytest.raises(ValueError, match="a durable subscription waits"):
            client.subscribe("n >= 0", durable="d", when_full="drop")  # type: ignore[call-overload]


@in_loop
async def test_leaving_does_not_wait_for_what_nobody_reads() -> None:
    async with serving() as server:
        async with connect(url_of(server), buffer_max=20) as client:
            subscription = client.subscribe("n >= 0")
            for n in range(3_000):
                await client.publish({"n": n}, b"x" * 2_000)
            await until(lambda: subscription.waiting >= 20)
        assert not client.unacknowledged
        await until(lambda: not server.shell.machine.sessions)
        assert numbers([event async for event in subscription])[:20] == list(range(20))


@in_loop
async def test_a_cut_while_nothing_is_read() -> None:
    async with (
        serving() as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server), buffer_max=10) as slow,
    ):
        subscription = slow.subscribe("n >= 0")
        await subscription.ready()
        for n in range(2_000):
            await publisher.publish({"n": n}, b"x" * 1_000)
        await publisher.flush()
        await until(lambda: subscription.waiting >= 10)
        for connection in list(server._open.values()):
            connection.transport.abort()
        assert numbers(await take(subscription, 2_000)) == list(range(2_000))


@in_loop
async def test_an_inbox_is_full_until_half_of_it_is_read() -> None:
    async with connect("memory://") as client:
        line = client._line
        assert isinstance(line, Line)
        inbox = Inbox[str](line, "name", "title", 4, 1.0)
        for letter in "abc":
            inbox.put(letter)
        full = line.intake.full
        assert inbox not in full
        assert inbox.room == 1
        for letter in "de":
            inbox.put(letter)
            assert inbox in full
            assert inbox.room == 0
        assert [await inbox.next() for _ in range(2)] == ["a", "b"]
        assert inbox in full
        assert await inbox.next() == "c"
        assert inbox not in full
        inbox.end()
        assert [await inbox.next() for _ in range(2)] == ["d", "e"]
        with pytest.raises(EOFError):
            await inbox.next()
