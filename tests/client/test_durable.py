"""Durable subscriptions: what was not acknowledged comes again, what was does not."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.client import (
    Client,
    Closed,
    ConnectError,
    NotEverywhere,
    NotInTime,
    ReceivedEvent,
    Refused,
    SessionOver,
    connect,
    durable,
)
from roost.client.acknowledged import Acks, Remembered
from tests.client.support import (
    DEADLINE_S,
    config,
    connections_of,
    cut,
    in_loop,
    numbers,
    refuses,
    serving,
    take,
    until,
    url_of,
)


@given(st.lists(st.integers(1, 40), unique=True).map(sorted), st.data())
def test_acknowledgements_in_any_order(handed: list[int], data: st.DataObject) -> None:
    """The answer is the last of the longest beginning that has been acknowledged."""
    acks = Acks()
    for number in handed:
        acks.handed(number, str(number))
    done = set()
    for number in data.draw(st.permutations(handed)):
        done.add(number)
        reached = acks.done(number)
        beginning = []
        for each in handed:
            if each not in done:
                break
            beginning.append(each)
        assert reached == (beginning[-1] if beginning else 0)
        assert acks.done(number) == reached  # a second time changes nothing


def test_acknowledgements_while_more_come() -> None:
    acks = Acks()
    for number in range(1, 1_000):
        acks.handed(number, str(number))
        if number % 3 == 0:
            assert acks.done(number - 1) == number - 3
            assert acks.done(number - 2) == number - 1
            assert acks.done(number) == number
    assert not acks._done


@pytest.mark.parametrize("url", ["memory://", ""])
@in_loop
async def test_exactly_what_was_not_acknowledged_comes_again(url: str) -> None:
    async with serving() as server, connect(url or url_of(server)) as publisher:
        where = url or url_of(server)
        async with connect(where) as first, first.subscribe("n >= 0", durable="billing") as sub:
            await sub.ready()
            for n in range(10):
                await publisher.publish({"n": n})
            events = await take(sub, 10)
            assert numbers(events) == list(range(10))
            for n in (3, 0, 1, 5):  # 0 and 1 from the beginning; 3 and 5 with gaps before them
                await events[n].ack()
        for n in range(10, 13):
            await publisher.publish({"n": n})
        await publisher.flush()
        async with connect(where) as second, second.subscribe("n >= 0", durable="billing") as sub:
            again = await take(sub, 9)
            assert numbers(again) == [2, 4, *range(6, 13)]
            for event in again[2:]:
                await sub.ack(event)
        async with connect(where) as next_, next_.subscribe("n >= 0", durable="billing") as sub:
            again = await take(sub, 2)
            assert numbers(again) == [2, 4]
            for event in again:
                await sub.ack(event)
        async with connect(where) as third, third.subscribe("n >= 0", durable="billing") as sub:
            await publisher.publish({"n": 13})
            assert numbers(await take(sub, 1)) == [13]
            await sub.forget()


@in_loop
async def test_that_nobody_reads_is_said_where_it_keeps_an_answer_waiting() -> None:
    """All that has waited comes ahead of it, and there is no room for so much."""
    async with serving() as server:
        async with connect(url_of(server)) as client, client.subscribe("n >= 0", durable="d"):
            pass
        async with connect(url_of(server)) as client:
            await client.publish_many([{"n": n} for n in range(500)])
            await client.flush()
            subscription = client.subscribe("n >= 0", durable="d", buffer_max=100)
            said = "stands behind 100 events for the durable subscription 'd' that nobody has read"
            with pytest.raises(NotInTime, match=said):
                await subscription.ready(0.5)
            assert numbers(await take(subscription, 500)) == list(range(500))
            await subscription.ready()
            await subscription.forget()


@in_loop
async def test_it_is_ready_though_a_neighbour_is_away() -> None:
    """What is told that one waits; who wants to know of it asks for it."""
    async with serving(config(neighbours={"B9": "127.0.0.1:1"})) as server:
        client = await connect(url_of(server))
        subscription = client.subscribe("n >= 0", durable="d")
        await subscription.ready(20)
        with pytest.raises(NotEverywhere, match="B9"):
            await subscription.ready(0.5, everywhere=True)
        await client.close()


@in_loop
async def test_what_was_acknowledged_behind_a_gap_does_not_come_again_to_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker knows what this one remembers."""
    async with connect("memory://") as client:
        await client.advertise("n present")
        async with client.subscribe("n >= 0", durable="d") as sub:
            for n in range(4):
                await client.publish({"n": n})
            for event in (await take(sub, 4))[::2]:
                await event.ack()
            await client.flush()
        monkeypatch.setattr(durable, "REMEMBERED", Remembered())
        async with client.subscribe("n >= 0", durable="d") as sub:
            await client.publish({"n": 4})
            assert numbers(await take(sub, 3)) == [1, 3, 4]
            await sub.forget()


@in_loop
async def test_what_was_acknowledged_out_of_order_does_not_come_again_after_a_cut() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        async with client.subscribe("n >= 0", durable="d") as sub:
            await sub.ready()
            for n in range(3):
                await client.publish({"n": n})
            first, *rest = await take(sub, 3)
            for event in rest:
                await event.ack()
            cut(server)
            await client.publish({"n": 3})
            last = await take(sub, 1)
            assert numbers(last) == [3]
        assert numbers(await undelivered(client, "n >= 0", "d")) == numbers([first, *last])


@in_loop
async def test_acknowledging_with_the_next_one() -> None:
    async with connect("memory://") as client:
        await client.advertise("n present")
        async with client.subscribe("n >= 0", durable="d", auto_ack=True) as sub:
            for n in range(5):
                await client.publish({"n": n})
            assert numbers(await take(sub, 3)) == [0, 1, 2]
        async with client.subscribe("n >= 0", durable="d", auto_ack=True) as sub:
            assert numbers(await take(sub, 1)) == [2]
            await until(lambda: sub.waiting == 2)
            assert numbers(await sub.batch()) == [3, 4]
        # Of a batch nothing is acknowledged before the next one is asked for.
        async with client.subscribe("n >= 0", durable="d") as sub:
            assert numbers(await take(sub, 2)) == [3, 4]


@in_loop
async def test_cuts_lose_and_double_nothing() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        async with client.subscribe("n >= 0", durable="d") as sub:
            await sub.ready()
            seen = []
            for n in range(1_000):
                await client.publish({"n": n})
                if n % 100 == 50:
                    cut(server)
                if n % 4 == 3:
                    events = await take(sub, 4)
                    seen += numbers(events)
                    for event in reversed(events):
                        await event.ack()
            assert seen == list(range(1_000))
        assert not await undelivered(client, "n >= 0", "d")


async def undelivered(client: Client, filter_: str, name: str) -> list[ReceivedEvent]:
    """What still waits."""
    async with client.subscribe(filter_, durable=name) as sub:
        await sub.ready()
        return [await sub.get() for _ in range(sub.waiting)]


@in_loop
async def test_a_durable_broker_restarts(tmp_path: Path) -> None:
    async with serving(config(data=tmp_path)) as first:
        port = first.port
        async with connect(url_of(first)) as client:
            async with client.subscribe("n >= 0", durable="d") as sub:
                for n in range(4):
                    await client.publish({"n": n})
                events = await take(sub, 4)
                await events[0].ack()
            await client.publish({"n": 4})
            await client.flush()
    async with (
        serving(config(port=port, data=tmp_path)) as second,
        connect(url_of(second)) as client,
        client.subscribe("n >= 0", durable="d") as sub,
    ):
        assert numbers(await take(sub, 4)) == [1, 2, 3, 4]


@in_loop
async def test_a_restart_under_the_reader(tmp_path: Path) -> None:
    first = config(data=tmp_path)
    async with serving(first) as server:
        port = server.port
        client = await connect(url_of(server))
        sub = client.subscribe("n >= 0", durable="d")
        await sub.ready()
        for n in range(5):
            await client.publish({"n": n})
        events = await take(sub, 5)
        for event in events[:3]:
            await event.ack()
        await client.flush()
    async with serving(config(port=port, data=tmp_path)) as server:
        await until(lambda: client.state == "connected")
        for event in events[3:]:
            await event.ack()
        await client.publish({"n": 5})
        last = await sub.get()
        assert last["n"] == 5
        await last.ack()
        await sub.close()
        assert not await undelivered(client, "n >= 0", "d")
        await client.close()


@in_loop
async def test_a_broker_that_has_forgotten_the_session() -> None:
    """Its numbers begin anew: acknowledgements of old ones must not be taken for those."""
    async with serving() as server:
        port = server.port
        client = await connect(url_of(server))
        sub = client.subscribe("n >= 0", durable="d")
        await sub.ready()
        for n in range(5):
            await client.publish({"n": n})
        old = await take(sub, 5)
    async with serving(config(port=port)) as server:
        await until(lambda: server.shell.machine.table)
        await until(lambda: client.state == "connected")
        for n in range(5, 10):
            await client.publish({"n": n})
        assert numbers(await take(sub, 5)) == list(range(5, 10))
        for event in old:
            await event.ack()
        await sub.close()
        assert numbers(await undelivered(client, "n >= 0", "d")) == list(range(5, 10))
        await client.close()


@in_loop
async def test_another_process_takes_over() -> None:
    async with serving() as server, connect(url_of(server)) as one, connect(url_of(server)) as two:
        mine = one.subscribe("n >= 0", durable="d")
        await mine.ready()
        await one.publish({"n": 1})
        assert (await mine.get())["n"] == 1
        theirs = two.subscribe("n >= 0", durable="d")
        assert (await theirs.get())["n"] == 1
        with pytest.raises(SessionOver, match="another process of this client has taken over"):
            await mine.get()
        await one.publish({"n": 2})
        assert (await theirs.get())["n"] == 2
        assert one.state == "connected"


@in_loop
async def test_what_was_not_read_is_left_to_the_next() -> None:
    async with connect("memory://") as client:
        sub = client.subscribe("n >= 0", durable="d")
        await sub.ready()
        for n in (1, 2):
            await client.publish({"n": n})
        await until(lambda: sub.waiting == 2)
        await sub.close()
        assert [event async for event in sub] == []
        async with client.subscribe("n >= 0", durable="d") as again:
            assert numbers(await take(again, 2)) == [1, 2]


@in_loop
async def test_forgetting_it() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n >= 0", durable="d")
        await sub.ready()
        await client.publish({"n": 1})
        assert (await sub.get())["n"] == 1
        await sub.forget()
        await until(lambda: len(server.shell.machine.sessions) == 1)
        assert not server.shell.machine.table
        assert [event async for event in sub] == []
        for use in (sub.forget(), sub.ready()):
            with pytest.raises(Closed):
                await use
        assert not await undelivered(client, "n >= 0", "d")


@in_loop
async def test_whoever_reads_it_hears_that_it_is_forgotten_whatever_the_broker_says() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n >= 0", durable="d")
        await sub.ready()
        reading = asyncio.create_task(sub.get(5.0))
        for connection in server._open.values():
            connection.transport.pause_reading()
        sub._session.timeout_s = 0.05
        with pytest.raises(NotInTime):
            await sub.forget()
        with pytest.raises(Closed, match="the subscription to 'n >= 0' is closed"):
            await reading
        for connection in server._open.values():
            connection.transport.resume_reading()


@in_loop
async def test_another_filter_for_the_same_name() -> None:
    async with connect("memory://") as client:
        async with client.subscribe("n > 0", durable="d"):
            pass
        await client.publish({"n": 1})
        await client.flush()
        async with client.subscribe("n > 5", durable="d") as sub:
            await sub.ready()
            for n in (2, 7):
                await client.publish({"n": n})
            # What was kept under the old filter still comes.
            assert numbers(await take(sub, 2)) == [1, 7]


@in_loop
async def test_names_and_doubles() -> None:
    async with connect("memory://") as client:
        for name in ("", "x" * 257, "a\nb"):
            with pytest.raises(ValueError, match="expected 1 to 256 visible characters"):
                client.subscribe("*", durable=name)
        async with client.subscribe("*", durable="d"):
            with pytest.raises(ValueError, match="reads the durable subscription 'd' already"):
                client.subscribe("*", durable="d")
        async with client.subscribe("*", durable="d"):
            pass


@in_loop
async def test_one_that_nobody_can_read_is_detached() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        await client.publish({"n": 0})
        await client.subscribe("n > 0", durable="d").ready()
        for n in (1, 2):
            await client.publish({"n": n})
        async for _ in client.subscribe("n > 0", durable="d"):
            break
        gc.collect()
        await until(lambda: len(connections_of(server)) == 1)
        assert len(server.shell.machine.sessions) == 2
        async with client.subscribe("n > 0", durable="d") as sub:
            assert numbers(await take(sub, 2)) == [1, 2]


@in_loop
async def test_leaving_the_client_detaches() -> None:
    async with serving() as server:
        async with connect(url_of(server)) as client:
            sub = client.subscribe("n > 0", durable="d")
            await sub.ready()
            await client.publish({"n": 1})
            reading = asyncio.create_task(sub.get())
            assert (await reading)["n"] == 1
        assert [event async for event in sub] == []
        await until(lambda: len(server.shell.machine.sessions) == 1)
        assert all(session.durable for session in server.shell.machine.sessions.values())
        async with connect(url_of(server)) as client:
            assert len(await undelivered(client, "n > 0", "d")) == 1


@in_loop
async def test_detaching_takes_no_longer_than_closing_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roost.client.line.CLOSE_S", DEADLINE_S)
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n >= 0", durable="d")
        await sub.ready()
        async with asyncio.timeout(10.0):
            await sub.close()


@in_loop
async def test_no_broker_for_it() -> None:
    async with serving() as server:
        client = await connect(url_of(server), timeout_s=0.2)
    sub = client.subscribe("n > 0", durable="d")
    with pytest.raises(ConnectError):
        await sub.get()
    with pytest.raises(Closed):
        await sub.get()
    with pytest.raises(ConnectError):
        async with client.subscribe("n > 0", durable="d"):
            pass
    await client.close()


@in_loop
async def test_a_refusal() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n > 0", durable="d")
        await sub.ready()
        (id_,) = (i for s in server.shell.machine.sessions.values() for i in s.subscriptions)
        assert id_ == "durable/d/events"
        refuses(server, "durable~d", id_, "not for you")
        with pytest.raises(Refused, match="the durable subscription 'd' was refused: not for you"):
            await sub.get()


@in_loop
async def test_it_stays_with_the_first_broker_of_the_url() -> None:
    async with serving() as first, serving() as second:
        port = first.port
        async with connect(url_of(first, second), failover_s=0.0) as client:
            sub = client.subscribe("n > 0", durable="d")
            await sub.ready()
            await first.stop(within_s=1.0)
            await until(lambda: client.state == "connected" and second.shell.machine.sessions)
            assert len(second.shell.machine.sessions) == 1
            async with serving(config(port=port)) as again:
                await until(lambda: again.shell.machine.sessions)
                await sub.close()


@in_loop
async def test_unread_events_hold_up_no_other_subscription() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        slow = client.subscribe("n >= 0", durable="slow", buffer_max=10)
        quick = client.subscribe("n >= 0", durable="quick")
        await slow.ready()
        await quick.ready()
        for n in range(2_000):
            await client.publish({"n": n}, b"x" * 1_000)
        await client.flush()
        assert numbers(await take(quick, 2_000)) == list(range(2_000))
        assert slow.waiting <= 10
        assert numbers(await take(slow, 2_000)) == list(range(2_000))


def test_of_too_many_sessions_the_one_that_was_closed_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roost.client.acknowledged.SESSIONS_MAX", 2)
    remembered = Remembered()
    beyond = {3: "P"}
    for name in ("first", "second", "third"):
        remembered.keep(("B1", name), beyond)
    assert not remembered.take(("B1", "first"))
    assert remembered.take(("B1", "second")) == remembered.take(("B1", "third")) == beyond


def test_of_a_session_thousands_of_events_are_remembered_and_of_too_many_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remembered = Remembered()
    beyond = {number: f"P:{number}" for number in range(3, 10_000, 2)}
    remembered.keep(("B1", "d"), beyond)
    assert remembered.take(("B1", "d")) == beyond
    monkeypatch.setattr("roost.client.acknowledged.EVENTS_MAX", 2)
    remembered.keep(("B1", "d"), beyond)
    assert remembered.take(("B1", "d")) == {3: "P:3", 5: "P:5"}
