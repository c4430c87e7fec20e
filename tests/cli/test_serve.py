"""`roost serve`, with real processes: two matchers and a dispatcher, from start to end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.client import connect
from roost.runtime import federation
from roost.runtime.restarting import restart
from tests.cli.support import Roost
from tests.client.support import in_loop

EVENTS = 2_000


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is left running, whatever becomes of the test."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path / ".roost"
    federation.end(tmp_path / ".roost")


def test_a_service_from_start_to_end(roost: Roost, state: Path) -> None:
    ran = roost(
        "serve", "--matchers", "2", "--dimension", "x:0:10", "--dimension", "y:-1:1", "--json"
    )
    assert (ran.code, ran.err) == (0, "")
    assert [server["broker"] for server in ran.json["brokers"]] == ["D0", "M0", "M1"]
    assert ran.json["links"] == [["D0", "M0"], ["D0", "M1"], ["M0", "M1"]]
    assert "dimensions=x:0:10,y:-1:1 matchers=M0,M1" in (state / "D0.toml").read_text()
    (url,) = (s["url"] for s in ran.json["brokers"] if s["broker"] == "D0")
    published = roost("publish", "--url", url, "x=1", "y=0")
    assert published.code == 0, published.err
    status = roost("status", "--json")
    assert {s["broker"]: s.get("table") for s in status.json["brokers"]} == {
        "D0": 1,
        "M0": 1,
        "M1": 1,
    }
    assert roost("down").code == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--dimension", "x"], "expected NAME:LOW:HIGH"),
        (["--dimension", "x:2:1"], "LOW below HIGH"),
        (["--dimension", "x:0:1", "--matchers", "0"], "0 matchers; expected at least one"),
        (["--dimension", "x:0:1", "--policy", "best"], "expected one of amount"),
    ],
)
def test_bad_input(roost: Roost, state: Path, arguments: list[str], what: str) -> None:
    ran = roost("serve", *arguments)
    assert ran.code == 2
    assert what in ran.err
    assert not state.exists()


@pytest.mark.long
def test_a_matcher_and_then_the_dispatcher_are_killed_under_load(roost: Roost, state: Path) -> None:
    """With -9, while events flow: none is lost, doubled or out of order. The matcher stays away."""
    ran = roost("serve", "--matchers", "2", "--dimension", "x:0:10", "--durable", "--json")
    assert (ran.code, ran.err) == (0, "")
    urls = {server["broker"]: server["url"] for server in ran.json["brokers"]}
    assert _received_while_they_are_killed(urls["D0"], state) == list(range(1, EVENTS + 1))


def _received_while_they_are_killed(url: str, state: Path) -> list[int]:
    found: list[int] = []

    @in_loop
    async def play() -> None:
        async with connect(url) as reader, connect(url) as writer:
            sub = reader.subscribe("x >= 0", durable="all")
            await sub.ready()

            async def publish() -> None:
                async with writer.outbox("log") as outbox:
                    for n in range(1, EVENTS + 1):
                        await outbox.publish(n, {"x": n % 10, "n": n})
                    await outbox.flush()

            publishing = asyncio.create_task(publish())
            async for event in sub:
                found.append(int(event["n"]))
                await event.ack()
                if len(found) == EVENTS // 4:
                    kill(state, "M0")
                elif len(found) == EVENTS // 2:
                    kill(state, "D0")
                    await asyncio.to_thread(restart, state, "D0")
                elif len(found) >= EVENTS:
                    break
            await publishing

    play()
    return found


def kill(state: Path, name: str) -> None:
    (member,) = (m for m in federation.running_federation(state).members if m.name == name)
    assert member.process is not None
    os.kill(member.process.pid, signal.SIGKILL)
