"""A publisher of a chaos run: numbered events at a rate, if they are taken; from an outbox, or plainly.

An outbox goes on where the process before this one has come to. When its broker was restored from a backup it
has to go back: the next event is refused, or its session is over, and it is opened anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import roost
from roost.bench.chaos.interests import attributes_of
from roost.bench.chaos.oracle import MARK_EVERY
from roost.bench.chaos.player import PATIENCE_S, Order, Say
from roost.client import Client, Outbox, Refused, SessionOver

REPORT_S = 0.1
# Of events that are on their way: so that all that was published goes through the faults, not after them.
PENDING_MAX = 4_000
# A pause that a fault made is made up for, up to so much.
BEHIND_S = 5.0


async def publish(order: Order, keepalive_s: float, say: Say, end: asyncio.Event) -> None:
    filter_ = f"class = '{order.class_}'"
    while True:
        async with roost.connect(
            order.url,
            timeout_s=PATIENCE_S,
            wait=True,
            keepalive_s=keepalive_s,
            pending_max=PENDING_MAX,
        ) as client:
            if order.how == "outbox":
                try:
                    async with client.outbox(order.name, advertise=filter_) as outbox:
                        await _from_outbox(order, outbox, say, end)
                except (SessionOver, Refused) as error:
                    say("failed", order.name, str(error))
                    continue
            else:
                if order.how == "advertised":
                    await client.advertise(filter_)
                await _plainly(order, client, say, end)
            return


async def _from_outbox(order: Order, outbox: Outbox, say: Say, end: asyncio.Event) -> None:
    async def publish(number: int) -> None:
        await outbox.publish(
            number,
            attributes_of(order.name, order.class_, number),
            payload=bytes(order.payload_bytes),
        )

    async with _reported(order.name, lambda: outbox.accepted, say):
        await _at_its_rate(order, outbox.last, publish, say, end)
        await outbox.flush(PATIENCE_S)


async def _plainly(order: Order, client: Client, say: Say, end: asyncio.Event) -> None:
    published = 0

    async def publish(number: int) -> None:
        nonlocal published
        await client.publish(
            attributes_of(order.name, order.class_, number), payload=bytes(order.payload_bytes)
        )
        published = number

    async with _reported(order.name, lambda: published - client.unacknowledged, say):
        await _at_its_rate(order, 0, publish, say, end)
        await client.flush(PATIENCE_S)


async def _at_its_rate(
    order: Order,
    last: int,
    publish: Callable[[int], Awaitable[None]],
    say: Say,
    end: asyncio.Event,
) -> None:
    number, due = last, time.monotonic()
    while not end.is_set() and not (order.events and number >= order.events):
        number += 1
        due = max(due + 1 / order.rate, time.monotonic() - BEHIND_S)
        if (number - last) % MARK_EVERY == 1:
            say("published", order.name, number, time.monotonic())
        await publish(number)
        ahead_s = due - time.monotonic()
        if ahead_s > 0.01:
            await asyncio.sleep(ahead_s)


class _reported:  # noqa: N801  # used like a function
    """Meanwhile it is said how far the broker has acknowledged; and at the end, how far in all."""

    def __init__(self, name: str, acked: Callable[[], int], say: Say) -> None:
        self._name = name
        self._acked = acked
        self._say = say
        self._said = 0

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._again_and_again())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self._report()

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            self._report()

    def _report(self) -> None:
        acked = self._acked()
        if acked > self._said:
            self._said = acked
            self._say("acked", self._name, acked)
