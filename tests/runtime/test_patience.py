"""Publishers that are faster than a subscriber are slowed down (`roost.broker.patience`)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import roost
from roost.runtime import federation

# Four times what a broker keeps for a client.
EVENTS = 400_000
PUBLISHER = """
import asyncio, sys
import pyarrow
import roost
async def main(url, count):
    step = 10_000
    async with roost.connect(url) as client:
        await client.advertise("number >= 0")
        for first in range(0, count, step):
            numbers = pyarrow.array(range(first, first + step))
            await client.publish_many(pyarrow.record_batch({"number": numbers}))
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("names", [["B1"], ["B1", "B2"]], ids=["one broker", "two brokers"])
def test_a_subscriber_slower_than_its_publisher_gets_everything(
    tmp_path: Path, names: list[str]
) -> None:
    """Before, its session ended: "more than 100,000 deliveries were waiting"."""

    async def read(url: str, publisher_url: str) -> list[int]:
        numbers: list[int] = []
        async with roost.connect(url) as client:
            subscription = client.subscribe("number >= 0")
            await subscription.ready()
            command = (sys.executable, "-c", PUBLISHER, publisher_url, str(EVENTS))
            publisher = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
            async for event in subscription:
                numbers.append(int(event["number"]))
                if len(numbers) % 1_000 == 0:
                    await asyncio.sleep(0.002)  # it has other things to do
                if len(numbers) == EVENTS:
                    break
            _, said = await publisher.communicate()
            assert publisher.returncode == 0, said.decode()
        return numbers

    running = federation.start(tmp_path / "state", names, list(pairwise(names)))
    try:
        urls = [f"roost://{member.address}" for member in running.members]
        numbers = asyncio.run(asyncio.wait_for(read(urls[-1], urls[0]), 120.0))
    finally:
        federation.end(tmp_path / "state")
    assert numbers == list(range(EVENTS))
