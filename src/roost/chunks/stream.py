"""A stream of bytes, cut anywhere, to chunks of publications; the rest goes the usual way, in order.

A frame that comes in pieces is put together once: what is kept of it stands in front of the next piece only
if that is no shorter. So each byte is copied a fixed number of times, however the stream is cut.
"""

from __future__ import annotations

from collections.abc import Callable

from roost.chunks.taking import Left, Taken
from roost.wire import StreamDecoder
from roost.wire.codec import PREFIX_SIZE

# If so many frames of a piece are not for us, neither is the rest of it.
MISSES_MAX = 4

Take = Callable[[bytes, int], Taken]


def read(decoder: StreamDecoder, data: bytes, take: Take, handle: Callable[[bytes], bool]) -> bytes:
    """Have all publications of a piece taken, and whole frames of anything else handled; what is left.

    That is for `decoder`, all of it: the beginning of a frame, or what can't be taken. `take` is given bytes
    and where to begin; `handle` is given a frame, and says whether chunks may go on.
    """
    kept = decoder.kept_bytes
    if kept > len(data):
        size = decoder.missing_bytes
        if size > len(data) or not handle(data[:size]) or decoder.kept_bytes:
            return data[size:] if size <= len(data) else data
        data = data[size:]
    elif kept:
        data = decoder.take_back() + data
    start, misses = 0, 0
    while start < len(data):
        taken = take(data, start)
        decoder.skip(taken.at - start)
        start = taken.at
        if taken.left is not Left.FRAME or misses == MISSES_MAX:
            break
        size = PREFIX_SIZE + int.from_bytes(data[start : start + PREFIX_SIZE], "big")
        piece = data[start : start + size]
        start += len(piece)
        misses += 1
        if not handle(piece):
            break
    return data[start:]
