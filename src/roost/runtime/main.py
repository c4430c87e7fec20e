"""A broker as a process: starts, says where it is, serves until a signal, and leaves in order."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from roost.errors import UserError
from roost.runtime.allocating import keep_freed_memory
from roost.runtime.log import EventLog, calls_of
from roost.runtime.server import BrokerServer
from roost.runtime.tables import ServerConfig
from roost.runtime.warming import warm_up

# The thread of the store needs the interpreter for microseconds after each commit; with the usual 5 ms it
# would wait as long as a commit takes.
SWITCH_INTERVAL_S = 0.000_5
# Allocations until a collection of what is young, and collections until one of what is older.
COLLECT_AFTER = (100_000, 50, 100)


# What runs as long as a broker does, in its process.
Beside: TypeAlias = Callable[[BrokerServer], AbstractAsyncContextManager[None]]


async def serve(
    config: ServerConfig, config_file: Path | None = None, beside: Beside | None = None
) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    log, stop = EventLog(config.log, config.broker.name), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: note_fault(log, context))
    try:
        server = BrokerServer(config, log=log, config_file=config_file)
        try:
            await prepare(server, log)
            # From here on, so that whoever reads in the log that it has started can have it stop in order.
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            await server.start()
        except BaseException:
            await server.stop(within_s=0.0)
            raise
    except UserError as error:
        if not log.is_aloud:  # else it is said there anyway
            log.error("not started", detail=str(error))
        log.close()
        raise
    # Messages are no matter for the collector (they never form a cycle); what else there is, is little and
    # stays. So it need not look often, and not at what is there now.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    keep_freed_memory()  # not before its tables are there: as long as they are empty they take no memory
    announce(log, f"{server.name} listens on {server.host}:{server.port}")
    try:
        async with nullcontext() if beside is None else beside(server):
            await stop.wait()
            announce(log, f"{server.name} stops")
    finally:
        await server.stop()


def ready_to_run(log: EventLog) -> None:
    """What any process does that is, or may have to be, a broker."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_freed_memory()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: note_fault(log, context))
    with interruptible():
        warm_up(partial(announce, log), is_watched=sys.stderr.isatty() and not log.is_for_programs)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def prepare(server: BrokerServer, log: EventLog) -> None:
    """What can fail at once, and then what takes long."""
    await server.bind()
    if server.config.admin.port > 0:
        from roost.runtime.admin import check_port  # noqa: PLC0415 (a web server takes its time)

        check_port(server.config.admin)
    watched = sys.stderr.isatty() and not log.is_for_programs
    with interruptible():
        warm_up(partial(announce, log), is_watched=watched)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends at once what the event loop would wait for."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def announce(log: EventLog, what: str) -> None:
    """To whoever has started it; unless a program reads along, which has the same in the log."""
    if not log.is_for_programs:
        print(what, file=sys.stderr, flush=True)


def note_fault(log: EventLog, context: dict[str, Any]) -> None:
    """Something has failed that nobody waits for: a task, or a callback of the event loop."""
    error = context.get("exception")
    why = "" if error is None else repr(error)
    log.error("fault", detail=context.get("message", ""), error=why, calls=calls_of(error))
