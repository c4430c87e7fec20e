"""A subscriber of a chaos run: says what comes, acknowledges it, and finds out whether that was heard.

What has come is said before it is acknowledged, so that the oracle knows all that the broker may know. The
broker has heard of an acknowledgement for certain when it has answered a question that was asked behind it,
and `ready` is such a question: a durable broker answers when what it has heard is on its disk. But one that
has begun the session anew, as it was restored from a backup, knows nothing of what was acknowledged before
(`Handled`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import roost
from roost.bench.chaos.player import PATIENCE_S, Order, Say
from roost.client import (
    Client,
    DurableEvent,
    DurableSubscription,
    NotInTime,
    ReceivedEvent,
    SessionOver,
    State,
    Subscription,
)

# How often it is asked whether acknowledgements were heard.
CONFIRM_S = 1.0


async def subscribe(order: Order, keepalive_s: float, say: Say, end: asyncio.Event) -> None:
    began_anew = asyncio.Event()

    def on_state(state: State, why: str) -> None:
        if state == "connected" and why != "resumed":
            began_anew.set()

    if order.do == "hoard":
        await _hoard(order, keepalive_s, say)
        await end.wait()
        end.clear()
    while not end.is_set():
        say("life", order.name)
        client = roost.connect(
            order.url, timeout_s=PATIENCE_S, wait=True, keepalive_s=keepalive_s, on_state=on_state
        )
        try:
            async with client:
                await _read(order, client, say, end, began_anew)
        except SessionOver as error:
            say("failed", order.name, str(error))


async def _hoard(order: Order, keepalive_s: float, say: Say) -> None:
    """What is for it waits at its broker from now on."""
    say("life", order.name)
    async with (
        roost.connect(
            order.url, timeout_s=PATIENCE_S, wait=True, keepalive_s=keepalive_s
        ) as client,
        client.subscribe(order.interest.text, durable=order.name) as subscription,
    ):
        # In a later process, more may wait already than a client holds that does not read; and so it is
        # no matter of readiness any more.
        if subscription.is_new:
            await _ready(subscription)
            say("ready", order.name, time.monotonic())


async def _read(
    order: Order, client: Client, say: Say, end: asyncio.Event, began_anew: asyncio.Event
) -> None:
    handled = Handled()
    if order.is_durable:
        subscription: Subscription = client.subscribe(order.interest.text, durable=order.name)
        watch = _confirmed(order.name, subscription, say, handled)
    else:
        began_anew.clear()
        subscription = client.subscribe(order.interest.text)
        watch = _ready_again(order.name, subscription, say, began_anew)
    async with subscription:
        reading = asyncio.create_task(_came(order.name, subscription, say, handled))
        watching = asyncio.create_task(watch)
        ending = asyncio.create_task(end.wait())
        tasks = (reading, watching, ending)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                say("ended", order.name)
                if isinstance(subscription, DurableSubscription):
                    await subscription.forget()
                return
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


class Handled:
    """The last number of each publisher that was acknowledged since the last look, in this session."""

    def __init__(self) -> None:
        self._life = 0
        self._numbers: dict[str, int] = {}

    def add(self, life: int, publisher: str, number: int) -> None:
        """Of an event of that life: it counts for nothing if the session has begun anew since."""
        self._go_on(life)
        if life == self._life:
            self._numbers[publisher] = number

    def take(self, life: int) -> dict[str, int]:
        """What there is of this life of the session; from now on, what comes behind that."""
        self._go_on(life)
        numbers, self._numbers = self._numbers, {}
        return numbers

    def _go_on(self, life: int) -> None:
        if life > self._life:
            self._life = life
            self._numbers.clear()


async def _came(name: str, subscription: Subscription, say: Say, handled: Handled) -> None:
    while events := await subscription.batch():
        say("came", name, _numbers(events))
        for event in events:
            await event.ack()
            if isinstance(event, DurableEvent):
                handled.add(event.life, *_known(event))


def _numbers(events: Sequence[ReceivedEvent]) -> dict[str, list[int]]:
    """By publisher, in the order in which they came."""
    numbers: dict[str, list[int]] = {}
    for event in events:
        publisher, number = _known(event)
        numbers.setdefault(publisher, []).append(number)
    return numbers


def _known(event: ReceivedEvent) -> tuple[str, int]:
    """What the oracle knows it by."""
    return str(event["publisher"]), int(event["number"])


async def _ready(subscription: Subscription) -> None:
    while True:
        with contextlib.suppress(NotInTime):  # some broker can't be reached: it goes on
            await subscription.ready()
            return


async def _confirmed(name: str, subscription: Subscription, say: Say, handled: Handled) -> None:
    assert isinstance(subscription, DurableSubscription)
    await _ready(subscription)
    say("ready", name, time.monotonic())
    session = subscription._session
    while True:
        await asyncio.sleep(CONFIRM_S)
        asked_at, life = time.monotonic(), session.life
        numbers = handled.take(life)
        # All that was said to have come was acknowledged in the same turn; it goes out ahead of the question.
        session._say_reached()
        session.line.say_acks()
        await _ready(subscription)
        at = time.monotonic()
        if session.life == life:
            say("confirmed", name, asked_at, numbers, at)
        else:
            say("ready", name, at)


async def _ready_again(
    name: str, subscription: Subscription, say: Say, began_anew: asyncio.Event
) -> None:
    """A broker that was restored has forgotten the session, and the client has begun another one."""
    while True:
        await _ready(subscription)
        say("ready", name, time.monotonic())
        await began_anew.wait()
        began_anew.clear()
