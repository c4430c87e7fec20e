"""A live broker inside this process, in the event loop that runs: for benchmarks and tests.

`main` puts more around one: signals, the log, kernels that are warm before it starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from roost.runtime.server import DRAIN_S, BrokerServer
from roost.runtime.tables import ServerConfig


async def start_server(config: ServerConfig) -> BrokerServer:
    """It listens; `stop` is its end."""
    server = BrokerServer(config)
    await server.start()
    return server


@asynccontextmanager
async def running(
    config: ServerConfig, *, within_s: float = DRAIN_S
) -> AsyncIterator[BrokerServer]:
    """It listens until the end of `async with`, and has so long to end in order."""
    server = await start_server(config)
    try:
        yield server
    finally:
        await server.stop(within_s=within_s)
