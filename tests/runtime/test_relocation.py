"""Relocation in a live federation: observing says what it would do, acting does it; settings that won't do.

Real sockets, real clients; `POST /module` is how an operator has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.built_in import BUILT_IN, MODULES
from roost.client import Client
from roost.errors import UserError
from roost.runtime.admin_client import AdminError, ask
from roost.runtime.config import read_config
from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, RelocationTable, ServerConfig

HOST = "127.0.0.1"
SESSION = 20
ALL_OFF = dict.fromkeys(BUILT_IN[MODULES], "off")
# The publisher begins at one end, and its subscribers are at the other.
CHAIN = ("B0", "B1", "B2", "B3", "B4")
FILTER = "class = 'STOCK'"
PATIENCE_S = 20.0


@asynccontextmanager
async def chain(relocation: RelocationTable) -> AsyncIterator[dict[str, BrokerServer]]:
    """Each dials the one before it."""
    servers: dict[str, BrokerServer] = {}
    try:
        for number, name in enumerate(CHAIN):
            neighbours = dict.fromkeys(CHAIN[number + 1 : number + 2], "")
            if number:
                before = CHAIN[number - 1]
                neighbours[before] = f"{HOST}:{servers[before].port}"
            config = ServerConfig(
                broker=BrokerTable(name=name, port=0),
                links=LinksTable(neighbours=neighbours),
                admin=AdminTable(port=0),
                relocation=relocation,
            )
            servers[name] = await start_server(config)
        await until(
            lambda: all(
                link["up"] for s in servers.values() for link in s.status()["links"].values()
            )
        )
        yield servers
    finally:
        for server in servers.values():
            await server.stop()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.005)


async def told(server: BrokerServer, path: str, body: object = None) -> dict[str, Any]:
    assert server.admin is not None
    return await asyncio.to_thread(ask, f"http://{HOST}:{server.admin.port}", path, body)


async def decided(servers: dict[str, BrokerServer]) -> list[dict[str, Any]]:
    """All decisions, as operators get them."""
    answers = [await told(server, "/decisions") for server in servers.values()]
    found = [
        {"broker": answer["broker"], **decision}
        for answer in answers
        for decision in answer["decisions"]
    ]
    return sorted(found, key=lambda decision: float(decision["time"]))


def place(servers: dict[str, BrokerServer], client: Client) -> str:
    """The broker that a publisher's advertisement is at."""
    (here,) = (
        name
        for name, server in servers.items()
        for session in server.shell.machine.sessions.values()
        if session.client == client.name and session.advertisements and session.connection
    )
    return here


class Traffic:
    """A publisher and two subscribers, and what came."""

    def __init__(self, publisher: Client) -> None:
        self.publisher = publisher
        self.published = 0
        self.got: dict[str, list[int]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def read(self, client: Client) -> None:
        got = self.got.setdefault(client.name, [])
        subscription = client.subscribe(FILTER)
        await subscription.ready()
        self._tasks.append(asyncio.create_task(self._reading(subscription, got)))

    async def _reading(self, subscription: Any, got: list[int]) -> None:
        while events := await subscription.batch():
            got += [int(event["n"]) for event in events]

    async def publish(self, sessions: int) -> None:
        """So many trace sessions of events."""
        for _ in range(sessions * SESSION):
            self.published += 1
            await self.publisher.publish({"class": "STOCK", "n": self.published})
            await asyncio.sleep(0.001)

    async def arrived(self) -> None:
        await until(lambda: all(len(got) >= self.published for got in self.got.values()))
        for got in self.got.values():
            assert got == list(range(1, self.published + 1))


@asynccontextmanager
async def traffic(servers: dict[str, BrokerServer]) -> AsyncIterator[Traffic]:
    async with AsyncExitStack() as stack:

        async def client(broker: str, name: str) -> Client:
            url = f"roost://{HOST}:{servers[broker].port}"
            return await stack.enter_async_context(roost.connect(url, name=name))

        flow = Traffic(await client("B0", "feed"))
        await flow.publisher.advertise(FILTER)
        for broker in ("B3", "B4"):
            await flow.read(await client(broker, "desk"))
        yield flow


def test_observing_moves_nobody_and_acting_does() -> None:
    async def work() -> None:
        # Every session counts: the publisher is done before it would have rested.
        observing = RelocationTable(
            mode="observing", priority="load", session=SESSION, session_rest_s=0.0
        )
        async with chain(observing) as servers, traffic(servers) as flow:
            await flow.publish(3)
            await flow.arrived()
            await until(lambda: len(servers["B0"].optimisers.decisions) >= 2)
            found = await decided(servers)
            assert {(x["kind"], x["acted"], x["subject"]) for x in found} == {
                ("move", False, flow.publisher.name)
            }
            one = found[-1]
            assert one["choice"] in ("B3", "B4")
            assert one["evidence"]["worth"]["pays"]
            assert one["predicted"]["load_per_s"] < one["evidence"]["present"]["load_per_s"] / 2
            assert place(servers, flow.publisher) == "B0"

            for server in servers.values():
                answer = await told(server, "/module", {"module": "grape", "state": "acting"})
                assert answer["modules"] == ALL_OFF | {"grape": "acting"}
            await flow.publish(2)
            await until(lambda: place(servers, flow.publisher) == one["choice"])
            await flow.publish(3)
            await flow.arrived()
            found = await decided(servers)
            assert [x["choice"] for x in found if x["acted"] and x["kind"] == "move"] == [
                one["choice"]
            ]
            # What came of it is said where the publisher is now.
            assert ("outcome", one["choice"]) in [(x["kind"], x["broker"]) for x in found]

    asyncio.run(work())


def test_two_may_act_together() -> None:
    """Under the arbiter: neither undoes the other's work."""

    async def work() -> None:
        async with chain(RelocationTable()) as servers:
            server = servers["B0"]
            assert server.status()["modules"] == ALL_OFF
            for module, states in (
                ("pop", ALL_OFF | {"pop": "acting"}),
                ("grape", ALL_OFF | {"grape": "acting", "pop": "acting"}),
            ):
                answer = await told(server, "/module", {"module": module, "state": "acting"})
                assert answer["modules"] == states
            with pytest.raises(
                AdminError, match="there is no module 'magic'; expected grape or pop"
            ):
                await told(server, "/module", {"module": "magic", "state": "acting"})

    asyncio.run(work())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('mode = "on"', 'mode is "on"; expected "acting" or "observing" or "off"'),
        ('algorithm = "magic"', 'algorithm is "magic"; expected "both" or "grape" or "pop"'),
        ('priority = "cost"', 'priority is "cost"; expected "delay" or "load"'),
        ("weight = 101", "weight is 101"),
        ("session = 0", "session is 0"),
        ("horizon_s = 0", "horizon_s is 0"),
        ("share_min = 1.5", "share_min is 1.5"),
        ('mood = "acting"', "mood"),
    ],
)
def test_bad_settings_are_one_message(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "roost.toml"
    path.write_text(f"[relocation]\n{line}\n")
    with pytest.raises(UserError) as refused:
        read_config(path)
    assert str(refused.value).startswith(f"{path}:2: [relocation] ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
