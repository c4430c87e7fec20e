"""Links of real processes are moved under load; brokers join, leave, and are killed (002 section 4.1)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import roost
from roost.client.client import Client
from roost.errors import UserError
from roost.runtime import broker_process, federation, growing
from roost.runtime.admin_client import ask
from roost.runtime.federation import Federation, Member

BROKERS = ("B0", "B1", "B2", "B3", "B4")
LINKS = (("B0", "B1"), ("B1", "B2"), ("B1", "B3"), ("B3", "B4"))
PATIENCE_S = 60.0


@pytest.fixture
def five(tmp_path: Path) -> Iterator[Federation]:
    yield federation.start(tmp_path / "state", BROKERS, LINKS, durable=True)
    federation.end(tmp_path / "state")


class Crowd:
    """A client at each broker that publishes all the time, and gets what all others publish."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self._clients = clients
        self.published: dict[str, int] = dict.fromkeys(clients, 0)
        self.got: dict[str, dict[str, list[int]]] = {name: {} for name in clients}
        self.gap_s = 0.0  # the longest time without an event, anywhere
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        for name, client in self._clients.items():
            await client.advertise(f"class = 'load' and n >= 0 and at = '{name}'")
        for name, client in self._clients.items():
            subscription = client.subscribe("class = 'load'")
            await subscription.ready()
            self._tasks.append(asyncio.create_task(self._reading(name, subscription)))
        self._tasks += [asyncio.create_task(self._publishing(name)) for name in self._clients]

    async def _publishing(self, name: str) -> None:
        while not self._over:
            self.published[name] += 1
            n = self.published[name]
            await self._clients[name].publish({"class": "load", "at": name, "n": n})
            await asyncio.sleep(0.01)

    async def _reading(self, name: str, subscription: Any) -> None:
        last = time.monotonic()
        async for event in subscription:
            now = time.monotonic()
            if not self._over:
                self.gap_s, last = max(self.gap_s, now - last), now
            self.got[name].setdefault(str(event["at"]), []).append(int(event["n"]))

    async def end(self) -> None:
        """When all has arrived, or nothing more comes."""
        self._over = True
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not self.complete():
            await asyncio.sleep(0.05)
        for task in self._tasks:
            task.cancel()

    def complete(self) -> bool:
        return all(
            len(self.got[name].get(other, ())) >= count
            for name in self.got
            for other, count in self.published.items()
        )

    def check(self) -> None:
        """Each got all of each, once and in order."""
        for name, by_publisher in self.got.items():
            for other, count in self.published.items():
                assert by_publisher.get(other, []) == list(range(1, count + 1)), (name, other)


def tree_of(there: Federation) -> dict[str, list[str]]:
    """Who is a neighbour of whom, as the brokers say."""
    return {
        m.name: sorted(ask(m.admin_url, "/status")["links"]) for m in there.members if m.process
    }


def check_tree(tree: dict[str, list[str]]) -> None:
    edges = {frozenset((a, b)) for a, found in tree.items() for b in found}
    assert len(edges) == len(tree) - 1
    assert all(a in tree[b] for a, found in tree.items() for b in found)


def any_rewiring(tree: dict[str, list[str]], draws: random.Random) -> tuple[str, str, str]:
    middle = draws.choice([name for name, found in sorted(tree.items()) if len(found) > 1])
    mover, anchor = draws.sample(tree[middle], 2)
    return middle, mover, anchor


async def connected(there: Federation) -> dict[str, Client]:
    return {m.name: await roost.connect(f"roost://{m.address}") for m in there.members}


async def closed(clients: dict[str, Client]) -> None:
    for client in clients.values():
        await client.close()


@pytest.mark.parametrize("rewirings", [12, pytest.param(50, marks=pytest.mark.long)])
def test_links_move_under_load(five: Federation, rewirings: int) -> None:
    urls = {member.name: member.admin_url for member in five.members}

    async def scenario() -> float:
        clients = await connected(five)
        crowd = Crowd(clients)
        await crowd.begin()
        draws = random.Random(7)
        tree = tree_of(five)
        for _ in range(rewirings):
            middle, mover, anchor = any_rewiring(tree, draws)
            await asyncio.to_thread(growing.move, urls[middle], mover, anchor)
            tree[middle].remove(mover)
            tree[mover].remove(middle)
            for a, b in ((mover, anchor), (anchor, mover)):
                tree[a] = sorted([*tree[a], b])
        await crowd.end()
        await closed(clients)
        crowd.check()
        assert tree_of(five) == tree
        check_tree(tree)
        assert sum(crowd.published.values()) > 5 * rewirings
        return crowd.gap_s

    print(f"longest time without an event: {asyncio.run(scenario()):.3f} s")  # pytest -rP shows it


def killed_and_back(state: Path, member: Member) -> None:
    """kill -9, and the same settings again."""
    assert member.process is not None
    os.kill(member.process.pid, signal.SIGKILL)
    config, log = state / member.config, state / member.log
    process = broker_process.start(config.absolute(), log.absolute())
    record = federation.read(state)
    assert record is not None
    members = tuple(
        replace(m, process=process) if m.name == member.name else m for m in record.members
    )
    federation.write_record(state, replace(record, members=members))


def test_brokers_that_are_killed_come_back_with_their_new_links(
    five: Federation, tmp_path: Path
) -> None:
    """B0 was a neighbour of B1 by its settings, and is one of B2 since."""
    members = {member.name: member for member in five.members}

    async def scenario() -> None:
        clients = await connected(five)
        crowd = Crowd(clients)
        await crowd.begin()
        await asyncio.to_thread(growing.move, members["B1"].admin_url, "B0", "B2")
        for name in ("B0", "B2", "B1"):
            await asyncio.to_thread(killed_and_back, tmp_path / "state", members[name])
            await asyncio.sleep(1.5)
        await crowd.end()
        await closed(clients)
        crowd.check()

    asyncio.run(scenario())
    moved = {"B0": ["B2"], "B1": ["B2", "B3"], "B2": ["B0", "B1"], "B3": ["B1", "B4"], "B4": ["B3"]}
    assert tree_of(five) == moved


def test_a_broker_joins_and_another_leaves_under_load(five: Federation, tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def scenario() -> None:
        stays = [m for m in five.members if m.name != "B1"]
        clients = {m.name: await roost.connect(f"roost://{m.address}") for m in stays}
        (leaving,) = (m for m in five.members if m.name == "B1")
        clients["B1"] = await roost.connect(f"roost://{leaving.address}")
        crowd = Crowd(clients)
        await crowd.begin()
        await asyncio.to_thread(growing.join, state, "B9", "B2")
        await asyncio.to_thread(growing.leave, state, "B1", print)
        await crowd.end()
        await closed(clients)
        crowd.check()

    asyncio.run(scenario())
    left = federation.read(state)
    assert left is not None
    assert sorted(m.name for m in left.members) == ["B0", "B2", "B3", "B4", "B9"]
    check_tree(tree_of(left))


def test_what_can_not_be_done_is_said(five: Federation, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pytest.raises(UserError, match="there is a broker 'B2' already"):
        growing.join(state, "B2", "B0")
    with pytest.raises(UserError, match="there is no broker 'B8'"):
        growing.join(state, "B9", "B8")
    with pytest.raises(UserError, match="there is no broker 'B8'"):
        growing.leave(state, "B8", print)
    urls = {member.name: member.admin_url for member in five.members}
    for path, body, why in (
        ("/links/move", {"mover": "B4", "anchor": "B0"}, "B4 is no neighbour of B1"),
        ("/links/add", {"broker": "B0"}, "B0 is a neighbour of B1 already"),
        ("/links/add", {"broker": "B8", "address": "nowhere"}, "no address"),
        ("/links/remove", {"broker": "B8"}, "B8 is no neighbour of B1"),
        ("/links/turn", {}, "expected /links/add"),
    ):
        with pytest.raises(UserError, match=why):
            ask(urls["B1"], path, body)
