"""A federation is upgraded one broker at a time: the broker before this version beside today's.

The older one is real: its code comes from the history of the repository, and runs as processes of its own.
Both link with each other, whoever dials; clients of either version are served by brokers of either; and a
broker that is stopped, or killed, and started again as today's goes on with the same store, with nothing lost
or doubled.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.runtime.broker_process import BrokerProcess, write_settings
from roost.runtime.federation import free_ports
from tests.older import ROOT, NoHistory, source_at

COMMIT = "1b62682"
# Two versions compile, and talk: minutes on a busy machine. tests/broker/test_absence.py has the protocol
# of it.
pytestmark = pytest.mark.long

PATIENCE_S = 120.0


class Broker:
    """One of either version, as a process, with settings that both understand."""

    def __init__(self, source: Path, folder: Path, settings: Mapping[str, object]) -> None:
        folder.mkdir(exist_ok=True)
        config = folder / "roost.toml"
        broker = {key: value for key, value in settings.items() if key != "neighbours"}
        links = {"neighbours": settings["neighbours"]}
        write_settings(config, {"broker": broker, "links": links, "admin": {"port": -1}})
        self.port = settings["port"]
        self._said = folder / "said"
        self._said.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self._process = BrokerProcess(config, self._said, environment)
        until = time.monotonic() + PATIENCE_S
        while " listens on " not in self.said():
            if not self._process.alive or time.monotonic() > until:
                self.end(signal.SIGKILL)
                raise RuntimeError(f"the broker does not start; it said:\n{self.said()}")
            time.sleep(0.02)

    @property
    def url(self) -> str:
        return f"roost://127.0.0.1:{self.port}"

    def said(self) -> str:
        return self._said.read_text("utf-8", "replace")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int | None:
        self._process.signal(how)
        return self._process.wait(PATIENCE_S)


Start = Callable[..., Broker]


@pytest.fixture(scope="module")
def then(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the older version."""
    try:
        return source_at(COMMIT, tmp_path_factory.mktemp("then"))
    except NoHistory as error:
        pytest.skip(f"no older broker: {error}")


@pytest.fixture
def versions(then: Path) -> dict[str, Path]:
    return {"old": then, "new": ROOT / "src"}


@pytest.fixture
def start(tmp_path: Path, versions: dict[str, Path]) -> Iterator[Start]:
    """Starts B0 or B1 as a process of either version; one of them dials the other."""
    ports = free_ports(2)
    with ExitStack() as closing:

        def start(number: int, version: str, *, dialler: int) -> Broker:
            address = f"127.0.0.1:{ports[1 - number]}" if number == dialler else ""
            settings = {
                "name": f"B{number}",
                "port": ports[number],
                "data": "data",
                "redial_min_s": 0.05,
                "redial_max_s": 0.2,
                "neighbours": {f"B{1 - number}": address},
            }
            broker = Broker(versions[version], tmp_path / f"B{number}", settings)
            closing.callback(broker.end, signal.SIGKILL)
            return broker

        yield start


# --- clients of either version ------------------------------------------------------------------------

# Says "ready", and then one event a line; as many as it was told.
SUBSCRIBER = """
    import asyncio, json, sys
    import roost

    async def main(url, filter, count):
        async with roost.connect(url, timeout_s=60, settle_s=60) as client:
            subscription = client.subscribe(filter)
            await subscription.ready()
            print("ready", flush=True)
            for _ in range(count):
                event = await subscription.get()
                print(json.dumps(event["n"]), flush=True)

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""
# Publishes these, and says "done" when the broker has them.
PUBLISHER = """
    import asyncio, json, sys
    import roost

    async def main(url, numbers):
        async with roost.connect(url, timeout_s=60, settle_s=60) as client:
            await client.advertise("class = 'STOCK'")
            for number in numbers:
                await client.publish({"class": "STOCK", "n": number})
            await client.flush()
            print("done", flush=True)

    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
"""


class Peer:
    """A client in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = (await self._process.stdout.readline()).decode().strip()
        if not line:
            assert self._process.stderr is not None
            pytest.fail((await self._process.stderr.read()).decode())
        return line

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self._process.wait()


@asynccontextmanager
async def client(script: str, source: Path, *arguments: object) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(script),
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    try:
        yield Peer(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def linked(urls: list[str]) -> None:
    """Until the two have found each other: what is published before that is for nobody over there."""
    async with (
        asyncio.timeout(PATIENCE_S),
        roost.connect(urls[0], timeout_s=60, settle_s=60) as one,
        roost.connect(urls[1], timeout_s=60, settle_s=60) as other,
    ):
        for here, there in ((one, other), (other, one)):
            async with here.subscribe("class = 'PROBE'") as subscription:
                heard = asyncio.create_task(subscription.get())
                while not heard.done():
                    await there.publish({"class": "PROBE"})
                    await asyncio.wait([heard], timeout=0.1)


@pytest.mark.parametrize("dialler", [0, 1], ids=["old dials", "new dials"])
def test_side_by_side(start: Start, versions: dict[str, Path], dialler: int) -> None:
    """Publishers and subscribers of both versions, at both brokers: everybody hears everybody, in order."""
    brokers = [start(0, "old", dialler=dialler), start(1, "new", dialler=dialler)]
    asyncio.run(exchange([broker.url for broker in brokers], versions))
    assert not [broker.said() for broker in brokers if "Traceback" in broker.said()]


async def exchange(urls: list[str], versions: dict[str, Path]) -> None:
    await linked(urls)
    each = 4
    everybody = [(where, source) for where in urls for source in versions.values()]
    async with AsyncExitStack() as closing:
        subscribers = []
        for where, source in everybody:
            arguments = (source, where, "class = 'STOCK'", each * len(everybody))
            subscribers.append(await closing.enter_async_context(client(SUBSCRIBER, *arguments)))
        for subscriber in subscribers:
            assert await subscriber.line() == "ready"
        publishers = []
        for number, (where, source) in enumerate(everybody):
            numbers = json.dumps([100 * number + n for n in range(each)])
            publishers.append(
                await closing.enter_async_context(client(PUBLISHER, source, where, numbers))
            )
        for publisher in publishers:
            assert await publisher.line() == "done"
            assert await publisher.ended() == 0
        for subscriber in subscribers:
            got = [int(await subscriber.line()) for _ in range(each * len(everybody))]
            for number in range(len(everybody)):
                mine = [n for n in got if n // 100 == number]
                assert mine == [100 * number + n for n in range(each)]
            assert await subscriber.ended() == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("dialler", [0, 1], ids=["old dials", "new dials"])
def test_upgraded_in_place(start: Start, dialler: int, how: signal.Signals) -> None:
    """B0 is of the older version, and then today's on the same store; B1 is today's throughout."""
    there = start(1, "new", dialler=dialler)
    here = start(0, "old", dialler=dialler)
    asyncio.run(upgrade(start, here, there, dialler, how))


async def upgrade(
    start: Start, here: Broker, there: Broker, dialler: int, how: signal.Signals
) -> None:
    await linked([here.url, there.url])
    async with (
        asyncio.timeout(PATIENCE_S),
        roost.connect(here.url, timeout_s=60, settle_s=60) as near,
        roost.connect(there.url, timeout_s=60, settle_s=60) as far,
    ):

        async def publish(at: Any, *numbers: int) -> None:
            for number in numbers:
                await at.publish({"class": "STOCK", "n": number})
            await at.flush()

        for at in (near, far):
            await at.advertise("class = 'STOCK'")
        async with near.subscribe("class = 'STOCK'", durable="here") as subscription:
            await subscription.ready()
        async with far.subscribe("class = 'STOCK'", durable="there") as subscription:
            await subscription.ready()
        plain = near.subscribe("class = 'STOCK'")
        await plain.ready()
        async with near.outbox("orders", advertise="class = 'ORDER'") as outbox:
            for number in (1, 2):
                await outbox.publish(number, {"class": "ORDER", "number": number})
            await outbox.flush()
        await publish(near, 1, 2)
        await publish(far, 101, 102)

        assert here.end(how) == (0 if how == signal.SIGTERM else -how)
        await publish(far, 103)  # which waits at the neighbour
        here = start(0, "new", dialler=dialler)
        await publish(near, 3)
        await publish(far, 104)

        def check(got: list[Any]) -> None:
            assert [n for n in got if n < 100] == [1, 2, 3]
            assert [n for n in got if n > 100] == [101, 102, 103, 104]

        for at, name in ((near, "here"), (far, "there")):
            async with at.subscribe("class = 'STOCK'", durable=name) as subscription:
                got: list[Any] = []
                while len(got) < 7:
                    event = await subscription.get()
                    await event.ack()
                    got.append(event["n"])
                check(got)
        check([(await plain.get())["n"] for _ in range(7)])
        async with near.outbox("orders", advertise="class = 'ORDER'") as outbox:
            assert (outbox.last, outbox.is_new) == (2, False)


def test_no_way_back_unnoticed(start: Start, tmp_path: Path) -> None:
    """Today's store is refused by the older version, in words."""
    start(0, "old", dialler=1).end()
    start(0, "new", dialler=1).end()
    with pytest.raises(
        RuntimeError, match=r"roost\.db: a store of format 3, and this Roost reads format 1"
    ):
        start(0, "old", dialler=1)
    start(0, "new", dialler=1)
    assert (tmp_path / "B0" / "data" / "roost.db").exists()
