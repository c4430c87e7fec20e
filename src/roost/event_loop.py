"""The event loop that programs of ours run in: uvloop's where it is installed, else asyncio's.

A broker always has uvloop, which comes with it. For a client it is worth 14 MB only if the client is busy:
whoever wants it installs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """One that nobody runs yet."""
    try:
        import uvloop  # noqa: PLC0415 (it may be missing)
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, in such a loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
