"""How many bytes wait for a client, whether they are in memory or in the store only.

The size of each delivery is known when it comes, and is not looked up again when it has arrived: of what is
in the store only, that would cost more than the delivery. So sizes are added up by *stretches*, each of so
many bytes or of one larger delivery, and a stretch counts until all of it has arrived. However much waits,
there are few of them, and the sum is too high by less than one.
"""

from __future__ import annotations

STRETCH_BYTES = 1 << 16


class Backlog:
    """The bytes behind the number up to which all has arrived."""

    __slots__ = ("_bytes", "_stretches")

    def __init__(self) -> None:
        # The last number of each, and its bytes. A list, as most sessions have none: an empty deque takes as
        # much as a tenth of a session.
        self._stretches: list[tuple[int, int]] = []
        self._bytes = 0

    def add(self, last: int, size: int, acked: int) -> None:
        """One more delivery, or several of which that is the last; all up to another number has arrived."""
        self._bytes = self.bytes_behind(acked) + size
        stretches = self._stretches
        if stretches and stretches[-1][1] + size <= STRETCH_BYTES:
            size += stretches.pop()[1]
        stretches.append((last, size))

    def bytes_behind(self, acked: int) -> int:
        """What has not arrived, if all up to this number has."""
        arrived = 0
        for last, size in self._stretches:
            if last > acked:
                break
            self._bytes -= size
            arrived += 1
        if arrived:
            del self._stretches[:arrived]
        return self._bytes
