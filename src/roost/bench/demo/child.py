"""The processes of the demo besides its own, brokers and clients: how they are started, and how they end.

They talk through pipes. Whoever finds its pipe closed ends, so nothing is left however the demo ends. Ctrl-C
is for the demo alone, which ends them in order: in them the signal is blocked from the start.
"""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import uvloop

from roost.bench.loads.children import Failed
from roost.bench.loads.harness import Child

# How often a child tells what there is to be seen.
REPORT_S = 0.5


def started(main: Callable[..., None], *arguments: Any) -> Child:
    """A child that no signal of the terminal reaches."""
    with _interrupts_held_back():
        return Child(main, *arguments)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Whoever is started meanwhile never gets them; we get them afterwards."""
    # It is started with the first child, and then lets them through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_child(pipe: Connection, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs in the child: its work in an event loop; what goes wrong is told to the demo."""
    try:
        uvloop.run(work())
    except (EOFError, ConnectionError):
        pass  # the demo has ended
    except Exception:
        pipe.send(Failed(traceback.format_exc()))


class Orders:
    """What the demo says to a child, one order after the other; EOFError when it will say nothing more."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._said = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._said.set)

    async def next(self, within_s: float | None = None) -> Any:
        """The next one; None if there is none in time."""
        self._said.clear()
        if not self._pipe.poll():
            try:
                async with asyncio.timeout(within_s):
                    await self._said.wait()
            except TimeoutError:
                return None
        return self._pipe.recv()
