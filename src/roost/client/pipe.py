"""Bytes from one end to the other inside a process: what `memory://` has in place of a socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

# As much as a socket would bring at once, and may hold before the writer is told.
PIECE_BYTES = 1 << 16
PIPE_BYTES = 1 << 20


class Pipe:
    """Bytes on their way to `deliver`, in pieces, none of them at once."""

    def __init__(
        self,
        deliver: Callable[[bytes], None],
        ended: Callable[[], None],
        congested: Callable[[bool], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._ended = ended
        self._congested = congested
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._is_congested = False
        self._is_due = False
        self._is_ending = False
        self._is_over = False
        self.is_paused = False

    def write(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._pieces.extend(_cut(data))
        self._bytes += len(data)
        if self._bytes > PIPE_BYTES and not self._is_congested:
            self._is_congested = True
            self._congested(True)
        self._go_on()

    def end(self) -> None:
        """After what was written."""
        self._is_ending = True
        self._go_on()

    def cut(self) -> None:
        """At once."""
        self._pieces.clear()
        self.is_paused = False
        self.end()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._go_on()

    def _go_on(self) -> None:
        wanted = bool(self._pieces) or (self._is_ending and not self._is_over)
        if wanted and not self._is_due and not self.is_paused:
            self._is_due = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        if self.is_paused:
            return
        if self._pieces:
            piece = self._pieces.popleft()
            self._bytes -= len(piece)
            self._deliver(piece)
            if self._is_congested and self._bytes < PIPE_BYTES / 4:
                self._is_congested = False
                self._congested(False)
            self._go_on()
        elif self._is_ending and not self._is_over:
            self._is_over = True
            self._ended()


def _cut(data: bytes) -> Iterable[bytes]:
    if len(data) <= PIECE_BYTES:
        return (data,)
    return (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
