"""The scribe of a live broker: a thread that writes its trace, in order, beside the traffic.

Arrow lets go of the interpreter while it encodes and compresses, so that the broker goes on meanwhile. A disk
that is slower than the traffic is waited for: only so much may lie in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

# Row groups, mostly.
WAITING_MAX = 8


class ThreadScribe:
    """See `traces.segments.Scribe`."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "scribe")
        self._asked: deque[Future[None]] = deque()
        self._failure: Exception | None = None

    def ask(self, job: Callable[[], None]) -> None:
        self._wait(WAITING_MAX - 1)
        self._asked.append(self._thread.submit(self._do, job))

    def _do(self, job: Callable[[], None]) -> None:
        if self._failure is None:
            try:
                job()
            except (OSError, pa.ArrowException) as failure:
                self._failure = failure

    def _wait(self, most: int) -> None:
        """Until no more than so many wait."""
        while self._asked and (len(self._asked) > most or self._asked[0].done()):
            self._asked.popleft().result()
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        self._wait(0)

    def close(self) -> None:
        """After the last that it was asked for."""
        self._thread.shutdown()
