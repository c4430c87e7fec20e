"""Messages of a channel as the bytes that went out: *runs* (see `roost.chunks`).

What a chunk of publications sends to a peer is one run of its outbox, and with a store one record of it.
Mostly it is acknowledged and nobody looks into it. Whoever wants its messages gets them as frames, read back
from the bytes; whoever wants only some of them, because the others have arrived, or do not fit into memory,
gets a shorter run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from roost.broker.messages import Frame


class Spelling(Protocol):
    """How bytes are read (`roost.wire.runs`)."""

    def frames(self, data: bytes) -> Sequence[Frame]: ...

    def end_of(self, data: bytes, count: int) -> int:
        """Where the first so many messages end."""


class Run:
    """Messages of a lane, by their bytes."""

    __slots__ = ("_spelling", "data", "first", "last")

    def __init__(self, first: int, last: int, data: bytes, spelling: Spelling) -> None:
        self.first = first  # their numbers
        self.last = last
        self.data = data
        self._spelling = spelling

    def frames(self, behind: int = 0) -> Sequence[Frame]:
        """Its messages behind a number."""
        return [frame for frame in self._spelling.frames(self.data) if frame.sequence > behind]

    def part(self, first: int, last: int) -> Run:
        """Those of its messages that have numbers from the first to the last of these."""
        first, last = max(first, self.first), min(last, self.last)
        if first == self.first and last == self.last:
            return self
        end_of = self._spelling.end_of
        begin = end_of(self.data, first - self.first)
        end = begin + end_of(self.data[begin:], last - first + 1)
        return Run(first, last, self.data[begin:end], self._spelling)

    def __len__(self) -> int:
        return self.last - self.first + 1
