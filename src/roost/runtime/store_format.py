"""What stands in a store, as bytes and as the bookkeeping around them; the file is `store_file`'s.

The state of a broker is a map from keys to records, in the order in which the keys were first written: one
that was deleted and is written again counts as new. The store holds it in two parts. **kv** is the state
as it was at some time, a row a record. The **log** has what was written since, a row a commit. To *fold*
is to bring kv up to date and to empty the log. Most of what a broker writes is a message on its way, deleted
again when it has arrived; it lives in the log only.

A commit holds for each key what it came to, not how. Two questions are enough to get the order right:
which keys were deleted at some time, and what was put and is still there, in the order in which it came to
be there. Deletions first, then those: that is what `Batch` holds, and a `Fold` too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from msgspec import msgpack

from roost.broker.commands import StoreKey
from roost.errors import UserError
from roost.wire import pack_record

# Raised when an older Roost could misread a store. All from the lower one on are read: 2 has longer records
# of sessions and links, which whoever restores a broker from them takes in either length; 3 has runs of
# messages (`broker.kept`), beside messages one by one.
FORMAT_VERSION: Final = 3
FORMAT_VERSION_MIN: Final = 1

# What a transaction counts for beside its bytes: none waits for free.
TRANSACTION_BYTES: Final = 8

pack_key = msgpack.Encoder().encode
unpack_key = msgpack.Decoder(tuple[str | int, ...]).decode

_pack_body = msgpack.Encoder().encode
_unpack_body = msgpack.Decoder(tuple[list[bytes], dict[bytes, bytes]]).decode

Packed = tuple[bytes, bytes | None]  # a key and its record; None deletes it


class StoreError(UserError):
    """A store that can't be used. The message names the file, what is wrong, and what one can do."""


def pack_writes(writes: Mapping[StoreKey, Any]) -> list[Packed]:
    """The writes of a transaction as bytes; WireError if one of them has none."""
    return [
        (pack_key(key), None if value is None else pack_record(value))
        for key, value in writes.items()
    ]


def row_crc(key: bytes, record: bytes) -> int:
    """Of a row of kv."""
    return zlib.crc32(record, zlib.crc32(key))


def body_crc(id_: int, body: bytes) -> int:
    """Of a row of the log. The id counts, so that no row can stand in for another."""
    return zlib.crc32(body, id_ & 0xFFFF_FFFF)


class Batch:
    """Transactions that are committed together."""

    __slots__ = ("accepted_bytes", "bytes", "gone", "puts", "token", "transactions")

    def __init__(self) -> None:
        self.gone: dict[bytes, None] = {}  # deleted at some time, and maybe put again
        self.puts: dict[bytes, bytes] = {}
        self.token = 0  # of the last transaction
        self.transactions = 0
        self.bytes = 0
        self.accepted_bytes = 0  # all that the store has been given, up to the last transaction

    def add(self, token: int, writes: Iterable[Packed]) -> int:
        """One more transaction; answers how many bytes it has."""
        gone, puts = self.gone, self.puts
        size = TRANSACTION_BYTES
        for key, record in writes:
            if record is None:
                size += len(key)
                puts.pop(key, None)
                gone[key] = None
            else:
                size += len(key) + len(record)
                puts[key] = record
        self.token = token
        self.transactions += 1
        self.bytes += size
        return size

    def body(self) -> bytes:
        """As the log keeps it: [[key deleted, ...], {key: record, ...}]."""
        return _pack_body((list(self.gone), self.puts))


def unpack_body(body: bytes) -> Iterable[Packed]:
    """The writes of a row of the log; ValueError if it is none."""
    gone, puts = _unpack_body(body)
    return chain(((key, None) for key in gone), puts.items())


class Fold(NamedTuple):
    """What brings kv up to date: deletions, then new values in place, then new rows at the end."""

    gone: dict[bytes, None]
    changed: dict[bytes, bytes]
    fresh: dict[bytes, bytes]
    records: int  # rows in kv afterwards


class Unfolded:
    """The state, as what has to be done to kv to get there."""

    __slots__ = ("changed", "fresh", "gone", "kept", "retained_bytes")

    def __init__(self) -> None:
        self.kept: dict[bytes, int] = {}  # key in kv and not gone -> bytes of its record
        self.gone: dict[bytes, None] = {}  # in kv, deleted since
        self.changed: dict[bytes, bytes] = {}  # in kv, with another record since
        self.fresh: dict[bytes, bytes] = {}  # not in kv, or a new life of one that is gone
        self.retained_bytes = 0  # of all keys and records

    def add_kept(self, key: bytes, size: int) -> None:
        """A row of kv, when it is read."""
        self.kept[key] = size
        self.retained_bytes += len(key) + size

    def apply(self, writes: Iterable[Packed]) -> None:
        kept, gone, changed, fresh = self.kept, self.gone, self.changed, self.fresh
        grown = 0
        for key, record in writes:
            if record is None:
                old = fresh.pop(key, None)
                if old is not None:
                    grown -= len(key) + len(old)
                elif key in kept:
                    grown -= len(key) + kept.pop(key)
                    changed.pop(key, None)
                    gone[key] = None
            elif key in kept:
                grown += len(record) - kept[key]
                kept[key] = len(record)
                changed[key] = record
            else:
                old = fresh.get(key)
                grown += len(record) + len(key) if old is None else len(record) - len(old)
                fresh[key] = record
        self.retained_bytes += grown

    def find(self, keys: Iterable[bytes]) -> tuple[dict[bytes, bytes], list[bytes]]:
        """The records of those keys that are not in kv, or not as they are now; and the keys that are."""
        found, in_kv = {}, []
        for key in keys:
            record = self.fresh.get(key) or self.changed.get(key)
            if record is not None:
                found[key] = record
            elif key in self.kept:
                in_kv.append(key)
        return found, in_kv

    def fold(self) -> Fold:
        """What there is to do; from here on kv is taken to have it."""
        fold = Fold(self.gone, self.changed, self.fresh, len(self.kept) + len(self.fresh))
        # Without a loop: whoever writes has to wait for this.
        self.kept.update(zip(self.fresh, map(len, self.fresh.values()), strict=True))
        self.gone, self.changed, self.fresh = {}, {}, {}
        return fold
