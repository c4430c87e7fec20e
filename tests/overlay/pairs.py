"""Traffic between far leaves of a live federation: who talks to whom, and what has arrived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import roost
from roost.client.client import Client

PATIENCE_S = 60.0


def far_pairs(brokers: int) -> list[tuple[str, str]]:
    """The leaves of `tree:N`, whose brokers stand row by row, each with one on the other side of the root."""
    leaves = [f"B{n}" for n in range((brokers - 1) // 2, brokers)]
    half = len(leaves) // 2
    return [*zip(leaves[:half], leaves[half:], strict=True)]


class Talk:
    """Both of each pair publish all the time, and get what the other publishes."""

    def __init__(self, urls: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> None:
        self._urls = urls
        self._hears = {**dict(pairs), **{b: a for a, b in pairs}}
        self._clients: dict[str, Client] = {}
        self.published = dict.fromkeys(self._hears, 0)
        self.got: dict[str, list[int]] = {name: [] for name in self._hears}
        self._tasks: list[asyncio.Task[None]] = []
        self._over = False

    async def begin(self, gap_s: float) -> None:
        for name in self._hears:
            self._clients[name] = await roost.connect(self._urls[name])
            await self._clients[name].advertise(f"class = 'talk' and of = '{name}'")
        for name, other in self._hears.items():
            subscription = self._clients[name].subscribe(f"class = 'talk' and of = '{other}'")
            await subscription.ready()
            self._tasks.append(asyncio.create_task(self._reading(name, subscription)))
        self._tasks += [asyncio.create_task(self._publishing(name, gap_s)) for name in self._hears]

    async def _reading(self, name: str, subscription: Any) -> None:
        async for event in subscription:
            self.got[name].append(int(event["n"]))

    async def _publishing(self, name: str, gap_s: float) -> None:
        while not self._over:
            self.published[name] += 1
            n = self.published[name]
            await self._clients[name].publish({"class": "talk", "of": name, "n": n})
            await asyncio.sleep(gap_s)

    async def end(self) -> None:
        """When all has arrived: each got all that its other published, once and in order."""
        self._over = True
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not self._complete():
            await asyncio.sleep(0.05)
        for task in self._tasks:
            task.cancel()
        for client in self._clients.values():
            await client.close()
        for name, other in self._hears.items():
            assert self.got[name] == list(range(1, self.published[other] + 1)), (name, other)

    def _complete(self) -> bool:
        return all(len(self.got[n]) >= self.published[o] for n, o in self._hears.items())

    @property
    def events(self) -> int:
        return sum(self.published.values())
