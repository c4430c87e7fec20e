"""The client without asyncio: the same from any thread."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from roost.broker.events import ClientRedirected
from roost.broker.names import Address
from roost.client import Closed, ConnectError, NotInTime, Refused, connect_sync
from roost.client.feeding import QUEUE_MAX, Feed
from roost.client.sync import LoopThread, SyncClient, SyncSubscription
from roost.language import LanguageError, Value
from roost.runtime.server import BrokerServer
from tests.client.support import DEADLINE_S, config, in_loop, linked, serving, until, url_of


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert LoopThread._running is None
    assert not [t for t in threading.enumerate() if t.name == "roost-client"]


@pytest.fixture
def server() -> Iterator[BrokerServer]:
    """A broker in a thread of its own."""
    started: list[BrokerServer] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving() as broker:
            started.append(broker)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(DEADLINE_S)
    yield started[0]
    over.set()
    thread.join()


def numbers(subscription: SyncSubscription, count: int) -> list[object]:
    return [subscription.get(DEADLINE_S / 2)["n"] for _ in range(count)]


def test_batches_as_arrow() -> None:
    with connect_sync("memory://") as client, client.subscribe("n >= 0") as subscription:
        subscription.ready()
        for n in range(5):
            client.publish({"n": n})
        client.flush()
        batches = subscription.batches(2, arrow=True)
        found: list[object] = []
        while len(found) < 5:
            batch = next(batches)
            assert 1 <= batch.num_rows <= 2
            found += batch.column("n").to_pylist()
        assert found == list(range(5))


def test_publishing_and_reading(server: BrokerServer) -> None:
    with connect_sync(url_of(server), name="desk") as client:
        assert client.name.startswith("desk~")
        assert client.url == url_of(server)
        with client.subscribe("n >= 0") as subscription:
            subscription.ready()
            ids = [client.publish({"n": n}, b"p", headers={"h": "v"}) for n in range(3_000)]
            client.flush()
            events = []
            for event in subscription:
                events.append(event)
                if len(events) == 3_000:
                    break
        assert [event["n"] for event in events] == list(range(3_000))
        assert [event.id for event in events] == ids
        assert (events[0].payload, events[0].headers) == (b"p", {"h": "v"})
    assert client.state == "closed"


@in_loop
async def test_how_long_it_paused_in_moves() -> None:
    async with linked() as (first, second):
        client = await asyncio.to_thread(connect_sync(url_of(first)).open)
        assert list(client.pauses_s) == []
        there = Address(f"127.0.0.1:{second.port}")
        first.shell.handle(ClientRedirected(client.name, there, "a test"))
        await until(lambda: len(client.pauses_s) == 1)
        assert client.pauses_s[0] >= 0
        await asyncio.to_thread(client.close)


def test_many_at_a_time(server: BrokerServer) -> None:
    with connect_sync(url_of(server)) as client:
        subscription = client.subscribe("n >= 0")
        subscription.ready()
        with pytest.raises(LanguageError):
            client.publish_many([{"n": 1}, {"n": None}])  # type: ignore[dict-item]
        client.publish({"n": 0})
        assert client.publish_many({"n": n} for n in range(1, 1_001)) == 1_000
        client.flush()
        got: list[object] = []
        for events in subscription.batches(100):
            assert len(events) <= 100
            got += [event["n"] for event in events]
            if len(got) == 1_001:
                break
        assert got == list(range(1_001))


def test_clients_of_a_process_meet_in_memory() -> None:
    with connect_sync("memory://x") as one, connect_sync("memory://x") as two:
        subscription = one.subscribe("n > 0")
        subscription.ready()
        two.publish({"n": 1})
        assert subscription.get(DEADLINE_S)["n"] == 1


def test_from_many_threads() -> None:
    with connect_sync("memory://") as client:
        subscription = client.subscribe("n >= 0")

        def publish(start: int) -> list[str]:
            return [client.publish({"n": n}) for n in range(start, start + 500)]

        with ThreadPoolExecutor(8) as pool:
            reading = [pool.submit(numbers, subscription, 500) for _ in range(4)]
            ids = list(pool.map(publish, range(0, 2_000, 500)))
            got = [n for each in reading for n in each.result()]
        assert sorted(got) == list(range(2_000))  # type: ignore[type-var]
        assert len({id_ for each in ids for id_ in each}) == 2_000


def test_errors_are_raised_where_they_were_made() -> None:
    with connect_sync("memory://") as client:
        with pytest.raises(LanguageError, match="null is not a value"):
            client.publish({"n": None})  # type: ignore[dict-item]
        with pytest.raises(LanguageError):
            client.subscribe("n >")
        with pytest.raises(ValueError, match="buffer_max"):
            client.subscribe("n > 0", buffer_max=0)
        with pytest.raises(TypeError, match="only a durable subscription"):
            client.subscribe("n > 0").forget()


def test_refusals_come_with_the_next() -> None:
    with connect_sync("memory://") as client:
        advertised = client.advertise("n present")
        assert advertised.filter == "n present"
        client.publish({"x": 1})
        with pytest.raises(Refused, match="no advertisement of this client covers it"):
            client.flush()
        client.flush()
        subscription = client.subscribe("n > 0")
        client.publish({"x": 2})
        client.publish({"n": 3})
        assert subscription.get(DEADLINE_S)["n"] == 3
        with pytest.raises(Refused):
            client.flush()
        advertised.withdraw()
        client.publish({"n": 4})
        with pytest.raises(Refused):
            client.close()


def test_time_and_ends() -> None:
    client = connect_sync("memory://")
    with pytest.raises(Closed, match=r"expected `with roost.connect_sync"):
        client.publish({"n": 1})
    with client:
        subscription = client.subscribe("n > 0")
        with pytest.raises(NotInTime, match=r"no event for 'n > 0' within 0.01 s"):
            subscription.get(0.01)
        client.publish({"n": 1})
        assert subscription.get()["n"] == 1
        subscription.close()
        assert list(subscription) == []
        with pytest.raises(Closed):
            subscription.get()
    client.close()
    with pytest.raises(Closed):
        client.flush()


def test_what_was_fetched_and_not_read_goes_with_its_subscription() -> None:
    with connect_sync("memory://") as client:
        subscription = client.subscribe("n >= 0")
        client.publish_many({"n": n} for n in range(10))
        client.flush()
        assert next(subscription)["n"] == 0
        assert subscription._events
        subscription.close()
        assert list(subscription) == []
        with pytest.raises(Closed):
            subscription.get()


def test_nobody_there() -> None:
    with pytest.raises(ConnectError), connect_sync("roost://127.0.0.1:9", timeout_s=0.1):
        pass


def test_durable(server: BrokerServer) -> None:
    with connect_sync(url_of(server)) as client:
        with client.subscribe("n >= 0", durable="d") as subscription:
            subscription.ready()  # it has a connection of its own
            for n in range(5):
                client.publish({"n": n})
            events = [subscription.get(DEADLINE_S) for _ in range(3)]
            events[0].ack()
            events[1].ack()
        with client.subscribe("n >= 0", durable="d", auto_ack=True) as subscription:
            assert numbers(subscription, 2) == [2, 3]
        with client.subscribe("n >= 0", durable="d") as subscription:
            assert numbers(subscription, 2) == [3, 4]
            subscription.forget()
        with client.subscribe("n >= 0", durable="d") as subscription:
            subscription.ready()
            with pytest.raises(NotInTime):
                subscription.get(0.02)


def test_a_fast_publisher_waits(server: BrokerServer) -> None:
    with connect_sync(url_of(server), pending_max=100) as client:
        for n in range(3 * QUEUE_MAX):
            client.publish({"n": n})
            assert len(client._feed.queue) <= QUEUE_MAX
        client.flush()
        assert client._client._line is not None
        assert client._client._line.machine.accepted == 3 * QUEUE_MAX


@in_loop
async def test_whoever_waits_for_a_queue_may_be_ahead_of_what_empties_it() -> None:
    published: list[int] = []

    async def publish(item: int) -> None:
        published.append(item)

    feed = Feed(publish)
    for item in (1, 2):
        feed.put(item, asyncio.get_running_loop())
    await feed.until_drained()
    assert published == [1, 2]


def test_waiting_for_itself_is_refused() -> None:
    seen: list[str] = []

    def on_state(state: str, _: str) -> None:
        if state == "connected":
            try:
                client.flush()
            except RuntimeError as error:
                seen.append(str(error))

    client = connect_sync("memory://", on_state=on_state)
    with client:
        pass
    assert seen == ["on_state can't wait for the client that calls it"]


def without_its_broker(**options: Any) -> SyncClient:
    """A client whose broker has gone."""
    clients: list[SyncClient] = []

    async def serve() -> None:
        async with serving(config()) as broker:
            client = connect_sync(url_of(broker), timeout_s=0.2, **options)
            clients.append(await asyncio.to_thread(client.open))

    asyncio.run(serve())
    return clients[0]


def test_a_broker_that_is_gone() -> None:
    client = without_its_broker()
    client.publish({"n": 1})
    with pytest.raises(NotInTime, match=r"events are not acknowledged after 0.2 s"):
        client.close()


def test_what_waits_for_room_is_not_acknowledged_either() -> None:
    client = without_its_broker(pending_max=10)
    for n in range(15):
        client.publish({"n": n})
    assert client.unacknowledged == 15
    with pytest.raises(NotInTime):
        client.close()


def stalled(client: SyncClient, *events: dict[str, Value]) -> None:
    """A broker that reads nothing for the time being, and events that wait for it."""
    line = client._client._line
    assert line is not None
    assert line.connection is not None
    client._live().loop.call_soon_threadsafe(line.connection.pause_writing)
    client.publish_many(events)


def test_what_was_not_sent_is_counted_on_leaving() -> None:
    client = connect_sync("memory://").open()
    stalled(client, {"n": 1}, {"n": 2})
    with pytest.raises(NotInTime, match=r"2 events were not sent after 0.1 s"):
        client.close(0.1)


def test_a_refusal_is_told_rather_than_what_was_not_sent() -> None:
    client = connect_sync("memory://").open()
    client.advertise("n present")
    client.publish({"x": 1})
    publishing = client._client._live_publishing()
    client._live().run(until(lambda: publishing._refusal))
    stalled(client, {"n": 1}, {"n": 2})
    with pytest.raises(Refused, match="no advertisement of this client covers it"):
        client.close(0.1)


def test_ctrl_c_ends_the_wait() -> None:
    program = """
        import roost
        with roost.connect_sync("memory://") as client:
            subscription = client.subscribe("n > 0")
            try:
                print("waiting", flush=True)
                for event in subscription:
                    pass
            except KeyboardInterrupt:
                client.publish({"n": 1})
                print("got", subscription.get(30)["n"])
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background may have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "got 1\n"
        assert process.wait(DEADLINE_S) == 0
