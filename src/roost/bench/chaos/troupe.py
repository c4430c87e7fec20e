"""The processes in which clients of a chaos run live (`player`), from outside: told, killed, heard.

One that was killed is started again, and those of its clients go on that outlive a process: outboxes and
durable subscriptions. Plain publishers begin as others, with another name; plain subscribers are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import msgspec

from roost.bench.chaos import player
from roost.bench.chaos.oracle import Oracle
from roost.bench.chaos.player import Order

LINE_BYTES_MAX = 1 << 22


class Host:
    """One process, and its successors."""

    def __init__(self, name: str, oracle: Oracle, keepalive_s: float) -> None:
        self.name = name
        self.kills = 0
        self.orders: dict[
            str, tuple[Order, str]
        ] = {}  # of those who live here, and at which broker
        self._oracle = oracle
        self._keepalive_s = keepalive_s
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            player.__name__,
            str(self._keepalive_s),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        self._hearing = asyncio.create_task(self._hear(process))

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def has_died(self) -> bool:
        """Of its own accord."""
        return self._process is not None and self._process.returncode is not None

    def order(self, order: Order, broker: str) -> None:
        """Another client."""
        known = self._oracle.publishers if order.do == "publish" else self._oracle.subscribers
        if order.name not in known:
            if order.do == "publish":
                self._oracle.publisher(order.name, broker, order.class_)
            else:
                self._oracle.subscriber(order.name, broker, order.interest)
        self.orders[order.name] = (order, broker)
        self._tell(order)

    def end(self, name: str) -> None:
        """That client is to end."""
        self._tell(Order("end", name))

    def release(self, name: str) -> None:
        """That client is to hoard no longer; nor is the one in the next process, if there is none now."""
        order, broker = self.orders[name]
        self.orders[name] = (msgspec.structs.replace(order, do="subscribe"), broker)
        if self.runs:
            self.end(name)

    def _tell(self, order: Order) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")

    async def kill(self) -> None:
        """At once. All that it has said is heard."""
        self.kills += 1
        await self._stop()
        for name, (order, _) in list(self.orders.items()):
            if not _outlives(order):
                self._oracle.gone(name)

    async def start_again(self) -> None:
        await self.start()
        orders, self.orders = self.orders, {}
        for name, (order, broker) in orders.items():
            if _outlives(order):
                self.order(order, broker)
            elif order.do == "publish" and not order.events:
                anew = f"{name.partition('#')[0]}#{self.kills}"
                self.order(msgspec.structs.replace(order, name=anew), broker)

    async def _stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            assert self._hearing is not None
            await self._hearing

    close = _stop

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if not line.endswith(b"\n"):
                return  # it was killed in the middle of a word
            what, name, *said = msgspec.json.decode(line)
            if what == "ended":
                self.orders.pop(name, None)
            self._oracle.hear(what, name, *said)


def _outlives(order: Order) -> bool:
    return order.how == "outbox" if order.do == "publish" else order.is_durable
