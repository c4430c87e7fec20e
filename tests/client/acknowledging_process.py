"""A process that reads a durable subscription and acknowledges: for kill -9.

    python -m tests.client.acknowledging_process URL (async|sync) COUNT (first|odd)

It takes 2 x COUNT events and acknowledges the first COUNT, or the odd ones, the last of them first. It says
so when the delay of acknowledgements is over, so that the broker has been told, and then waits for its end.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress

import roost
from roost.client import NotInTime
from roost.client.line import ACK_DELAY_S

FILTER = "n >= 0"
NAME = "readers"
PATIENCE_S = 60.0


async def read(url: str, count: int, which: slice) -> None:
    async with roost.connect(url) as client, client.subscribe(FILTER, durable=NAME) as subscription:
        events = [await subscription.get(PATIENCE_S) for _ in range(2 * count)]
        for event in events[which]:
            await event.ack()
        # Timers of a loop fire in the order in which they are due.
        await asyncio.sleep(2 * ACK_DELAY_S)
        print("acknowledged", flush=True)
        await asyncio.Event().wait()


def read_without_asyncio(url: str, count: int, which: slice) -> None:
    with (
        roost.connect_sync(url) as client,
        client.subscribe(FILTER, durable=NAME) as subscription,
    ):
        events = [subscription.get(PATIENCE_S) for _ in range(2 * count)]
        for event in events[which]:
            event.ack()
        with suppress(NotInTime):
            subscription.get(2 * ACK_DELAY_S)  # in the loop of another thread, the same
        print("acknowledged", flush=True)
        threading.Event().wait()


def main(url: str, how: str, count: str, which: str) -> None:
    chosen = slice(int(count)) if which == "first" else slice(None, None, -2)
    if how == "sync":
        read_without_asyncio(url, int(count), chosen)
    else:
        asyncio.run(read(url, int(count), chosen))


if __name__ == "__main__":
    main(*sys.argv[1:])
