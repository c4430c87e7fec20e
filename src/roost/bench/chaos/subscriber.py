"""A process of a chaos run: a durable subscription, whose events are counted and acknowledged one by one.

    python -m roost.bench.chaos.subscriber URL NAME

Says on a line of its own, as JSON, that it is ready, and then now and then what it has counted.
"""

from __future__ import annotations

import asyncio
import json
import sys

import roost
from roost.bench.chaos.publisher import CLASS, PATIENCE_S
from roost.bench.chaos.tally import Tally

REPORT_S = 0.1


def report(tally: Tally, *, ready: bool) -> None:
    said = {
        "ready": ready,
        "received": tally.received,
        "doubled": tally.doubled,
        "reordered": tally.reordered,
    }
    print(json.dumps(said), flush=True)


async def main(url: str, name: str) -> None:
    tally = Tally()

    async def report_again_and_again() -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            report(tally, ready=True)

    async with (
        roost.connect(url, timeout_s=PATIENCE_S) as client,
        client.subscribe(f"class = '{CLASS}'", durable=name) as subscription,
    ):
        await subscription.ready()
        report(tally, ready=True)
        reporting = asyncio.create_task(report_again_and_again())
        try:
            async for event in subscription:
                number = event["number"]
                assert isinstance(number, int)
                tally.came(number)
                await event.ack()
        finally:
            reporting.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
