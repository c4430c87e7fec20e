"""Work in the background that nobody waits for: what becomes of it is noticed all the same.

An exception in a task of asyncio's is silent until the task is collected, and what the task was for is then
not done any more, by nobody. Here a failure is noted (or printed, if nobody takes notes), and is part of
`trouble`, which is what operators see. What has to go on for ever is a *round* that is repeated: one that
fails is followed by the next.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

# How long a failure is shown that may have been the only one.
SHOWN_S = 60.0
# Failures are noted in full so often each; then they are known.
NOTED_MAX = 3


class Tasks:
    """The tasks of a broker."""

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self._name = name
        self._note = note
        self._clock = clock
        self._running: set[asyncio.Task[Any]] = set()
        # What failed: when it did last, why, and how often.
        self._failures: dict[str, tuple[float, str, int]] = {}
        self._failing: set[str] = set()  # rounds whose last one failed

    def spawn(self, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have something done, once."""
        task = asyncio.get_running_loop().create_task(work, name=what)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def repeat(
        self, what: str, round_: Callable[[], Awaitable[None]], every_s: Callable[[], float]
    ) -> None:
        """Have something done again and again, whatever happens."""
        self.spawn(what, self._repeat(what, round_, every_s))

    async def _repeat(
        self, what: str, round_: Callable[[], Awaitable[None]], every_s: Callable[[], float]
    ) -> None:
        while True:
            await asyncio.sleep(every_s())
            try:
                await round_()
            except Exception as error:
                self._failing.add(what)
                self.failed(what, error)
            else:
                self._failing.discard(what)

    def failed(self, what: str, error: BaseException) -> None:
        """Something went wrong that was not expected to."""
        _, _, times = self._failures.get(what, (0.0, "", 0))
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self._failures[what] = (self._clock(), why, times + 1)
        if times < NOTED_MAX and self._note is not None:
            self._note(what, error)
        elif times < NOTED_MAX:
            print(f"{self._name}: {what} failed", file=sys.stderr)
            traceback.print_exception(error, file=sys.stderr)
            sys.stderr.flush()

    def trouble(self) -> str:
        """What has failed lately, or still does; "" if nothing."""
        now = self._clock()
        shown = [
            f"{what} failed: {why}"
            for what, (at, why, _) in self._failures.items()
            if what in self._failing or now - at < SHOWN_S
        ]
        return "; ".join(shown)

    async def end(self) -> None:
        """Nothing is done any more."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(task.get_name(), error)
