"""Backups of a store: made while its broker runs, and put back so that nobody is misled.

**To make one** is to copy the store as it is at the end of some transaction (SQLite's own backup, from a
connection that only reads, and that nobody waits for), to read all of the copy, and only then to give it its
name. It is one file, for its owner's eyes only.

**To restore one** is to check all of it, to make of it a state that begins anew (see `store_anew`: neighbours
and clients know of things that the backup does not), and to put that where the broker will look for its
store. A store that is there stays there, unless it is said that it is to make room; then it is kept under
another name. At no time is there half a store, nor none where there was one: until the new one is in its
place, the mark of the old one keeps a broker from starting with nothing.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from roost.broker.commands import StoreKey
from roost.broker.messages import DATA, Publication
from roost.broker.runs import Run
from roost.errors import UserError
from roost.runtime.config import read_config
from roost.runtime.server import STORE_NAME
from roost.runtime.store import read_records
from roost.runtime.store_anew import Anew, begin_anew, numbers_of
from roost.runtime.store_file import (
    BACKUP_AT,
    MARK,
    Lock,
    StoreFile,
    beside,
    check_wal,
    meta_crc,
    reader,
    said,
    sync_folder,
)
from roost.runtime.store_format import StoreError, Unfolded, pack_writes, unpack_key
from roost.wire import WireError, unpack_record

# What a store has beside it that belongs to its content.
_PARTS: Final = ("", "-wal", MARK)


class Backup(Struct, frozen=True):
    """A backup that was made."""

    path: str
    store: str
    made_at: int
    bytes: int
    records: int
    commit: int  # the last one that is in it
    running: bool  # whether the broker was, as far as one can tell


class Lost(Struct, frozen=True):
    """What the store that was there had, compared with what took its place."""

    commits: int | None  # made since the backup; None: it was of another store
    sessions: int  # durable ones that the backup doesn't have
    deliveries: int  # that waited for durable sessions, and are lost
    events: int  # that waited for neighbours, and are lost
    again: int  # deliveries that had been handled since, and come again


class Restored(Struct, frozen=True):
    """A backup that is a store now."""

    store: str
    backup: str
    made_at: int
    records: int
    anew: Anew
    kept: str | None  # where the store is that was there
    lost: Lost | None  # compared with that; None: there was none, or it can't be read


def store_of(place: Path) -> Path:
    """The store of a broker: by its folder, or by the settings that name it."""
    if place.is_dir() or not place.exists():
        return place / STORE_NAME
    data = read_config(place).broker.data
    if not data:
        raise UserError(f"{place}: [broker] data is empty; expected the folder of a store")
    return Path(data) / STORE_NAME


# --- making one -------------------------------------------------------------------------------------


def back_up(store: Path, target: Path, *, replace: bool = False) -> Backup:
    """Copy a store as it is now, whether its broker runs or not."""
    store = Path(os.path.realpath(store))
    if not store.is_file():
        raise UserError(f"{store}: there is no store; expected the folder of one, or its settings")
    made_at = int(time.time())
    if target.is_dir():
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(made_at))
        target /= f"roost-{stamp}.db"
    target = Path(os.path.realpath(target))
    if target in [beside(store, suffix) for suffix in (*_PARTS, "-shm", ".lock")]:
        raise UserError(f"{target}: it belongs to the store itself; name another file")
    if target.exists() and not replace:
        raise UserError(f"{target}: it is there already; name another file, or use --replace")
    with _temporary(target) as temporary:
        with _kept_out(store) as running:
            with StoreFile.read_only(store) as source:
                marked = source.marked
            _copy(store, temporary, made_at)
        records, commit = _checked(temporary)
        if commit < marked:
            raise StoreError(
                f"{store}: older than it was, by {marked - commit:,} commits: its -wal is missing or was cut"
                " off; bring back the files that belong together"
            )
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.replace(temporary, target)
        sync_folder(target.parent)
    return Backup(str(target), str(store), made_at, size, records, commit, running)


@contextmanager
def _kept_out(store: Path) -> Iterator[bool]:
    """If no broker runs, none begins meanwhile; whether one does.

    What nobody has open is checked as a broker would check it before it opens it.
    """
    try:
        lock = Lock(store)
    except StoreError:
        yield True
        return
    try:
        with said(store):
            check_wal(store)
        yield False
    finally:
        lock.release()


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A file beside it, for its owner only; gone in the end, unless it has got its name."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise UserError(f"{target}: can't be written: {error.strerror or error}") from None
    temporary = Path(name)
    try:
        yield temporary
    except OSError as error:
        raise UserError(f"{target}: can't be written: {error.strerror or error}") from None
    finally:
        for suffix in ("", "-wal", "-shm", "-journal", MARK, ".lock"):
            with suppress(OSError):
                beside(temporary, suffix).unlink()


def _copy(store: Path, target: Path, made_at: int | None) -> None:
    """The store as it is at the end of a transaction, in one file."""
    with said(target), closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # it is made safe at the end, at once
        with said(store), closing(reader(store)) as source:
            source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        if made_at is not None:
            row = (BACKUP_AT, made_at, meta_crc(BACKUP_AT, made_at))
            copy.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)


def _checked(path: Path) -> tuple[int, int]:
    """All of it has been read: how many records, and the number of the last commit."""
    unfolded = Unfolded()
    with StoreFile.read_only(path) as file:
        try:
            for key, record in file.rows():
                unpack_key(key)
                unpack_record(record)
                unfolded.add_kept(key, len(record))
            for writes in file.logged():
                unfolded.apply(writes)
            for part in (unfolded.changed, unfolded.fresh):
                for key, record in part.items():
                    unpack_key(key)
                    unpack_record(record)
        except (ValueError, WireError) as error:
            raise StoreError(f"{path}: a record is unreadable: {error}") from error
        return len(unfolded.kept) + len(unfolded.fresh), file.last_id


# --- putting it back --------------------------------------------------------------------------------


def restore(backup: Path, store: Path, *, force: bool = False) -> Restored:
    """Make a backup the store of a broker, which begins anew with it."""
    store = Path(os.path.realpath(store))
    if not backup.is_file():
        raise UserError(f"{backup}: there is no such file; expected one that `roost backup` made")
    with StoreFile.read_only(backup) as file:
        made_at, store_id = file.backup_at, file.store_id
    if made_at is None:
        raise UserError(
            f"{backup}: a store, and not a backup of one, so nobody knows whether it is whole; expected a"
            " file that `roost backup` made"
        )
    try:
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError(
            f"{store.parent}: can't be the folder of a store: {error.strerror}"
        ) from None
    lock = Lock(store)  # no broker has it, nor begins meanwhile
    try:
        there = [beside(store, suffix) for suffix in _PARTS if beside(store, suffix).exists()]
        if there and not force:
            raise UserError(
                f"{there[0]}: a store is there; name another folder, or use --force, which keeps it under"
                " another name"
            )
        with _temporary(store) as temporary:
            _copy(backup, temporary, None)
            records, anew, commit = _made_new(temporary)
            lost = _lost(store, records, store_id, commit) if store.exists() else None
            kept = _moved_aside(store) if there else None
            os.replace(temporary, store)
            if kept is not None and beside(store, MARK).exists():
                beside(store, MARK).rename(beside(kept, MARK))
            sync_folder(store.parent)
    finally:
        lock.release()
    return Restored(
        store=str(store),
        backup=str(backup),
        made_at=made_at,
        records=len(records),
        anew=anew,
        kept=None if kept is None else str(kept),
        lost=lost,
    )


def _made_new(path: Path) -> tuple[Mapping[StoreKey, Any], Anew, int]:
    """Make of a copy a store that begins anew: what was in it, what is changed, its last commit."""
    file = StoreFile.open(path)
    try:
        unfolded = Unfolded()
        records = read_records(file, unfolded)
        commit = file.last_id
        anew = begin_anew(records)
        unfolded.apply(pack_writes(anew.writes))
        with said(path):
            file.begin_life()
            file.accepted()
            file.fold(unfolded.fold())
    finally:
        file.close()
    return records, anew, commit


def _moved_aside(store: Path) -> Path:
    """All but the mark, which stays until the new store is there: without it nothing would be missed."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 0
    while (kept := beside(store, f".before-{stamp}" + (f"-{number}" if number else ""))).exists():
        number += 1
    if store.exists() and not beside(store, MARK).exists():
        beside(store, MARK).write_bytes(b"a backup is being restored\n")
    for suffix in ("", "-wal"):
        if beside(store, suffix).exists():
            beside(store, suffix).rename(beside(kept, suffix))
    beside(store, "-shm").unlink(missing_ok=True)
    sync_folder(store.parent)
    return kept


def _lost(store: Path, records: Mapping[StoreKey, Any], store_id: str, commit: int) -> Lost | None:
    """What the store that is there has, and these records of it, up to that commit, have not."""
    try:
        check_wal(store)
        with StoreFile.read_only(store) as file:
            had = read_records(file, Unfolded())
            same = file.store_id == store_id
            commits = file.last_id - commit if same else None
    except (StoreError, OSError):
        return None  # which may be why it is replaced
    mine, theirs = _waiting(records), _waiting(had)
    return Lost(
        commits=commits,
        sessions=sum(
            key[0] == "session" and value[2] and key not in records for key, value in had.items()
        ),
        deliveries=len(theirs["session"] - mine["session"]),
        events=len(theirs["link"] - mine["link"]),
        again=len(mine["session"] - theirs["session"]),
    )


def _waiting(records: Mapping[StoreKey, Any]) -> dict[str, set[StoreKey]]:
    """Deliveries for durable sessions, and events for neighbours."""
    found: dict[str, set[StoreKey]] = {"session": set(), "link": set()}
    for key, value in records.items():
        if key[0] not in ("out", "run"):
            continue
        messages = {(*key[1:-1], number) for number in numbers_of(records, key)}
        if key[1] == "link" and (isinstance(value, Run) or isinstance(value[0], Publication)):
            found["link"] |= messages
        elif key[1] == "session" and key[3] == DATA:
            session = records.get(("session", key[2]))
            if session is not None and session[2]:
                found["session"] |= messages
    return found
