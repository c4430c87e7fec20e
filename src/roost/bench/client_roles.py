"""Who publishes and who subscribes in the benchmark of the client library, each as a process of its own.

Run as a script, with the library that PYTHONPATH says, which may be an older one: nothing of Roost is used
but what applications use, and what only newer ones have only where it is what is measured. Orders come by
standard input, a line each, and reports go out by standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvloop

import roost

# Events are numbered within a round of so many, by their volume: a batch of columns is one.
ROUND = 4_096
SYMBOLS = 100
# The numbers of as many events, from any of them on, as come in a batch.
NUMBERS = list(range(ROUND)) * 2
# Nothing more will come when nothing has for so long; or, behind the last one, for so long.
QUIET_S = 5.0
REST_S = 0.2


def event(number: int) -> dict[str, Any]:
    """One of a round."""
    return {
        "class": "STOCK",
        "symbol": f"S{number % SYMBOLS}",
        "price": number + 0.5,
        "volume": number,
    }


def say(report: Any) -> None:
    print(json.dumps(report), flush=True)


async def hear() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


async def publish(url: str, scenario: str, rounds: int) -> None:
    """A round to warm up, and when told to, the others."""
    events = [event(number) for number in range(ROUND)]
    columns: Any = None
    if scenario == "arrow":
        import pyarrow as pa  # noqa: PLC0415 (an older library is measured without)

        columns = pa.RecordBatch.from_pylist(events)

    async def one_round() -> None:
        if scenario == "single":
            for each in events:
                await client.publish(each)
        else:
            await client.publish_many(events if columns is None else columns)

    async with roost.connect(url) as client:
        await client.advertise("class = 'STOCK' and symbol present and price > 0 and volume >= 0")
        await one_round()
        await client.flush()
        await hear()
        began, cpu_s = time.monotonic(), time.process_time()
        for _ in range(rounds):
            await one_round()
        await client.flush()
        cpu_s = time.process_time() - cpu_s
        say({"began": began, "seconds": time.monotonic() - began, "cpu_s": cpu_s})


class Tally:
    """What has come, by the numbers of the events."""

    def __init__(self) -> None:
        self.received = 0
        self.reordered = 0

    def came(self, volumes: list[Any]) -> None:
        first = self.received % ROUND
        if volumes != NUMBERS[first : first + len(volumes)]:
            self.reordered += 1
        self.received += len(volumes)


async def _volumes(subscription: roost.Subscription, scenario: str) -> AsyncIterator[list[Any]]:
    if scenario == "arrow":
        async for batch in subscription.batches(arrow=True):
            yield batch.column("volume").to_numpy()
    else:
        async for events in subscription.batches():
            yield [each["volume"] for each in events]


async def subscribe(url: str, scenario: str, rounds: int) -> None:
    """Until all has come, or nothing does any more."""
    tally = Tally()
    wanted = (1 + rounds) * ROUND
    began: list[float] = []
    last = [0.0, 0.0]

    def look() -> None:
        if tally.received >= ROUND and not began:
            began.append(time.process_time())
            say("warm")
        if tally.received >= wanted and not last[0]:
            last[:] = time.monotonic(), time.process_time()

    async def by_batches() -> None:
        numbers = None
        if scenario == "arrow":
            import numpy as np  # noqa: PLC0415 (an older library is measured without)

            numbers = np.array(NUMBERS)
        async for volumes in _volumes(subscription, scenario):
            if numbers is None:
                tally.came(volumes)
            else:
                first = tally.received % ROUND
                tally.reordered += bool(
                    (volumes != numbers[first : first + len(volumes)]).any()  # type: ignore[attr-defined]
                )
                tally.received += len(volumes)
            look()

    async def one_by_one() -> None:
        # The loop that an application would have, and no more.
        received = 0
        async for each in subscription:
            if each["volume"] != received % ROUND:
                tally.reordered += 1
            received += 1
            if not received % ROUND:
                tally.received = received
                look()
            elif received > wanted:
                tally.received = received

    async with roost.connect(url) as client:
        subscription = client.subscribe("class = 'STOCK' and volume >= 0")
        await subscription.ready()
        say("ready")
        reading = asyncio.create_task(one_by_one() if scenario == "single" else by_batches())
        before, quiet_s = -1, 0.0
        while tally.received < wanted and quiet_s < QUIET_S and not reading.done():
            await asyncio.sleep(REST_S)
            quiet_s = 0.0 if tally.received > before else quiet_s + REST_S
            before = tally.received
        await asyncio.sleep(REST_S)  # for what may come a second time
        reading.cancel()
        await asyncio.wait((reading,))
        if not reading.cancelled() and reading.exception() is not None:
            print(reading.exception(), file=sys.stderr)
    say(
        {
            "ended": last[0],
            "cpu_s": last[1] - began[0] if last[0] and began else 0.0,
            "received": tally.received - ROUND,
            "reordered": tally.reordered,
        }
    )


if __name__ == "__main__":
    role, where, what, count = sys.argv[1:]
    uvloop.run({"publish": publish, "subscribe": subscribe}[role](where, what, int(count)))
