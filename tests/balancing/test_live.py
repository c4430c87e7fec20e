"""Load balancing in a live cluster, by declared bandwidth: subscribers spread, one joins, one is emptied.

Real sockets and real clients, and brokers with the settings of `roost broker`. All of it in one process, so
that processor times say nothing of a single broker: what differs is what each sends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.broker.events import LinkAdded
from roost.client import Client
from roost.runtime import federation
from roost.runtime.admin_client import ask
from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.runtime.tables import (
    AdminTable,
    BrokerTable,
    LinksTable,
    OptimisersTable,
    ServerConfig,
)
from tests.cli.support import Roost, make_roost

HOST, HEAD = "127.0.0.1", "B0"
# What each edge-broker may send: shares of 1, 1 and 2.
MBPS = {"B1": 0.2, "B2": 0.2, "B3": 0.4}
SYMBOLS = ("AAA", "BBB", "CCC", "DDD", "EEE", "FFF")
SUBSCRIBERS = 24
EVERY_S = 0.012
PATIENCE_S = 60.0
# In a hurry, and without what one process can't tell apart.
SETTINGS = {
    "local_pie_period_s": 0.5,
    "press_samples": 60,
    "press_timeout_s": 1.5,
    "local_detection_min_s": 0.3,
    "local_detection_max_s": 0.6,
    "stabilise_s": 1.0,
    "stable_window_s": 2.0,
    "stabilise_percentage": 0.2,
    "local_ratio_threshold": 0.15,
    "local_delay_threshold": 1000.0,
    "global_ratio_threshold": 0.2,
    "global_delay_threshold": 1000.0,
    "migration_timeout_s": 1.0,
    "back_off_s": 1.0,
    "back_off_max_s": 2.0,
}
ORDER = " ".join(["acting", *(f"{key}={value}" for key, value in SETTINGS.items())])


class Cluster:
    """A head, and edge-brokers that dial it."""

    def __init__(self) -> None:
        self.servers: dict[str, BrokerServer] = {}

    async def begin(self) -> None:
        await self._start("B0", dict.fromkeys(MBPS, ""))
        for name, mbps in MBPS.items():
            await self._start(name, self._head(), mbps)
        await until(
            lambda: all(link["up"] for link in self.servers["B0"].status()["links"].values())
        )

    async def join(self, name: str, mbps: float) -> None:
        self.servers["B0"].shell.handle(LinkAdded(name, dial=False))
        await self._start(name, self._head(), mbps)

    def _head(self) -> dict[str, str]:
        return {"B0": f"{HOST}:{self.servers['B0'].port}"}

    async def _start(self, name: str, neighbours: dict[str, str], mbps: float = 0.0) -> None:
        modules = {"balancing": ORDER}
        config = ServerConfig(
            broker=BrokerTable(name=name, port=0, bandwidth_mbps=mbps),
            links=LinksTable(neighbours=neighbours),
            admin=AdminTable(port=0),
            optimisers=OptimisersTable(modules=modules, rest_s=0.2),
        )
        self.servers[name] = await start_server(config)

    async def end(self) -> None:
        for server in self.servers.values():
            await server.stop()

    def placed(self) -> Counter[str]:
        """How many subscribers each broker has."""
        return Counter(
            name
            for name, server in self.servers.items()
            for session in server.shell.machine.sessions.values()
            if session.subscriptions
        )

    def outputs(self) -> dict[str, float]:
        loads = {name: server.shell.machine.load for name, server in self.servers.items()}
        return {
            name: load.output_utilisation
            for name, load in loads.items()
            if load is not None and name != "B0"
        }

    def is_even(self, *brokers: str) -> bool:
        found = [ratio for name, ratio in self.outputs().items() if name in brokers]
        return (
            len(found) == len(brokers)
            and max(found) - min(found) < SETTINGS["local_ratio_threshold"]
        )

    def options(self) -> list[str]:
        """For a command to ask them."""
        admins = [server.admin for server in self.servers.values() if server.admin is not None]
        return [word for admin in admins for word in ("--admin", f"http://{HOST}:{admin.port}")]


class Audience:
    """Publishers at the head, subscribers at one edge-broker, and what came."""

    def __init__(self, publisher: Client) -> None:
        self._publisher = publisher
        self.published: Counter[str] = Counter()
        self.got: dict[int, list[int]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._over = False

    async def add(self, client: Client, number: int) -> None:
        symbol = SYMBOLS[number % len(SYMBOLS)]
        subscription = client.subscribe(f"class = 'STOCK' and symbol = '{symbol}'")
        await subscription.ready()
        self._tasks.append(asyncio.create_task(self._reading(number, subscription)))

    async def _reading(self, number: int, subscription: Any) -> None:
        got = self.got.setdefault(number, [])
        while events := await subscription.batch():
            got += [int(event["n"]) for event in events]

    async def begin(self) -> None:
        await self._publisher.advertise("class = 'STOCK' and n > 0")
        self._tasks.append(asyncio.create_task(self._publishing()))

    async def _publishing(self) -> None:
        while not self._over:
            for symbol in SYMBOLS:
                self.published[symbol] += 1
                n = self.published[symbol]
                await self._publisher.publish({"class": "STOCK", "symbol": symbol, "n": n})
                await asyncio.sleep(EVERY_S)

    async def end(self) -> None:
        """When all has arrived: each had all of its symbol, once and in order."""
        self._over = True
        await asyncio.sleep(0.1)

        def complete() -> bool:
            return all(
                len(got) >= self.published[SYMBOLS[number % len(SYMBOLS)]]
                for number, got in self.got.items()
            )

        await until(complete)
        for task in self._tasks:
            task.cancel()
        for number, got in self.got.items():
            count = self.published[SYMBOLS[number % len(SYMBOLS)]]
            assert got == list(range(1, count + 1)), number


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def crowded() -> AsyncIterator[tuple[Cluster, Audience]]:
    """All subscribers at B1, and traffic."""
    cluster = Cluster()
    try:
        await cluster.begin()
        async with AsyncExitStack() as stack:

            async def connected(broker: str) -> Client:
                port = cluster.servers[broker].port
                return await stack.enter_async_context(roost.connect(f"roost://{HOST}:{port}"))

            audience = Audience(await connected("B0"))
            for number in range(SUBSCRIBERS):
                await audience.add(await connected("B1"), number)
            await audience.begin()
            yield cluster, audience
            await audience.end()
    finally:
        await cluster.end()


def run(scenario: Callable[[Cluster, Audience], Awaitable[None]]) -> None:
    async def main() -> None:
        async with crowded() as (cluster, audience):
            await scenario(cluster, audience)

    asyncio.run(main())


@pytest.fixture
def roost_(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Roost:
    return make_roost(capsys, monkeypatch)


def test_subscribers_spread_a_broker_joins_and_one_is_emptied(roost_: Roost) -> None:
    async def scenario(cluster: Cluster, _: Audience) -> None:
        await until(lambda: cluster.placed()["B1"] < SUBSCRIBERS / 2 and cluster.is_even(*MBPS))
        # A fourth edge-broker, as strong as the strongest, gets its share.
        await cluster.join("B4", 0.4)
        await until(lambda: cluster.placed()["B4"] >= 3 and cluster.is_even("B1", "B2", "B3", "B4"))
        # And one is emptied under load.
        ran = await asyncio.to_thread(roost_, "drain", "B3", "--json", *cluster.options())
        assert (ran.code, ran.json["may_stop"], ran.json["clients"]) == (0, True, 0)
        assert cluster.placed()["B3"] == 0
        ran = await asyncio.to_thread(roost_, "drain", "B3", "--cancel", *cluster.options())
        assert (ran.code, ran.out) == (0, "B3: it takes clients again\n")
        assert cluster.placed().total() == SUBSCRIBERS

    run(scenario)


# --- processes ----------------------------------------------------------------------------------------


EACH_MBPS = 0.25


@pytest.mark.long
def test_five_processes_and_a_sixth(tmp_path: Path) -> None:
    """`roost up peer:1x4 --optimise balancing`, all subscribers at one of the four (figures: -rP)."""
    state = tmp_path / "state"

    def roost_(*words: str) -> Any:
        command = [sys.executable, "-m", "roost", *words, "--state", str(state)]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(ran.stdout) if "--json" in words else ran.stdout

    def found() -> dict[str, tuple[int, float]]:
        """Of each edge-broker: its clients, and its output ratio."""
        there = federation.read(state)
        assert there is not None
        said = {m.name: ask(m.admin_url, "/status") for m in there.members if m.name != HEAD}
        return {
            name: (int(each["sessions"]), float((each["load"] or {}).get("output_utilisation", 0)))
            for name, each in said.items()
        }

    def is_even(now: dict[str, tuple[int, float]], *brokers: str) -> bool:
        outputs = [now[name][1] for name in brokers]
        return max(outputs) - min(outputs) < SETTINGS["local_ratio_threshold"]

    async def until_found(holds: Callable[[dict[str, tuple[int, float]]], bool]) -> None:
        async with asyncio.timeout(2 * PATIENCE_S):
            while not holds(now := await asyncio.to_thread(found)):
                await asyncio.sleep(0.5)
            print(now)

    order = f"balancing={ORDER}"
    roost_("up", "peer:1x4", "--module", order, "--bandwidth", str(EACH_MBPS))
    try:
        there = federation.read(state)
        assert there is not None
        addresses = {m.name: f"roost://{m.address}" for m in there.members}
        edges = [name for name in addresses if name != HEAD]

        async def work() -> None:
            async with AsyncExitStack() as stack:

                async def connected(broker: str) -> Client:
                    return await stack.enter_async_context(roost.connect(addresses[broker]))

                audience = Audience(await connected(HEAD))
                for number in range(SUBSCRIBERS):
                    await audience.add(await connected(edges[0]), number)
                await audience.begin()
                await until_found(
                    lambda now: now[edges[0]][0] < SUBSCRIBERS / 2 and is_even(now, *edges)
                )
                await asyncio.to_thread(roost_, "join", "B5", "--to", HEAD)
                await until_found(lambda now: now["B5"][0] >= 2 and is_even(now, *edges, "B5"))
                said = await asyncio.to_thread(roost_, "drain", edges[1], "--json")
                assert (said["may_stop"], said["clients"]) == (True, 0)
                await audience.end()

        asyncio.run(work())
    finally:
        federation.end(state)
