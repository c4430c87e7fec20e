"""Finds damage in the write-ahead log of SQLite, which SQLite itself would pass over in silence.

What was committed since the last checkpoint stands in the file `-wal`, as *frames*: a page each, with a
checksum that goes on from the frame before. The last frame of a transaction says that it is. After a crash
SQLite reads up to the first frame whose checksum is wrong, and takes the rest for a transaction that was
never finished. If a disk has lost a bit in the middle, that drops all transactions from there on.

The two can be told apart. A transaction is on the disk before the next one begins. So where a frame goes on
from the end of a transaction, that one had been on the disk, whole; and if that is behind the first wrong
checksum, something was there that is no longer readable. A crash leaves nothing of the kind. It leaves any
part of the transaction that was being written, and behind it maybe parts of one that an earlier crash had cut
off, which go on from something that is no longer there.

Damage to the very last transaction looks like a crash, and so does a log that was shortened. What tells those
is not in this file: see `store_mark`.

The layout is described in "WAL-mode File Format" of SQLite's documentation.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

# Magic number, version, page size, sequence of checkpoints, two salts, two halves of a checksum.
_HEADER: Final = struct.Struct(">8I")
# The magic number of checksums over little-endian words; over big-endian ones it is one more.
_MAGIC: Final = 0x377F_0682
_VERSION: Final = 3_007_000
# Page number, size of the database if it ends a transaction (else 0), two salts, two halves of a checksum.
_FRAME_HEADER_SIZE: Final = 24

Words = npt.NDArray[np.uint32]


def wal_damage(wal: bytes) -> str:
    """What is wrong with the write-ahead log; "" if nothing is, or nothing more than a crash explains."""
    if len(wal) <= _HEADER.size:
        return ""  # frames are written after the header is on the disk
    magic, version, page_size, _, *salts, sum_0, sum_1 = _HEADER.unpack_from(wal)
    order = ">" if magic & 1 else "<"
    summed = np.frombuffer(wal, f"{order}u4", 6).astype(np.uint32).reshape(6, 1)
    nothing = np.zeros(1, np.uint32)
    halves = _checksum(summed, nothing, nothing)
    if magic & ~1 != _MAGIC or version != _VERSION or [h[0] for h in halves] != [sum_0, sum_1]:
        return "its header is damaged"

    frame_size = _FRAME_HEADER_SIZE + page_size
    count = (len(wal) - _HEADER.size) // frame_size
    if not count:
        return ""
    frames = np.frombuffer(wal, np.uint8, count * frame_size, _HEADER.size).reshape(count, -1)
    heads = frames[:, :_FRAME_HEADER_SIZE].copy().view(">u4").astype(np.uint32)
    ours = (heads[:, 2] == salts[0]) & (heads[:, 3] == salts[1])  # others are older than the header
    # A frame is right if it follows from what the frame before says that its checksum is.
    body: npt.NDArray[Any] = np.hstack((frames[:, :8], frames[:, _FRAME_HEADER_SIZE:]))
    words = np.ascontiguousarray(body.view(f"{order}u4").T, np.uint32)
    before = np.vstack((np.array([[sum_0, sum_1]], np.uint32), heads[:-1, 4:]))
    half_0, half_1 = _checksum(words, before[:, 0], before[:, 1])
    right = ours & (half_0 == heads[:, 4]) & (half_1 == heads[:, 5])
    if right.all():
        return ""
    first = int(np.argmin(right))
    # What goes on from what a frame should say, if that is just what is damaged in it.
    again_0, again_1 = _checksum(words[:, 1:], half_0[:-1], half_1[:-1])
    goes_on = right[1:] | (ours[1:] & (again_0 == heads[1:, 4]) & (again_1 == heads[1:, 5]))
    ends = heads[:-1, 1] != 0
    kept = int(np.count_nonzero((ends & goes_on)[first:]))
    if not kept:
        return ""
    return f"frame {first + 1} is damaged; transactions committed from there on: {kept} or more"


def _checksum(words: Words, half_0: Words, half_1: Words) -> tuple[Words, Words]:
    """SQLite's checksum of each column of words, going on from these."""
    for even, odd in zip(words[::2], words[1::2], strict=True):
        half_0 = half_0 + even + half_1
        half_1 = half_1 + odd + half_0
    return half_0, half_1
