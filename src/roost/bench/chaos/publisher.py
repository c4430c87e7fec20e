"""A process of a chaos run: publishes numbered events at a rate, if they are taken, until told to stop.

    python -m roost.bench.chaos.publisher URL EVENTS_PER_S

Says on a line of its own, as JSON, how many it has published and how many were acknowledged; and once more
when all were.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

import roost

CLASS = "CHAOS"
PAYLOAD = b"\0" * 100
# For a broker that is down: longer than any fault lasts.
PATIENCE_S = 120.0
REPORT_EVERY = 1_000
# Of events that are on their way: so that all that was published goes through the faults, not after them.
PENDING_MAX = 4_000


def watch_input(stop: asyncio.Event) -> None:
    """Whoever started us closes our input when it is enough."""
    loop = asyncio.get_running_loop()

    def watch() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(stop.set)

    # Nobody waits for it: an error should end us at once.
    threading.Thread(target=watch, daemon=True).start()


def report(published: int, acknowledged: int, *, done: bool = False) -> None:
    said = {"published": published, "acknowledged": acknowledged, "done": done}
    print(json.dumps(said), flush=True)


async def main(url: str, events_per_s: float) -> None:
    stop = asyncio.Event()
    watch_input(stop)
    async with roost.connect(url, timeout_s=PATIENCE_S, pending_max=PENDING_MAX) as client:
        await client.advertise(f"class = '{CLASS}'")
        number, began = 0, time.monotonic()
        while not stop.is_set():
            # A pause that a fault made is made up for.
            ahead_s = number / events_per_s - (time.monotonic() - began)
            if ahead_s > 0.01:
                await asyncio.sleep(ahead_s)
            number += 1
            await client.publish({"class": CLASS, "number": number}, payload=PAYLOAD)
            if number % REPORT_EVERY == 0:
                report(number, number - client.unacknowledged)
        await client.flush(PATIENCE_S)
        report(number, number - client.unacknowledged, done=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
