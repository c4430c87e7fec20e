"""A gateway that is killed amid its work, and started again: nothing is lost, and all is in order."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from roost.client import connect
from roost.gateway.ws_eventing.versions import EVENTING_2011, SOAP_12
from tests.client.support import config, in_loop, until, url_of
from tests.gateway.kit import Elsewhere, broker, sinks, subscribed


@asynccontextmanager
async def gateway_process(url: str, data: Path) -> AsyncIterator[Elsewhere]:
    """A gateway, by where it listens; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "roost", "gateway", "ws-eventing", "--url", url),
        *("--port", "0", "--allow-private", "--data", str(data)),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        found = re.search(rb"served on \S+:(\d+)", await process.stderr.readline())
        assert found is not None
        yield Elsewhere(int(found[1]))
    finally:
        process.kill()
        await process.wait()


@in_loop
async def test_killed_amid_its_work(tmp_path: Path) -> None:
    async with (
        broker(config(data=tmp_path / "broker")) as server,
        sinks() as (sink,),
        connect(url_of(server)) as client,
    ):

        async def publish(*numbers: int) -> None:
            for n in numbers:
                await client.publish({"n": n})
            await client.flush()

        async with gateway_process(url_of(server), tmp_path / "kept") as gateway:
            await subscribed(gateway, EVENTING_2011, SOAP_12, sink.url)
            await publish(*range(200))
            await until(lambda: len(sink.heard) >= 20, "it is at work")
        await publish(*range(200, 250))
        async with gateway_process(url_of(server), tmp_path / "kept"):
            await until(lambda: 249 in sink.numbers(), "all is there")
        heard = sink.numbers()
        # Twice in order: up to where it was killed, and from where the broker knew that it was.
        cut = next((at for at in range(1, len(heard)) if heard[at] <= heard[at - 1]), len(heard))
        first, second = heard[:cut], heard[cut:]
        assert first == [*range(len(first))]
        assert second == [*range(250 - len(second), 250)]
        assert len(first) + len(second) >= 250
