"""A process that publishes the numbers from 1 on, as a log that nobody ever empties: for kill -9.

    python -m tests.client.outbox_process URL FIRST LAST

FIRST is `next`, to go on where the last one was, or a number, to hand in again what was published before. It
says on a line of its own how far it was when it began, and then now and then up to where all is accepted.
"""

from __future__ import annotations

import asyncio
import sys

import roost

OUTBOX = "numbers"
PATIENCE_S = 60.0
REPORT_EVERY = 16


async def main(url: str, first: str, last: str) -> None:
    # Little on its way, so that a kill comes in the middle of it, and a crash of the broker too.
    pending_max = 4 * REPORT_EVERY
    patient = roost.connect(url, timeout_s=PATIENCE_S, wait=True, pending_max=pending_max)
    async with patient as client:
        outbox = client.outbox(OUTBOX, advertise="number present")
        print(await outbox.open(), flush=True)
        for number in range(outbox.last + 1 if first == "next" else int(first), int(last) + 1):
            is_new = await outbox.publish(number, {"number": number})
            if is_new and number % REPORT_EVERY == 0:
                print(outbox.accepted, flush=True)
        await outbox.flush()
        print(outbox.accepted, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
