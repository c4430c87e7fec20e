"""Publishing and subscribing, against a broker in this process and one behind a socket."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import re
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import EAI_NONAME, gaierror
from typing import Literal

import pytest

import roost
from roost.broker.events import LinkAdded
from roost.broker.requests import Requests
from roost.client import (
    Client,
    Closed,
    ConnectError,
    EventsDropped,
    NotInTime,
    Refused,
    SessionOver,
    connect,
    dialling,
)
from roost.client.advertising import SHAPES_MAX
from roost.client.memory import MemoryBroker
from roost.language import Filter, LanguageError, Operator, ParseError, Predicate
from roost.runtime.private_file import write_private
from roost.runtime.security import users_text
from roost.runtime.server import BrokerServer
from roost.runtime.shell import Shell
from roost.runtime.tables import LimitsTable, SecurityTable
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

Kind = Literal["memory", "socket"]
both_kinds = pytest.mark.parametrize("kind", ["memory", "socket"])


@asynccontextmanager
async def broker(kind: Kind) -> AsyncIterator[tuple[str, Shell]]:
    """The URL and the shell of a broker."""
    if kind == "memory":
        held = MemoryBroker.of("test")
        held.acquire()
        yield "memory://test", held.shell
        held.release()
    else:
        async with serving() as server:
            yield url_of(server), server.shell


# --- publishing and subscribing ---------------------------------------------------------------------


@both_kinds
@in_loop
async def test_events_that_match_and_no_others(kind: Kind) -> None:
    async with broker(kind) as (url, _), connect(url) as client:
        subscription = client.subscribe("class = 'STOCK' and volume > 300000")
        await subscription.ready()
        for class_, volume in (("STOCK", 300_000), ("NEWS", 400_000), ("STOCK", 400_000)):
            await client.publish({"class": class_, "volume": volume})
        event = await subscription.get()
        assert (event["class"], event["volume"]) == ("STOCK", 400_000)
        await client.flush()
        assert subscription.waiting == 0


@both_kinds
@in_loop
async def test_all_that_an_event_carries(kind: Kind) -> None:
    async with broker(kind) as (url, _), connect(url, name="desk") as client:
        subscription = client.subscribe("*")
        id_ = await client.publish(
            {"i": -1, "f": 0.5, "s": "größer", "b": True},
            payload=b"\0\xff",
            content_type="application/octet-stream",
            headers={"trace": "7"},
        )
        event = await subscription.get()
        assert event.attributes == {"i": -1, "f": 0.5, "s": "größer", "b": True}
        assert (event.payload, event.content_type) == (b"\0\xff", "application/octet-stream")
        assert event.headers == {"trace": "7"}
        assert event.id == id_ == f"{client.name}:1"
        assert event.publisher.startswith("desk~")
        assert event.sequence == 1
        assert 1.7e9 < event.published_at < 4e9
        assert ("i" in event, "x" in event, event.get("x"), event.get("x", 3)) == (
            True,
            False,
            None,
            3,
        )
        assert (len(event), list(event)) == (4, ["i", "f", "s", "b"])
        with pytest.raises(KeyError):
            event["x"]
        await event.ack()  # nothing to acknowledge, and no harm
        assert "größer" in repr(event)


@both_kinds
@in_loop
async def test_order_and_nothing_missing(kind: Kind) -> None:
    async with broker(kind) as (url, _), connect(url) as publisher, connect(url) as subscriber:
        subscription = subscriber.subscribe("n >= 0")
        await subscription.ready()
        for n in range(5_000):
            await publisher.publish({"n": n})
        assert numbers(await take(subscription, 5_000)) == list(range(5_000))
        await publisher.flush()
        assert publisher._line is not None
        assert publisher._line.machine.pending == 0


@in_loop
async def test_the_short_form() -> None:
    async with roost.connect("memory://") as client:
        await client.publish({"n": 0})  # nobody wants it
        seen = []
        task = asyncio.create_task(client.flush())
        subscription = client.subscribe("n > 0")
        for n in (1, 2, 3):
            await client.publish({"n": n})
        async for event in subscription:
            seen.append(event["n"])
            if len(seen) == 3:
                break
        await task
        assert seen == [1, 2, 3]


@in_loop
async def test_filters_need_not_be_texts() -> None:
    filter_ = Filter([Predicate("n", Operator.GT, 1)])
    async with connect("memory://") as client:
        await client.advertise(Filter())
        subscription = client.subscribe(filter_)
        assert subscription.filter == "n > 1"
        await client.publish({"n": 1})
        await client.publish({"n": 2})
        assert (await subscription.get())["n"] == 2


@in_loop
async def test_an_event_for_two_subscriptions() -> None:
    async with connect("memory://") as client:
        wide, narrow = client.subscribe("n > 0"), client.subscribe("n > 5")
        for n in (3, 7):
            await client.publish({"n": n})
        assert numbers(await take(wide, 2)) == [3, 7]
        assert numbers(await take(narrow, 1)) == [7]


@in_loop
async def test_batches() -> None:
    async with connect("memory://") as client:
        subscription = client.subscribe("n >= 0")
        for n in range(10):
            await client.publish({"n": n})
        await client.flush()
        await until(lambda: subscription.waiting == 10)
        assert numbers(await subscription.batch(4)) == [0, 1, 2, 3]
        assert numbers(await subscription.batch()) == [4, 5, 6, 7, 8, 9]
        await subscription.close()
        assert await subscription.batch() == []


@both_kinds
@in_loop
async def test_many_are_published_in_order(kind: Kind) -> None:
    """More than a turn of them, and more than may be on their way, between others."""
    many = [{"n": n, "even": n % 2 == 0} if n % 3 else {"n": n} for n in range(3, 1_500)]
    async with broker(kind) as (url, _), connect(url, pending_max=100) as client:
        subscription = client.subscribe("n present")
        await subscription.ready()
        await client.publish({"n": 2})
        assert await client.publish_many(many) == 1_497
        assert await client.publish_many(iter([])) == 0
        assert (await client.publish({"n": 1_500})).endswith(":1499")
        await client.flush()
        got: list[int] = []
        async for events in subscription.batches(100):
            assert len(events) <= 100
            got += [int(event["n"]) for event in events]
            if got[-1] == 1_500:
                break
        assert got == list(range(2, 1_501))


@in_loop
async def test_of_many_either_all_or_none() -> None:
    async with connect("memory://many") as client:
        async with client.subscribe("a present") as subscription:
            with pytest.raises(LanguageError, match="null is not a value"):
                await client.publish_many([{"a": 1}, {"a": None}])  # type: ignore[dict-item]
            with pytest.raises(TypeError, match="events"):
                await client.publish_many(3)  # type: ignore[arg-type]
            await client.publish({"a": 2})
            assert (await subscription.get(DEADLINE_S))["a"] == 2
        batches = subscription.batches()
        assert [events async for events in batches] == []
    with pytest.raises(Closed):
        await client.publish_many([{"a": 1}])


@in_loop
async def test_closing_a_subscription() -> None:
    async with connect("memory://") as client:
        subscription = client.subscribe("n > 0")
        reading = asyncio.create_task(subscription.get())
        await asyncio.sleep(0)
        await subscription.close()
        with pytest.raises(Closed, match="the subscription to 'n > 0' is closed"):
            await reading
        assert [event async for event in subscription] == []
        await subscription.close()
        assert client._line is not None
        assert not client._line.machine.subscriptions()


@in_loop
async def test_what_was_not_read_is_gone_with_the_subscription() -> None:
    async with connect("memory://") as client:
        subscription = client.subscribe("n > 0")
        for n in (1, 2):
            await client.publish({"n": n})
        await until(lambda: subscription.waiting == 2)
        await subscription.close()
        assert subscription.waiting == 0
        assert [event async for event in subscription] == []


@in_loop
async def test_a_subscription_that_nobody_can_read_ends_by_itself() -> None:
    async with connect("memory://") as client:
        assert client._line is not None
        machine = client._line.machine
        await client.publish({"n": 0})
        other = client.subscribe("n > 1")
        subscription = client.subscribe("n >= 1")
        for n in (1, 2):
            await client.publish({"n": n})
        async for _ in subscription:
            break
        del subscription
        gc.collect()
        await until(lambda: len(machine.subscriptions()) == 1)
        assert (await other.get())["n"] == 2


@in_loop
async def test_get_in_time_or_not() -> None:
    async with connect("memory://") as client:
        subscription = client.subscribe("n > 0")
        with pytest.raises(NotInTime, match=r"no event for 'n > 0' within 0.01 s"):
            await subscription.get(0.01)
        await client.publish({"n": 1})
        assert (await subscription.get(5))["n"] == 1


@in_loop
async def test_several_readers_share_the_events() -> None:
    async with connect("memory://") as client:
        subscription = client.subscribe("n >= 0")
        readers = [asyncio.create_task(take(subscription, 50)) for _ in range(4)]
        await asyncio.sleep(0)
        for n in range(200):
            await client.publish({"n": n})
        got = await asyncio.gather(*readers)
        assert sorted(n for events in got for n in numbers(events)) == list(range(200))


@in_loop
async def test_a_reader_that_is_cancelled_takes_nothing_along() -> None:
    async with connect("memory://") as client:
        subscription = client.subscribe("n >= 0")
        for n in range(100):
            reader = asyncio.create_task(subscription.get())
            await asyncio.sleep(0)
            await client.publish({"n": n})
            if n % 2:
                await until(lambda: reader.done() or subscription.waiting)  # noqa: B023
            reader.cancel()
            results = await asyncio.gather(reader, return_exceptions=True)
            if isinstance(results[0], BaseException):
                assert (await subscription.get())["n"] == n
            else:
                assert results[0]["n"] == n


@in_loop
async def test_bad_filters_and_events_raise_at_once() -> None:
    async with connect("memory://") as client:
        with pytest.raises(ParseError, match="expected"):
            client.subscribe("n >")
        with pytest.raises(ParseError):
            await client.advertise("n >")
        with pytest.raises(LanguageError, match="null is not a value"):
            await client.publish({"n": None})  # type: ignore[dict-item]
        long = " or ".join(f"a contains '{'x' * 4_090}{i}'" for i in range(60))
        assert client.subscribe(long[:100] + "'").filter
        with pytest.raises(LanguageError, match="at most 262,144 are allowed"):
            client.subscribe(
                long + " or " + " and ".join(f"b contains '{'y' * 4_000}'" for _ in range(9))
            )
        with pytest.raises(ValueError, match="buffer_max is 0"):
            client.subscribe("n > 0", buffer_max=0)
        assert client.state == "connected"


# --- advertisements ---------------------------------------------------------------------------------


@both_kinds
@in_loop
async def test_advertisements_follow_from_what_is_published(kind: Kind) -> None:
    async with broker(kind) as (url, shell), connect(url) as client:
        known = shell.broker.router.advertisements
        for n in range(10):
            await client.publish({"class": "STOCK", "n": n})
            await client.publish({"n": n, "class": "STOCK"})
        await client.publish({"class": "NEWS", "n": 1})
        await client.publish({"class": "NEWS", "n": float("nan")})
        await client.flush()
        assert sorted(str(entry.interest) for entry in known.values()) == [
            "class = 'NEWS'",
            "class = 'NEWS' and n present",
            "class = 'STOCK' and n present",
        ]
    await until(lambda: not known)


@in_loop
async def test_very_many_shapes() -> None:
    async with connect("memory://") as publisher, connect("memory://") as subscriber:
        subscription = subscriber.subscribe("n >= 0")
        for n in range(3 * SHAPES_MAX):
            await publisher.publish({"n": n, f"a{n}": True})
        assert numbers(await take(subscription, 3 * SHAPES_MAX)) == list(range(3 * SHAPES_MAX))
        assert publisher._line is not None
        assert len(publisher._line.machine.advertisements()) == SHAPES_MAX + 1


@both_kinds
@in_loop
async def test_advertising_oneself(kind: Kind) -> None:
    async with broker(kind) as (url, shell), connect(url) as client:
        advertised = await client.advertise("class = 'STOCK'")
        assert len(shell.broker.router.advertisements) == 1
        await client.publish({"class": "STOCK"})
        await client.flush()
        await client.publish({"class": "NEWS"})
        with pytest.raises(Refused, match="no advertisement of this client covers it") as refused:
            await client.flush()
        assert refused.value.request == f"publication {client.name}:2"
        assert refused.value.others == 0
        await client.flush()  # it is said once
        await advertised.withdraw()
        await advertised.withdraw()
        await client.publish({"class": "STOCK"})
        with pytest.raises(Refused):
            await client.flush()
        assert not shell.broker.router.advertisements


@in_loop
async def test_the_first_event_gets_to_the_other_end_of_a_federation() -> None:
    async with (
        serving(config("B1")) as first,
        serving(config("B2", neighbours={"B1": f"127.0.0.1:{first.port}", "B3": ""})) as second,
        serving(config("B3", neighbours={"B2": f"127.0.0.1:{second.port}"})) as third,
    ):
        first.shell.handle(LinkAdded("B2", dial=False))
        async with connect(url_of(third)) as subscriber, connect(url_of(first)) as publisher:
            await until(lambda: all(_is_up(server) for server in (second, third)))
            subscription = subscriber.subscribe("n >= 0")
            await subscription.ready()
            for n in range(3):
                await publisher.publish({"n": n})
            await publisher.publish({"n": 3, "another": "shape"})
            assert numbers(await take(subscription, 4)) == [0, 1, 2, 3]


def _is_up(server: BrokerServer) -> bool:
    return all(link.greeted for link in server.shell.machine.links.values())


@in_loop
async def test_a_neighbour_that_is_away_delays_nobody() -> None:
    async with (
        serving(config(neighbours={"B9": ""})) as server,
        connect(url_of(server)) as client,
    ):
        subscription = client.subscribe("n > 0")
        await subscription.ready()
        await client.publish({"n": 1})
        assert (await subscription.get(10))["n"] == 1


@in_loop
async def test_events_do_not_wait_for_their_advertisement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers presume that they are wanted until all have answered; see `roost.broker.absence`."""
    monkeypatch.setattr(Requests, "settles", lambda *_: None)
    async with serving() as server, connect(url_of(server), timeout_s=0.5) as client:
        subscription = client.subscribe("n > 0")
        with pytest.raises(NotInTime, match="'n > 0' is not in place after 0"):
            await subscription.ready()
        await client.publish({"n": 1})
        await client.advertise("n > 1")
        await client.flush()
        assert (await subscription.get(10))["n"] == 1


@in_loop
async def test_a_broker_of_the_version_before_delays_the_first_event_only_so_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Requests, "settles", lambda *_: None)
    async with (
        serving() as server,
        connect(url_of(server), settle_s=0.2, timeout_s=0.5) as client,
    ):
        assert client._line is not None
        client._line.machine.home.speaks = 3
        subscription = client.subscribe("n > 0")
        with caplog.at_level(logging.WARNING, "roost.client"):
            await client.publish({"n": 1})
            assert subscription.waiting == 0
            assert (await subscription.get(10))["n"] == 1
            await client.advertise("n > 1")
        assert "not known to all brokers after 0.2 s" in caplog.text


# --- refusals ---------------------------------------------------------------------------------------


@in_loop
async def test_refusals_are_raised_where_somebody_is() -> None:
    async with serving() as server, connect(url_of(server)) as client:
        advertised = await client.advertise("n present")
        # Of publications: by the next one, which is not published then.
        await client.publish({"x": 1})
        await client.publish({"x": 2})
        publishing = client._publishing
        assert publishing is not None
        await until(lambda: publishing._more_refusals)
        with pytest.raises(Refused, match=r"and 1 more") as refused:
            await client.publish({"n": 1})
        assert refused.value.others == 1
        assert await client.publish({"n": 2}) == f"{client.name}:3"

        # Of a subscription: by `ready`, and reading.
        subscription = client.subscribe("n > 5")
        await client.flush()
        (id_,) = server.shell.broker.router.subscriptions
        refuses(server, client.name, id_, "not any more")
        with pytest.raises(Refused, match="the subscription to 'n > 5' was refused: not any more"):
            await subscription.get()
        with pytest.raises(Refused):
            await subscription.ready()
        await until(lambda: not server.shell.broker.router.subscriptions)

        # Of an advertisement that had been accepted: by what it covered.
        (id_,) = server.shell.broker.router.advertisements
        refuses(server, client.name, id_, "nor this")
        await until(lambda: not server.shell.broker.router.advertisements)
        await client.publish({"n": 3})
        with pytest.raises(Refused, match="no advertisement"):
            await client.flush()
        assert advertised.filter == "n present"


@in_loop
async def test_too_many_subscriptions() -> None:
    settings = config(limits=LimitsTable(subscriptions_max=2))
    async with serving(settings) as server, connect(url_of(server)) as client:
        if server.shell.machine.config.subscriptions_max != 2:
            pytest.skip("the broker does not look at this setting")
        kept = [client.subscribe("n > 0"), client.subscribe("n > 1")]
        third = client.subscribe("n > 2")
        with pytest.raises(Refused, match="at most 2 subscriptions"):
            await third.ready()
        await kept[1].ready()


@in_loop
async def test_what_was_refused_is_raised_on_leaving_at_the_latest() -> None:
    async with serving() as server:

        async def leave(error: Exception | None) -> None:
            async with connect(url_of(server)) as client:
                await client.advertise("n present")
                await client.publish({"x": 1})
                if error is not None:
                    raise error

        with pytest.raises(Refused, match="no advertisement"):
            await leave(None)
        with pytest.raises(ZeroDivisionError):  # which went wrong first
            await leave(ZeroDivisionError())


# --- beginning and end ------------------------------------------------------------------------------


@in_loop
async def test_nobody_there() -> None:
    async with serving() as server:
        port = server.port
    url = f"roost://127.0.0.1:{port},localhost:{port}"
    said = f"127.0.0.1:{port}: Connection refused; localhost:{port}: Connection refused"
    with pytest.raises(ConnectError) as bad:
        async with asyncio.timeout(DEADLINE_S / 2), connect(url, timeout_s=DEADLINE_S):
            pass  # which is said at once
    assert str(bad.value) == f"{url}: {said}"
    assert isinstance(bad.value, ConnectionError)
    with pytest.raises(ConnectError) as bad:
        async with connect(url, timeout_s=0.3, wait=True):
            pass
    assert str(bad.value).endswith(f"can't connect within 0.3 s: {said}")


@in_loop
async def test_waiting_for_a_broker_that_is_started_later() -> None:
    async with serving() as server:
        port = server.port
    opening = asyncio.create_task(
        connect(f"roost://127.0.0.1:{port}", timeout_s=DEADLINE_S, wait=True).open()
    )
    await asyncio.sleep(0.1)
    async with serving(config(port=port)):
        client = await opening
        assert client.state == "connected"
        await client.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)"), "No route to host"),
        (gaierror(EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("Multiple exceptions: [Errno 111], [Errno 113]"), "Multiple exceptions: "),
    ],
)
def test_why_nobody_was_reached(error: OSError, said: str) -> None:
    """Numbers of those who look up names are others, and asyncio has errors without one."""
    assert dialling._words(error).startswith(said)


@in_loop
async def test_no_such_host() -> None:
    with pytest.raises(ConnectError, match="no-such-host"):
        async with connect("roost://no-such-host.invalid", timeout_s=0.3):
            pass


@in_loop
async def test_somebody_else_is_there() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    stranger = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = stranger.sockets[0].getsockname()[1]
    with pytest.raises(ConnectError, match="looks like an HTTP response"):
        async with asyncio.timeout(5.0), connect(f"roost://127.0.0.1:{port}"):
            pass
    stranger.close()
    await stranger.wait_closed()


@in_loop
async def test_the_broker_says_no(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    write_private(users, users_text({}).encode())
    settings = config(security=SecurityTable(enabled=True, users=str(users)))
    async with serving(settings) as server:
        with pytest.raises(ConnectError, match="nobody has logged in on this connection"):
            async with connect(url_of(server)):
                pass


@in_loop
async def test_use_before_and_after() -> None:
    client = connect("memory://")
    assert repr(client).endswith(" at memory://, new>")
    with pytest.raises(Closed, match="is not open; expected `async with"):
        await client.publish({"n": 1})
    async with client:
        subscription = client.subscribe("n > 0")
        await client.publish({"n": 1})
    assert client.state == "closed"
    for use in (
        client.publish({"n": 1}),
        client.flush(),
        client.advertise("*"),
        subscription.ready(),
    ):
        with pytest.raises(Closed):
            await use
    with pytest.raises(Closed):
        client.subscribe("*")
    # What had come can still be read.
    assert [event["n"] async for event in subscription] == [1]
    await client.close()
    with pytest.raises(Closed, match="opened before"):
        await client.open()


@in_loop
async def test_without_a_context() -> None:
    client = await connect("memory://")
    await client.publish({"n": 1})
    await client.close()
    assert client.state == "closed"


@both_kinds
@in_loop
async def test_leaving_leaves_nothing_behind(kind: Kind) -> None:
    async with broker(kind) as (url, shell):
        async with connect(url) as client:
            client.subscribe("n > 0")
            await client.publish({"n": 1})
            assert len(shell.machine.sessions) == 1
        await until(lambda: not shell.connections)
        machine = shell.broker
        assert not machine.sessions
        assert not machine.router.subscriptions
        assert not machine.router.advertisements


@in_loop
async def test_a_broker_in_memory_goes_with_its_last_client() -> None:
    async with connect("memory://a") as one, connect("memory://a"), connect("memory://b") as other:
        assert one._memory is not other._memory
        memory = one._memory
        assert MemoryBroker.of("a") is memory
    assert memory is not None
    assert memory.shell.over
    assert not MemoryBroker._brokers[asyncio.get_running_loop()]


@in_loop
async def test_cancelling_whoever_uses_a_client() -> None:
    async with serving() as server:

        async def work(client: Client) -> None:
            async with client:
                subscription = client.subscribe("n >= 0")
                for n in range(10**9):
                    await client.publish({"n": n})
                    await subscription.get()

        for delay in range(20):
            client = connect(url_of(server))
            task = asyncio.create_task(work(client))
            for _ in range(delay):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.state in ("new", "closed")
        await until(lambda: not connections_of(server))


@in_loop
async def test_leaving_a_broker_that_is_gone() -> None:
    async with serving() as server:
        client = await connect(url_of(server), timeout_s=0.2)
        await client.publish({"n": 1})
        await client.flush()
    await until(lambda: client.state == "connecting")
    await client.publish({"n": 2})
    with pytest.raises(NotInTime, match=r"1 events are not acknowledged after 0.2 s"):
        await client.close()
    assert client.state == "closed"
    await client.close()  # it has been said


@in_loop
async def test_leaving_with_an_error_does_not_wait_for_a_broker_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What went wrong first counts; the rest is in the log."""
    monkeypatch.setattr("roost.client.client.HASTE_S", 0.05)

    async def stumble(server: BrokerServer) -> None:
        async with asyncio.timeout(10.0), connect(url_of(server), timeout_s=DEADLINE_S) as client:
            for connection in server._open.values():
                connection.transport.pause_reading()
            await client.publish({"n": 1})
            raise LookupError

    async with serving() as server:
        with caplog.at_level(logging.WARNING, "roost.client"), pytest.raises(LookupError):
            await stumble(server)
    (record,) = caplog.records
    assert "1 events are not acknowledged after 0.05 s" in record.getMessage()


@in_loop
async def test_states_are_told() -> None:
    told: list[tuple[str, str]] = []
    async with (
        serving() as server,
        connect(url_of(server), on_state=lambda *what: told.append(what)) as client,
    ):
        cut(server)
        await until(lambda: len(told) >= 4)
        client.on_state = _fails  # which is logged, and does no harm
    assert [state for state, _ in told] == ["connecting", "connected", "connecting", "connected"]
    assert told[2][1]
    assert told[3][1] == "resumed"
    assert client.state == "closed"


def _fails(state: str, why: str) -> None:
    raise ZeroDivisionError(f"{state} {why}")


# --- the broker ends it -----------------------------------------------------------------------------


@in_loop
async def test_a_session_that_the_broker_ends() -> None:
    settings = config(session_outbox_max=500, session_outbox_policy="end")
    async with serving(settings) as server, connect(url_of(server)) as publisher:
        slow = await connect(url_of(server), buffer_max=10)
        subscription = slow.subscribe("n >= 0")
        await subscription.ready()
        payload = b"x" * 10_000
        for n in range(3_000):
            await publisher.publish({"n": n}, payload)
        await publisher.flush()
        seen = []

        async def read() -> None:
            while True:
                seen.append((await subscription.get())["n"])

        with pytest.raises(SessionOver, match="more than 500 deliveries were waiting") as over:
            await read()
        assert seen == list(range(len(seen)))
        assert over.value.where == slow.url
        assert slow.state == "failed"
        with pytest.raises(SessionOver):
            await slow.publish({"n": 1})
        await slow.close()


@in_loop
async def test_events_that_the_broker_drops() -> None:
    settings = config(session_outbox_max=500, session_outbox_policy="drop")
    async with (
        serving(settings) as server,
        connect(url_of(server)) as publisher,
        connect(url_of(server), buffer_max=10) as slow,
    ):
        subscription = slow.subscribe("n >= 0")
        await subscription.ready()
        payload = b"x" * 10_000
        for n in range(3_000):
            await publisher.publish({"n": n}, payload)
        await publisher.flush()
        seen = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            while not caught:
                seen.append((await subscription.get())["n"])
                if subscription.waiting == 0:
                    await publisher.publish({"n": 3_000 + len(seen)})
        assert caught[0].category is EventsDropped
        said = re.search(r"the broker dropped ([0-9,]+) events for ", str(caught[0].message))
        assert said is not None
        # It may have dropped more since then.
        assert 0 < int(said[1].replace(",", "")) <= slow.dropped_events
        assert seen == sorted(seen)
        assert len(seen) < 3_000


@in_loop
async def test_two_clients_in_one_loop_have_different_names() -> None:
    async with connect("memory://", name="desk") as one, connect("memory://", name="desk") as two:
        assert one.name != two.name
        mine, theirs = one.subscribe("n > 0"), two.subscribe("n > 0")
        await asyncio.gather(mine.ready(), theirs.ready())
        await one.publish({"n": 1})
        await two.publish({"n": 2})
        assert sorted(numbers(await take(mine, 2))) == [1, 2]
        assert sorted(numbers(await take(theirs, 2))) == [1, 2]
