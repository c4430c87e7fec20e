"""Outboxes: every event of a log is published once, whichever process publishes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roost.client import (
    Client,
    Closed,
    ConnectError,
    Gap,
    NotInTime,
    Outbox,
    Refused,
    SessionOver,
    SyncOutbox,
    connect,
    connect_sync,
)
from roost.client.feeding import QUEUE_MAX
from roost.language import LanguageError
from tests.client.support import (
    DEADLINE_S,
    config,
    cut,
    in_loop,
    numbers,
    refuses,
    serving,
    take,
    until,
    url_of,
)
from tests.client.test_security import secured, user


async def publish(outbox: Outbox, *range_: int) -> list[bool]:
    return [await outbox.publish(number, {"n": number}) for number in range(*range_)]


@pytest.mark.parametrize("url", ["memory://", ""])
@in_loop
async def test_the_next_process_goes_on(url: str) -> None:
    async with serving() as server, connect(url or url_of(server)) as reader:
        where = url or url_of(server)
        sub = reader.subscribe("n > 0")
        await sub.ready()
        async with connect(where) as first:
            outbox = first.outbox("orders")
            assert await outbox.open() == 0
            assert outbox.is_new
            assert await publish(outbox, 1, 11) == [True] * 10
            assert outbox.last == 10
            await outbox.flush()
            assert outbox.accepted == 10
            publisher = outbox.publisher
        async with connect(where) as second, second.outbox("orders") as outbox:
            assert (outbox.last, outbox.accepted, outbox.is_new) == (10, 10, False)
            assert outbox.publisher == publisher
            assert await publish(outbox, 1, 16) == [False] * 10 + [True] * 5
        events = await take(sub, 15)
        assert numbers(events) == list(range(1, 16))
        assert [event.id for event in events] == [f"{publisher}:{n}" for n in range(1, 16)]


@in_loop
async def test_what_comes_along_with_an_event() -> None:
    async with (
        connect("memory://") as client,
        client.subscribe("n > 0") as sub,
        client.outbox("o") as outbox,
    ):
        await outbox.publish(1, {"n": 1}, b"bytes", content_type="text/x", headers={"a": "b"})
        event = await sub.get()
        assert (event.payload, event.content_type) == (b"bytes", "text/x")
        assert dict(event.headers) == {"a": "b"}


@in_loop
async def test_numbers_that_can_not_be() -> None:
    async with connect("memory://") as client, client.outbox("o") as outbox:
        with pytest.raises(Gap, match="event 2 came where 1 was expected") as gap:
            await outbox.publish(2, {"n": 2})
        assert (gap.value.number, gap.value.expected) == (2, 1)
        for number in (0, -1):
            with pytest.raises(ValueError, match=r"number is .*; expected 1 or more"):
                await outbox.publish(number, {"n": 1})
        with pytest.raises(LanguageError):
            await outbox.publish(1, {"n": None})  # type: ignore[dict-item]
        assert await publish(outbox, 1, 3) == [True, True]  # nothing has happened
        await outbox.flush()


@in_loop
async def test_cuts_lose_and_double_nothing() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n > 0")
        await sub.ready()
        async with client.outbox("o") as outbox:
            for number in range(1, 2_001):
                await outbox.publish(number, {"n": number})
                if number % 200 == 100:
                    await asyncio.sleep(0)
                    cut(server)
            await outbox.flush()
        assert numbers(await take(sub, 2_000)) == list(range(1, 2_001))


@in_loop
async def test_another_process_takes_over() -> None:
    """Whatever the first one still wants to say, it says it to nobody."""
    async with serving() as server, connect(url_of(server)) as one, connect(url_of(server)) as two:
        sub = two.subscribe("n > 0")
        await sub.ready()
        mine = one.outbox("o")
        await mine.open()
        await publish(mine, 1, 3)
        await mine.flush()
        theirs = two.outbox("o")
        assert await theirs.open() == 2
        await until(lambda: mine._line.failure is not None)
        for use in (mine.flush(), mine.publish(3, {"n": -3})):
            with pytest.raises(SessionOver, match="another process of this client has taken over"):
                await use
        with pytest.raises(SessionOver):
            await mine.publish(4, {"n": -4})
        await theirs.publish(3, {"n": 3})
        await theirs.close()
        assert numbers(await take(sub, 3)) == [1, 2, 3]


@in_loop
async def test_a_durable_broker_restarts(tmp_path: Path) -> None:
    async with serving(config(data=tmp_path)) as first:
        port = first.port
        client = await connect(url_of(first))
        outbox = client.outbox("o")
        await outbox.open()
        await publish(outbox, 1, 6)
        await outbox.flush()
    await publish(outbox, 6, 9)  # nobody is there
    async with serving(config(port=port, data=tmp_path)) as second:
        await outbox.flush()
        await client.close()
        async with connect(url_of(second)) as client, client.outbox("o") as outbox:
            assert (outbox.last, outbox.is_new) == (8, False)


@in_loop
async def test_a_broker_that_has_forgotten() -> None:
    """A process that goes on knows its numbers; the next one is told that nobody does."""
    async with serving() as server:
        port = server.port
        client = await connect(url_of(server))
        outbox = client.outbox("o")
        await outbox.open()
        await publish(outbox, 1, 6)
        await outbox.flush()
    async with serving(config(port=port)) as server:
        await publish(outbox, 6, 8)
        await outbox.flush()
        await client.close()
        async with connect(url_of(server)) as client, client.outbox("o") as outbox:
            assert (outbox.last, outbox.is_new) == (7, False)
    async with serving(config(port=port)) as server, connect(url_of(server)) as client:
        sub = client.subscribe("n > 0")
        await sub.ready()
        outbox = client.outbox("o")
        assert await outbox.open() == 0
        assert outbox.is_new
        await outbox.forget()
        outbox = client.outbox("o", after=7)
        assert await outbox.open() == 7
        assert outbox.is_new
        assert await publish(outbox, 7, 9) == [False, True]
        assert numbers(await take(sub, 1)) == [8]
        await outbox.close()
        async with client.outbox("o", after=3) as outbox:
            assert (outbox.last, outbox.is_new) == (8, False)


@in_loop
async def test_forgetting_it() -> None:
    """Whoever begins it anew is another publisher: no number is taken for one of before."""
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n > 0")
        await sub.ready()
        outbox = client.outbox("o")
        await outbox.open()
        await publish(outbox, 1, 4)
        await outbox.forget()
        await until(lambda: len(server.shell.machine.sessions) == 1)
        assert not server.shell.broker.router.advertisements
        for use in (outbox.open(), outbox.flush(), outbox.forget(), publish(outbox, 1, 2)):
            with pytest.raises(Closed, match="the outbox 'o' is closed"):
                await use
        async with client.outbox("o") as outbox:
            assert (outbox.last, outbox.is_new) == (0, True)
            await publish(outbox, 1, 3)
        assert numbers(await take(sub, 5)) == [1, 2, 3, 1, 2]


# --- refusals ---------------------------------------------------------------------------------------


@in_loop
async def test_a_refused_event_is_not_skipped() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        sub = client.subscribe("n > 0")
        await sub.ready()
        outbox = client.outbox("o", advertise="n < 3")
        await outbox.open()
        await publish(outbox, 1, 6)
        for _ in range(2):
            with pytest.raises(Refused, match="event 3 of the outbox 'o' was refused: no advert"):
                await outbox.flush()
        with pytest.raises(Refused):
            await outbox.publish(6, {"n": 1})
        with pytest.raises(Refused):
            await outbox.close()
        async with client.outbox("o", advertise="n < 9") as outbox:
            assert (outbox.last, outbox.is_new) == (2, False)
            await publish(outbox, 1, 6)
        assert numbers(await take(sub, 5)) == [1, 2, 3, 4, 5]
        # What the first one advertised holds, too.
        assert len(server.shell.broker.router.advertisements) == 2


@in_loop
async def test_a_refused_advertisement() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        outbox = client.outbox("o", advertise="n > 0")
        await outbox.open()
        (id_,) = server.shell.broker.router.advertisements
        refuses(server, "outbox~o", id_, "not you")
        await until(lambda: outbox._line.failure is not None)
        for use in (outbox.publish(1, {"n": 1}), outbox.flush()):
            with pytest.raises(Refused, match="an advertisement of the outbox 'o' was refused: n"):
                await use
        await outbox.close()  # no event went with it


@in_loop
async def test_permissions(tmp_path: Path) -> None:
    settings = secured(tmp_path, alice=user(publish="n present"), bob=user())
    async with serving(settings) as server:
        where = url_of(server)
        async with connect(where, user="alice", token="secret") as client:
            async with client.outbox("o") as outbox:
                assert outbox.publisher.startswith("alice~o~")
                assert "alice~outbox/o" in server.shell.machine.sessions
                await publish(outbox, 1, 3)
            outbox = client.outbox("o")
            assert await outbox.open() == 2
            await outbox.publish(3, {"m": 3})
            for use in (outbox.flush(), outbox.close()):
                with pytest.raises(Refused, match="may only advertise what 'n present' covers"):
                    await use
            with pytest.raises(Refused):
                await client.outbox("p", advertise="m > 0").open()
        async with (
            connect(where, user="bob", token="secret") as client,
            client.outbox("o") as outbox,
        ):
            assert (outbox.last, outbox.is_new) == (0, True)  # his own


# --- the outside of it ------------------------------------------------------------------------------


@in_loop
async def test_names_and_doubles() -> None:
    async with connect("memory://") as client:
        for name in ("", "x" * 201, "a\nb"):
            with pytest.raises(ValueError, match="expected 1 to 200 visible characters"):
                client.outbox(name)
        with pytest.raises(ValueError, match="after is -1; expected 0 or more"):
            client.outbox("o", after=-1)
        with pytest.raises(LanguageError):
            client.outbox("o", advertise="n >")
        async with client.outbox("o") as outbox:
            assert await outbox.open() == 0  # again
            with pytest.raises(ValueError, match="has the outbox 'o' already"):
                client.outbox("o")
        async with client.outbox("o"), client.outbox("p"), client.outbox("x" * 200):
            pass


@in_loop
async def test_opening_it_twice_at_once() -> None:
    async with connect("memory://") as client:
        outbox = client.outbox("o")
        assert sum(await asyncio.gather(outbox.open(), outbox.open())) == 0
        await publish(outbox, 1, 3)


@in_loop
async def test_before_it_is_open() -> None:
    async with connect("memory://") as client:
        outbox = client.outbox("o", after=5)
        for number in (5, 6):
            with pytest.raises(Closed, match="the outbox 'o' is not open; expected `await outbox"):
                await outbox.publish(number, {"n": 1})
        with pytest.raises(Closed):
            await outbox.flush()
        await outbox.close()  # no matter
        assert repr(outbox) == "<Outbox 'o', closed, last 5>"


@in_loop
async def test_no_broker_for_it() -> None:
    async with serving() as server:
        client = await connect(url_of(server), timeout_s=0.2)
    with pytest.raises(ConnectError):
        await client.outbox("o").open()
    outbox = client.outbox("o")
    with pytest.raises(ConnectError):
        async with outbox:
            pass
    with pytest.raises(Closed):
        await outbox.open()
    await client.close()


@in_loop
async def test_leaving_the_client_flushes() -> None:
    async with serving() as server:
        async with connect(url_of(server)) as client:
            outbox = client.outbox("o")
            await outbox.open()
            await publish(outbox, 1, 101)
        assert outbox.is_closed
        assert server.shell.machine.sessions["outbox/o"].published == 100


@in_loop
async def test_what_is_not_accepted_in_time() -> None:
    async with serving() as server:
        client: Client = await connect(url_of(server), timeout_s=0.2)
        outbox = client.outbox("o")
        await outbox.open()
        await publish(outbox, 1, 3)
        await outbox.flush()
    await outbox.publish(3, {"n": 3})
    with pytest.raises(NotInTime, match="1 events are not acknowledged"):
        await outbox.flush(0.05)
    with pytest.raises(NotInTime):
        await client.close()
    assert outbox.is_closed


@in_loop
async def test_it_stays_with_the_first_broker_of_the_url() -> None:
    async with serving() as first, serving() as second:
        async with connect(url_of(first, second), timeout_s=0.2, failover_s=0.0) as client:
            async with client.outbox("o") as outbox:
                await publish(outbox, 1, 3)
            await first.stop(within_s=1.0)
            await until(lambda: "connected" == client.state and client._line is not None)
            with pytest.raises(ConnectError):
                await client.outbox("o").open()
        assert not [s for s in second.shell.machine.sessions if s.startswith("outbox")]


# --- without asyncio --------------------------------------------------------------------------------


def test_sync() -> None:
    many = 2 * QUEUE_MAX
    with connect_sync("memory://") as client, client.subscribe("n > 0") as sub:
        with client.outbox("o", advertise="n > 0") as outbox:
            assert (outbox.open(), outbox.last, outbox.is_new) == (0, 0, True)
            assert outbox.publisher.startswith("outbox~o~")
            assert all(outbox.publish(number, {"n": number}) for number in range(1, many + 1))
            assert outbox.last == many
            outbox.flush()
            assert outbox.accepted == many
            with pytest.raises(Gap, match=f"event {many + 2} came where {many + 1} was expected"):
                outbox.publish(many + 2, {"n": 1})
            with pytest.raises(ValueError, match=r"number is .*; expected 1 or more"):
                outbox.publish(0, {"n": 1})
        with pytest.raises(Closed):
            outbox.publish(1, {"n": 1})
        outbox = client.outbox("o")
        with pytest.raises(Closed, match="not open"):
            outbox.publish(1, {"n": 1})
        assert outbox.open() == many
        assert not outbox.is_new
        assert not outbox.publish(many, {"n": many})
        assert outbox.publish(many + 1, {"n": many + 1})
        outbox.forget()
        got = [sub.get(DEADLINE_S)["n"] for _ in range(many + 1)]
        assert got == list(range(1, many + 2))
        outbox = client.outbox("o", after=4)
        assert outbox.open() == 4
        outbox.publish(5, {"n": 5})  # and leaving the client flushes it
        assert sub.get(DEADLINE_S)["n"] == 5


def publish_until_refused(outbox: SyncOutbox) -> None:
    for number in range(1, 10 * QUEUE_MAX):
        outbox.publish(number, {"n": number})


def test_sync_refusal() -> None:
    with connect_sync("memory://") as client:
        outbox = client.outbox("o", advertise="n < 3")
        outbox.open()
        with pytest.raises(Refused, match="event 3 of the outbox 'o' was refused"):
            publish_until_refused(outbox)
        for _ in range(2):
            with pytest.raises(Refused, match="event 3 of the outbox 'o' was refused"):
                outbox.flush()
        with pytest.raises(Refused, match="event 3 of the outbox 'o' was refused"):
            outbox.close()
        assert client.outbox("o").open() == 2


def test_sync_trouble_is_heard_on_leaving() -> None:
    client = connect_sync("memory://").open()
    outbox = client.outbox("o", advertise="n < 3")
    outbox.open()
    outbox.publish(1, {"n": 3})
    with pytest.raises(Refused, match="event 1 of the outbox 'o' was refused"):
        client.close()
