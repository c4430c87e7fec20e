"""The store of a standby: what the leader commits, written as it comes, and a snapshot in place of all of it.

It is a store as any other (`store_file`), so that whoever becomes the broker opens it as its own. A batch is
a row of the log, as the leader has written it: the record `SHIPPED`, which is in every one, says how far that
is. A snapshot is built in a folder beside, and takes the place of the store in one step; until then the old
one is as good as it was.

All of it is for one thread at a time, which may be made to wait for the disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from roost.broker.commands import StoreKey
from roost.overlay.twin_words import Membership, Position
from roost.runtime import pair_file
from roost.runtime.pair_file import Known
from roost.runtime.store import FOLD_BYTES
from roost.runtime.store_file import StoreFile, beside, sync_folder
from roost.runtime.store_format import Batch, StoreError, Unfolded, pack_key, unpack_body
from roost.wire import unpack_record

STORE_NAME = "roost.db"
INCOMING = "incoming"
# The record of how far a store is: (run, number).
SHIPPED: StoreKey = ("shipped",)
SHIPPED_KEY = pack_key(SHIPPED)
PART_BYTES = 1_000_000


def position_of(record: bytes | None) -> Position:
    return Position() if record is None else Position(*unpack_record(record))


class Replica:
    """A store that is open, and nobody's but the standby's."""

    def __init__(self, folder: Path, *, fold_bytes: int = FOLD_BYTES) -> None:
        self._folder = folder
        self._fold_bytes = fold_bytes
        self._incoming: StoreFile | None = None
        self._has_gap = False  # a commit could not be written, and more may come behind it
        folder.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        self._file = StoreFile.open(self._folder / STORE_NAME)
        self._unfolded = unfolded = Unfolded()
        record: bytes | None = None
        try:
            for key, value in self._file.rows():
                unfolded.add_kept(key, len(value))
                if key == SHIPPED_KEY:
                    record = value
            for writes in self._file.logged():
                batch = list(writes)
                unfolded.apply(batch)
                record = dict(batch).get(SHIPPED_KEY, record)
            # One that is older than it was has taken back what it had answered for.
            is_older = self._file.marked > self._file.last_id
            self._file.accepted()
        except BaseException:
            self._file.close()
            raise
        self.position = position_of(record)
        known = pair_file.read(self._folder, self._file.store_id)
        if is_older:
            known = Known(known.store, known.node)
            self.position = Position()
        self.known = known

    def keep(self, bodies: Sequence[bytes], position: Position) -> None:
        """More commits of the leader's, as one; when this returns they are on the disk."""
        if self._has_gap:
            raise StoreError(f"{self._file.path}: what came before could not be written")
        self._has_gap = True
        body = bodies[0] if len(bodies) == 1 else _merged(bodies)
        self._file.append(body)
        self._has_gap = False
        self._unfolded.apply(unpack_body(body))
        self.position = position
        if self._file.mark_is_due(idle=False):
            self._file.mark()

    def mend(self) -> None:
        """What comes next follows what is there."""
        self._has_gap = False

    def look_after(self) -> None:
        """What can be done once it has been answered."""
        if self._file.log_bytes >= self._fold_bytes:
            self._file.fold(self._unfolded.fold())
            self._file.checkpoint()

    def note(self, membership: Membership | None) -> None:
        self.known = Known(self._file.store_id, self.known.node, membership)
        pair_file.write(self._folder, self.known)

    # --- snapshots ----------------------------------------------------------------------------------

    def clear(self) -> None:
        """A snapshot comes."""
        self._drop_incoming()
        folder = self._folder / INCOMING
        folder.mkdir()
        self._incoming = file = StoreFile.open(folder / STORE_NAME)
        list(file.rows())
        list(file.logged())
        file.accepted()

    def load(self, body: bytes) -> None:
        assert self._incoming is not None
        self._incoming.append(body)

    def adopt(self, position: Position, membership: Membership | None) -> None:
        """What has come is the store from now on."""
        assert self._incoming is not None
        self._incoming.close()
        self._incoming = None
        # Nobody is a member between the two.
        self.note(None)
        node, store = self.known.node, self._folder / STORE_NAME
        self._file.close()
        for left in ("-wal", "-shm", "-mark"):
            beside(store, left).unlink(missing_ok=True)
        (self._folder / INCOMING / STORE_NAME).rename(store)
        sync_folder(self._folder)
        self._drop_incoming()
        self._open()
        self.known = Known(self._file.store_id, node)
        self.note(membership)
        self.position = position

    def _drop_incoming(self) -> None:
        if self._incoming is not None:
            self._incoming.close()
            self._incoming = None
        shutil.rmtree(self._folder / INCOMING, ignore_errors=True)

    def close(self) -> None:
        self._drop_incoming()
        with suppress(OSError):
            self._file.checkpoint()
        self._file.close()


def snapshot(folder: Path) -> tuple[list[bytes], Position]:
    """All records of a store that somebody else writes to, as the bodies of batches; and how far that is."""
    rows: dict[bytes, bytes] = {}
    with StoreFile.read_only(folder / STORE_NAME) as file:
        rows.update(file.rows())
        for writes in file.logged():
            for key, record in writes:
                if record is None:
                    rows.pop(key, None)
                else:
                    rows[key] = record
    return list(_parts(rows)), position_of(rows.get(SHIPPED_KEY))


def _merged(bodies: Sequence[bytes]) -> bytes:
    """What the leader would have written, had it committed all of them at once."""
    batch = Batch()
    for body in bodies:
        batch.add(0, unpack_body(body))
    return batch.body()


def _parts(rows: dict[bytes, bytes]) -> Iterator[bytes]:
    batch = Batch()
    for item in rows.items():
        batch.add(0, (item,))
        if batch.bytes >= PART_BYTES:
            yield batch.body()
            batch = Batch()
    yield batch.body()
