"""Messages of a channel as the bytes that went out: *runs* (see `roost.chunks`).

What a chunk of publications sends to a peer is one run of its outbox. Mostly it is acknowledged and nobody
looks into it. Whoever wants its messages gets them as frames, read back from the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roost.broker.messages import Frame


class Run:
    """Messages of a lane, by their bytes. `read` makes frames of these."""

    __slots__ = ("_read", "data", "first", "last")

    def __init__(
        self, first: int, last: int, data: bytes, read: Callable[[bytes], Sequence[Frame]]
    ) -> None:
        self.first = first  # their numbers
        self.last = last
        self.data = data
        self._read = read

    def frames(self, behind: int = 0) -> Sequence[Frame]:
        """Its messages behind a number."""
        return [frame for frame in self._read(self.data) if frame.sequence > behind]

    def __len__(self) -> int:
        return self.last - self.first + 1
