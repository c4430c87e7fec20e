"""A witness, as a process: of two nodes that lose sight of each other one goes on, whichever asks first."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.runtime.child_broker import ChildBroker
from roost.runtime.child_pair import HOST, ChildNode, ChildPair, until
from roost.runtime.federation import free_ports


class Watched:
    """A pair, and the witness of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "witness"
        self._folder.mkdir()
        self._address = f"{HOST}:{free_ports(1)[0]}"
        self._witness: ChildBroker | None = None
        self.witness_comes()
        self.pair = ChildPair(folder, standby={"alone": True, "witness": self._address})

    def witness_comes(self) -> None:
        standby = {"witness_for": self._address}
        settings = {"broker": {"name": "W", "data": "data"}, "standby": standby}
        self._witness = ChildBroker(self._folder, settings)

    def witness_goes(self) -> None:
        assert self._witness is not None
        self._witness.kill()

    def stop(self) -> None:
        self.pair.stop()
        self.witness_goes()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.stop()


async def published(pair: ChildPair, number: int) -> None:
    async with roost.connect(pair.url, timeout_s=60, wait=True) as client:
        await client.publish({"class": "A", "n": number})
        await client.flush()


async def kept(pair: ChildPair, many: int) -> list[Any]:
    async with (
        roost.connect(pair.url, timeout_s=60, wait=True) as client,
        client.subscribe("class = 'A'", durable="keeper") as subscription,
    ):
        await subscription.ready()
        return [(await subscription.get())["n"] for _ in range(many)]


def goes_on_alone(node: ChildNode) -> None:
    until(lambda: node.pair().get("alone"), "it to go on alone")


def test_whoever_is_left_goes_on_if_the_witness_agrees(watched: Watched) -> None:
    pair = watched.pair
    leader, other = pair.joined()
    asyncio.run(kept(pair, 0))
    # The standby dies: the leader goes on, and what it says then the other does not have.
    other.running.kill()
    goes_on_alone(leader)
    asyncio.run(published(pair, 0))
    other.start()
    assert pair.joined() == (leader, other)
    # The leader is stopped: the standby goes on. The old one has nothing to say when it wakes up.
    leader.running.signal(signal.SIGSTOP)
    until(lambda: other.has_role("leader"), "a take-over")
    asyncio.run(published(pair, 1))
    leader.running.signal(signal.SIGCONT)
    assert pair.joined() == (other, leader)
    # It dies with its disk's last word given to the other: that one goes on, too.
    other.running.kill()
    until(lambda: leader.has_role("leader"), "a take-over")
    asyncio.run(published(pair, 2))
    assert asyncio.run(kept(pair, 3)) == [0, 1, 2]


@pytest.mark.long
@pytest.mark.parametrize("fails", ["leader", "standby"])
def test_without_the_witness_nobody_goes_on_alone(watched: Watched, fails: str) -> None:
    """Not even the one that led: the other may have been given the next epoch."""
    pair = watched.pair
    leader, other = pair.joined()
    asyncio.run(kept(pair, 0))
    asyncio.run(published(pair, 0))
    watched.witness_goes()
    gone, left = (leader, other) if fails == "leader" else (other, leader)
    gone.running.kill()
    trouble = until(lambda: left.pair().get("trouble"), "what it knows")
    assert "witness" in trouble
    until(lambda: left.ask("/health").get("ok") is False, "it to be ill")
    assert left.pair()["role"] == "waiting"
    # The witness is back, and agrees.
    watched.witness_comes()
    until(lambda: left.has_role("leader"), "it to go on")
    asyncio.run(published(pair, 1))
    gone.start()
    assert pair.joined() == (left, gone)
    assert asyncio.run(kept(pair, 2)) == [0, 1]


@pytest.mark.long
def test_who_was_alone_and_died_is_not_replaced_by_who_knows_less(watched: Watched) -> None:
    """The witness has given the epoch in which that was said; the other hears so, and waits."""
    pair = watched.pair
    leader, other = pair.joined()
    asyncio.run(kept(pair, 0))
    other.running.kill()
    goes_on_alone(leader)
    asyncio.run(published(pair, 0))
    leader.running.kill()
    other.start()
    until(lambda: "knows more" in other.pair().get("trouble", ""), "what it knows")
    assert other.pair()["role"] == "waiting"
    leader.start()
    assert pair.joined() == (leader, other)
    assert asyncio.run(kept(pair, 1)) == [0]
