"""Outboxes of real processes that are killed, at a broker that is killed: each event comes once, in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import roost
from roost.client import Client
from roost.runtime.child_broker import ChildBroker
from tests.client.outbox_process import OUTBOX, PATIENCE_S
from tests.client.support import DEADLINE_S

ROOT = Path(__file__).parents[2]
FOR_EVER = 10**9
EVERYTHING = "number present"


class Publisher:
    """A process that publishes, as those see it who start and kill it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[int] = []  # up to where all was accepted

    @classmethod
    async def start(cls, url: str, first: str, last: int) -> Publisher:
        command = (sys.executable, "-m", "tests.client.outbox_process", url, first, str(last))
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, cwd=ROOT, start_new_session=True
            )
        )

    async def until_it_has_said(self, lines: int) -> None:
        assert self._process.stdout is not None
        while len(self.said) < lines:
            line = await self._process.stdout.readline()
            assert line, f"it ended, and had said {self.said}"
            self.said.append(int(line))

    async def kill(self) -> None:
        self._process.kill()
        await self.end()
        assert self._process.returncode == -signal.SIGKILL

    async def end(self) -> None:
        """Until it has ended; what it had left to say counts, too."""
        assert self._process.stdout is not None
        # The last line may have been cut off in the middle.
        *lines, _ = (await self._process.stdout.read()).split(b"\n")
        self.said += map(int, lines)
        await self._process.wait()


class Broker:
    """A broker with a store, which comes back at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child = self._start(0)
        self.url = f"roost://127.0.0.1:{self._child.port}"

    def _start(self, port: int) -> ChildBroker:
        table = {"port": port, "data": str(self._folder / "data")}
        return ChildBroker(self._folder, {"broker": table})

    def kill_and_restart(self) -> None:
        os.kill(self._child.pid, signal.SIGKILL)
        self._child.stop()
        self._child = self._start(self._child.port)

    def stop(self) -> None:
        self._child.stop()


@contextmanager
def broker_at(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    try:
        yield broker
    finally:
        broker.stop()


async def read(client: Client, got: list[int], last: int) -> None:
    """Read up to this number, and no further; with a memory of its own for what it has seen."""
    async with client.subscribe(EVERYTHING, durable="reader") as subscription:
        await subscription.ready()
        while not got or got[-1] != last:
            event = await subscription.get()
            got.append(int(event["number"]))
            await event.ack()


def test_each_event_comes_once_and_in_order(tmp_path: Path) -> None:
    with broker_at(tmp_path) as broker:
        asyncio.run(asyncio.wait_for(play(broker, Random(1)), 2 * DEADLINE_S))


async def play(broker: Broker, random: Random) -> None:
    got: list[int] = [0]
    acknowledged = 0  # what a process was told is safe
    async with roost.connect(broker.url, timeout_s=PATIENCE_S) as client:
        await read(client, got, 0)
        for turn in range(5):
            publisher = await Publisher.start(broker.url, "1" if turn == 2 else "next", FOR_EVER)
            await publisher.until_it_has_said(random.randint(2, 12))
            if turn in (1, 3):
                await asyncio.to_thread(broker.kill_and_restart)
                await publisher.until_it_has_said(len(publisher.said) + random.randint(1, 4))
            await publisher.kill()
            assert acknowledged <= publisher.said[0] <= publisher.said[-1]
            acknowledged = publisher.said[-1]
            await read(client, got, acknowledged)
            assert got == list(range(acknowledged + 1))
        outbox = client.outbox(OUTBOX)
        last = await outbox.open() + 100
        await outbox.close()
        publisher = await Publisher.start(broker.url, "next", last)
        await publisher.end()
        assert publisher.said[-1] == last
        await read(client, got, last)
        assert got == list(range(last + 1))
        async with client.subscribe(EVERYTHING, durable="reader") as subscription:
            await subscription.ready()
            assert not subscription.waiting
