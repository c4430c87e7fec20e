"""What durable subscriptions tell of events besides what is in them: numbers, lives, what was dropped."""

from __future__ import annotations

import pytest

from roost.client import EventsDropped, Subscription, connect, connect_sync
from roost.client.event import DurableEvent, SyncEvent
from tests.client.support import DEADLINE_S, in_loop, serving, take, url_of

FILTER = "n >= 0"


async def take_durable(subscription: Subscription, count: int) -> list[DurableEvent]:
    events = await take(subscription, count)
    found = [event for event in events if isinstance(event, DurableEvent)]
    assert found == events
    return found


@in_loop
async def test_an_event_keeps_its_number_when_it_comes_again() -> None:
    async with connect("memory://") as client:
        await client.advertise("n present")
        async with client.subscribe(FILTER, durable="d") as subscription:
            await subscription.ready()
            for n in range(3):
                await client.publish({"n": n})
            events = await take_durable(subscription, 3)
            assert [event.number for event in events] == [1, 2, 3]
            assert [event.life for event in events] == [0, 0, 0]
            await events[0].ack()
        async with client.subscribe(FILTER, durable="d") as subscription:
            again = await take_durable(subscription, 2)
            assert [(event["n"], event.number, event.life) for event in again] == [
                (1, 2, 0),
                (2, 3, 0),
            ]
            await subscription.forget()


@in_loop
async def test_numbers_begin_again_in_another_life() -> None:
    """The broker has forgotten the session; an acknowledgement of what came before is of no use."""
    async with (
        serving() as server,
        connect(url_of(server)) as client,
        client.subscribe(FILTER, durable="d") as subscription,
    ):
        await subscription.ready()
        await client.publish({"n": 0})
        (before,) = await take_durable(subscription, 1)
        session = subscription._session
        session._attached(False)
        session._handed(before._publication, (), 1)
        (after,) = await take_durable(subscription, 1)
        assert (before.number, before.life) == (1, 0)
        assert (after.number, after.life) == (1, 1)
        await before.ack()
        assert session._acks.reached == 0
        await after.ack()
        assert session._acks.reached == 1


@in_loop
async def test_what_was_dropped_is_warned_of_in_its_place() -> None:
    async with connect("memory://") as client:
        await client.advertise("n present")
        async with client.subscribe(FILTER, durable="d") as subscription:
            await subscription.ready()
            subscription._session._dropped(7)
            await client.publish({"n": 0})
            with pytest.warns(EventsDropped, match="dropped 7 events"):
                (event,) = await take(subscription, 1)
            assert event["n"] == 0


def test_the_same_without_asyncio() -> None:
    with connect_sync("memory://") as client:
        with client.subscribe(FILTER, durable="d") as subscription:
            subscription.ready()
            for n in range(5):
                client.publish({"n": n})
            client.flush()
            assert client.unacknowledged == 0
            events: list[SyncEvent] = []
            while len(events) < 5:
                events += subscription.batch(2, timeout_s=DEADLINE_S / 2)
            assert [(event["n"], event.number, event.life) for event in events] == [
                (n, n + 1, 0) for n in range(5)
            ]
            subscription.ack(events[:3])
        with client.subscribe(FILTER, durable="d") as subscription:
            again = [subscription.get(DEADLINE_S / 2) for _ in range(2)]
            assert [(event["n"], event.number) for event in again] == [(3, 4), (4, 5)]
            subscription.forget()
        with client.subscribe(FILTER) as subscription:
            client.publish({"n": 9})
            event = subscription.get(DEADLINE_S / 2)
            assert (event.number, event.life) == (0, 0)  # of no durable subscription
            event.ack()
            subscription.ack([event])


def test_batches_are_no_larger_than_asked_for() -> None:
    with connect_sync("memory://") as client, client.subscribe(FILTER) as subscription:
        for n in range(5):
            client.publish({"n": n})
        client.flush()
        sizes: list[int] = []
        got: list[SyncEvent] = []
        while len(got) < 5:
            batch = subscription.batch(2, timeout_s=DEADLINE_S / 2)
            sizes.append(len(batch))
            got += batch
        assert max(sizes) <= 2
        assert [event["n"] for event in got] == list(range(5))
