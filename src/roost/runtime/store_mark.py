"""A second witness of how far a store has come: the file `-mark` beside it.

Without its `-wal`, or with a part of it, a store is a good one that is older, and nothing in it tells. Its
neighbours and clients know better: they would be told numbers that they have had before. So how far it has
come is also written down elsewhere: which store, and the number of its last commit. Numbers of commits rise
for as long as a store lives (see `store_file`), so whatever brings an older state is found by comparing two
of them: a `-wal` that is missing, was cut off, is another one, or has lost its last transaction; a `roost.db`
that somebody has put back.

**What it costs.** The mark is written when the commit is on the disk, so it never says too much; it is not
made safe itself each time, so after a loss of power it may say too little. And it is written only when the
store's thread has nothing else to do, or after so many bytes or so long. A process that is killed leaves one
that is exact if it was idle, and at most `EVERY_BYTES` or `EVERY_S` behind if it was busy. At folds it is
made safe.

A mark that can't be read says nothing, and one of another store says nothing about this one.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from pathlib import Path
from typing import Final

EVERY_BYTES: Final = 1_000_000
EVERY_S: Final = 0.25

# What it is, the store's id, the number of the last commit; and a checksum behind.
_MARK: Final = struct.Struct(">8s32sQ")
_SUM: Final = struct.Struct(">I")
_KIND: Final = b"roostmk1"
_SIZE: Final = _MARK.size + _SUM.size


def read_mark(path: Path, store_id: str) -> int:
    """The number of the last commit that is known of this store; 0 if nothing is."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0
    if len(data) != _SIZE or _SUM.unpack_from(data, _MARK.size) != (zlib.crc32(data[:-4]),):
        return 0
    kind, id_, number = _MARK.unpack_from(data)
    return number if kind == _KIND and id_ == store_id.encode() else 0


class Mark:
    """The mark of a store that is open."""

    def __init__(self, path: Path, store_id: str) -> None:
        self._path = path
        self._id = store_id.encode()
        self._file: int | None = None
        self.number = -1  # what it says
        self._tried = -1  # what it was last to say
        self._bytes = 0  # committed since
        self._at = 0.0

    def committed(self, size: int) -> None:
        self._bytes += size

    def is_due(self, number: int, *, idle: bool) -> bool:
        """Whether it is time to write it down."""
        if number == self._tried:
            return False
        return idle or self._bytes >= EVERY_BYTES or time.monotonic() - self._at >= EVERY_S

    def write(self, number: int, *, safe: bool = False) -> None:
        """All up to this commit is on the disk. OSError if the mark can't be written: the next one may be."""
        self._tried, self._bytes, self._at = number, 0, time.monotonic()
        data = _MARK.pack(_KIND, self._id, number)
        data += _SUM.pack(zlib.crc32(data))
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.fstat(self._file).st_size != _SIZE:
                os.ftruncate(self._file, 0)
        # In place, and less than the least that a disk writes at once: it is there whole or not at all.
        os.pwrite(self._file, data, 0)
        if safe:
            os.fdatasync(self._file)
        self.number = number

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
