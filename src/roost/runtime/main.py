"""A broker as a process: starts, says where it is, serves until a signal, and leaves in order."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

from roost.runtime.config import ServerConfig
from roost.runtime.server import BrokerServer
from roost.runtime.warming import warm_up

# The thread of the store needs the interpreter for microseconds after each commit; with the usual 5 ms it
# would wait as long as a commit takes.
SWITCH_INTERVAL_S = 0.000_5


# Allocations until a collection of what is young, and collections until one of what is older.
COLLECT_AFTER = (100_000, 50, 100)


async def serve(config: ServerConfig) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = BrokerServer(config)
    warm_up()
    await server.start()
    # Messages are no matter for the collector (they never form a cycle); what else there is, is little and
    # stays. So it need not look often, and not at what is there now.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"{server.name} listens on {server.host}:{server.port}", file=sys.stderr, flush=True)
    await stop.wait()
    print(f"{server.name} stops", file=sys.stderr, flush=True)
    await server.stop()
