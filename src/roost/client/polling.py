"""Queues that are polled, for subscribers that can't keep a connection (004 section II.B: mobile phones).

`open_queue` subscribes, and gives a *handle*: a text that says where the queue is, its name and what it is
for. Whoever has the handle polls: connects, takes what waits, and hangs up. What is taken is acknowledged
when it has been dealt with, so it comes again if the subscriber fails meanwhile.

A queue is a durable subscription. With a store it outlives the process of its server: what was accepted for
it is there when that is back, after a kill -9 too. A handle holds no secret but the name, which nobody
guesses; who may use it is the server's to say, as of any durable subscription.

>>> import asyncio, roost
>>> from roost.client import close_queue, open_queue, poll
>>> async def main():
...     async with roost.connect("memory://phones") as client:
...         handle = await open_queue("memory://phones", "speed < 5")
...         for speed in (3, 90, 4):
...             await client.publish({"speed": speed})
...         async with poll(handle) as events:
...             print([event["speed"] for event in events])
...         async with poll(handle, wait_s=0.1) as events:
...             print(events)
...         await close_queue(handle)
>>> asyncio.run(main())
[3, 4]
[]
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode

from roost.client.arguments import check_seconds, check_text, check_whole
from roost.client.connecting import connect
from roost.client.durable import DurableSubscription
from roost.client.errors import Closed, NotInTime
from roost.client.event import ReceivedEvent
from roost.client.url import BadUrl

# What waits comes right behind the greeting. When nothing has for so long, that was all.
QUIET_S = 0.1


async def open_queue(url: str, filter_: str, **options: Any) -> str:
    """A new queue of the events that match a filter, from now on: its handle.

    `options` are those of `connect`. The first server of the URL has the queue. A token that stands in the
    URL would be in the handle: pass it as an option instead.
    """
    check_text("url", url, optional=False)
    check_text("filter", filter_, optional=False)
    handle = f"{url}#{urlencode({'queue': secrets.token_urlsafe(12), 'filter': filter_})}"
    async with _opened(handle, options) as queue:
        await queue.ready()
    return handle


@asynccontextmanager
async def poll(
    handle: str, *, most: int = 1_000, wait_s: float = 1.0, **options: Any
) -> AsyncIterator[list[ReceivedEvent]]:
    """What waits in a queue, the oldest first, at most so many; if there is nothing, what comes in `wait_s`.

    Leaving the block acknowledges it all; an exception in it leaves all for the next poll. Closed says that
    there is no such queue any more, and that what was for it is lost.
    """
    check_whole("most", most, 1)
    check_seconds("wait_s", wait_s, optional=False)
    async with _opened(handle, options) as queue:
        if queue.is_new:
            await queue.forget()
            raise Closed(f"there is no queue {queue.name!r} any more; what was for it is lost")
        events: list[ReceivedEvent] = []
        patience_s = wait_s
        try:
            while len(events) < most:
                events.append(await queue.get(patience_s))
                patience_s = QUIET_S
        except NotInTime:
            pass
        yield events
        for event in events:
            await event.ack()


async def close_queue(handle: str, **options: Any) -> None:
    """End a queue for good, with what waits in it."""
    async with _opened(handle, options) as queue:
        await queue.forget()


@asynccontextmanager
async def _opened(handle: str, options: dict[str, Any]) -> AsyncIterator[DurableSubscription]:
    check_text("handle", handle, optional=False)
    url, _, rest = handle.partition("#")
    words = parse_qs(rest)
    if set(words) != {"queue", "filter"}:
        raise BadUrl(f"{handle[:80]!r} is no handle of a queue; expected what `open_queue` gave")
    (name,), (filter_,) = words["queue"], words["filter"]
    async with (
        connect(url, **options) as client,
        client.subscribe(filter_, durable=name) as queue,
    ):
        yield queue
