"""The thread of a node of a pair that waits for the disk: what it is given is done in order, one by one.

Only commits of the leader's that have come meanwhile are written together. A standby that was away has
thousands of them to catch up with, and the broker may be waiting for it: one wait for the disk each would
take it as long as it took the broker to make them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from roost.overlay.twin_words import Position

# What is written together is at most so much, if it is more than one commit.
GROUP_BYTES = 4_000_000


class PairDisk:
    """Calls back in the event loop."""

    def __init__(
        self,
        keep: Callable[[Sequence[bytes], Position], None],  # in the thread: these, up to there
        kept: Callable[[Position], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "pair")
        self._keep = keep
        self._kept = kept
        self._failed = failed
        # Commits that the thread will find at its turn; others than these once something stands behind them.
        self._waiting: deque[tuple[Position, bytes]] = deque()

    def do(self, job: Callable[[], object], then: Callable[[], None] = lambda: None) -> None:
        self._waiting = deque()
        self._run(job, then)

    def keep(self, position: Position, body: bytes) -> None:
        """A commit of the leader's."""
        waiting = self._waiting
        begins = not waiting  # else whoever takes those takes this one, too
        waiting.append((position, body))
        if begins:
            self._run(lambda: self._keep_all(waiting), lambda: None)

    def _keep_all(self, waiting: deque[tuple[Position, bytes]]) -> None:
        while waiting:
            position, body = waiting.popleft()
            bodies, size = [body], len(body)
            while waiting and size + len(waiting[0][1]) <= GROUP_BYTES:
                position, body = waiting.popleft()
                bodies.append(body)
                size += len(body)
            self._keep(bodies, position)
            self._loop.call_soon_threadsafe(self._kept, position)

    def _run(self, job: Callable[[], object], then: Callable[[], None]) -> None:
        def done(future: asyncio.Future[object]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None:
                self._failed(error)
            else:
                then()

        self._loop.run_in_executor(self._thread, job).add_done_callback(done)

    async def wait_for(self, job: Callable[[], object]) -> None:
        """Until it is done, and all before it."""
        self._waiting = deque()
        await self._loop.run_in_executor(self._thread, job)

    def close(self) -> None:
        self._thread.shutdown()
