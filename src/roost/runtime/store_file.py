"""The file of a store: SQLite, so that a transaction is on the disk whole or not at all.

    log(id, crc, body)       a row a commit since the last fold, without gaps from `log_from` on
    kv(key, value, crc)      the folded state; its rowids keep the order in which keys were first written
    meta(name, value, crc)   version, store_id, records (rows in kv), log_from (id of the log's first row)

Ids of the log are numbers of commits. A fold is one too, though it leaves no row; so they only ever rise, and
`store_mark` can tell by them whether this is an older state.

A commit is one INSERT that commits itself: one call, in which SQLite appends to its write-ahead log and
has the disk confirm it (synchronous=FULL). To bring pages from there to their places is put off until a
fold, because by then most are not needed any more. Others may read it meanwhile (a backup does), and keep
nobody from writing; a second broker is kept out by locks of our own.

What is read is checked: SQLite's structures by SQLite, its write-ahead log by `store_wal`, every row by its
checksum, how far it has come by `store_mark`. Whatever is wrong is a `StoreError`. Damage is never passed
over, and nothing is repaired by guessing. What is refused is left as it is.

A store of an older format is brought up to date once all of it has been read; one of a newer is refused.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from roost.runtime.store_format import (
    FORMAT_VERSION,
    FORMAT_VERSION_MIN,
    Fold,
    Packed,
    StoreError,
    body_crc,
    row_crc,
    unpack_body,
)
from roost.runtime.store_mark import Mark, read_mark
from roost.runtime.store_wal import wal_damage

# Large ones take less time a byte, small ones fewer bytes a commit that is small.
PAGE_BYTES = 8192
CACHE_KIB = 8192
# Beyond this the write-ahead log is cut back when it has been emptied.
WAL_BYTES_KEPT = 64_000_000
# What a row of the log counts for beside its body: the smallest takes a page or two.
ROW_BYTES = PAGE_BYTES // 2
# Rows in one statement. Each statement is a chance for the event loop to take the interpreter away for
# milliseconds: a row a statement would make a fold take minutes.
ROWS_A_STATEMENT = 500

ADVICE = (
    "restore it from a backup, or move it and the files beside it away to start with nothing: what it"
    " holds for others is lost then"
)

_SCHEMA = """
    CREATE TABLE log(id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE TABLE kv(key BLOB PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL);
    CREATE TABLE meta(name TEXT PRIMARY KEY, value NOT NULL, crc INTEGER NOT NULL);
"""
MARK = "-mark"
# Of a backup, meta has this too: when it was made.
BACKUP_AT = "backup_at"
OPENING_S = 2.0
_PRAGMAS = (
    "synchronous = FULL",
    "wal_autocheckpoint = 0",
    # Some builds overwrite whatever is deleted, which would be the whole log.
    "secure_delete = OFF",
    f"cache_size = -{CACHE_KIB}",
    f"journal_size_limit = {WAL_BYTES_KEPT}",
)


class StoreFile:
    """A store's file, locked. Made by `open`; `rows` and then `logged` come before all else."""

    def __init__(self, path: Path, lock: Lock | None, connection: sqlite3.Connection) -> None:
        self.path = path
        self.store_id = ""
        self.version = 0
        self.log_bytes = 0  # since the last fold
        self.backup_at: int | None = None  # when it was made, if it is a backup
        self.marked = 0  # the number of the last commit that was known of when it was opened
        self._lock = lock
        self._connection = connection
        self._cursor = connection.cursor()
        self._log_from = 0
        self._next_id = 0
        self._records = 0
        self._mark: Mark | None = None
        # What the files are that we have open, by the endings of their names.
        self._places = {} if lock is None else {"": lock.place}

    @classmethod
    def open(cls, path: Path) -> StoreFile:
        """The store of that name, or a new one; StoreError if it can't be had or is damaged."""
        # As SQLite does, so that we look for the files beside it where they are.
        path = Path(os.path.realpath(path))
        lock = Lock(path)
        connection = None
        try:
            with said(path):
                _prepare(path)
                lock.take_file()
                connection = _connect(path)
                file = cls(path, lock, connection)
                file._check()
                return file
        except BaseException:
            if connection is not None:
                _close_as_it_is(path, connection)
            lock.release()
            raise

    @classmethod
    @contextmanager
    def read_only(cls, path: Path) -> Iterator[StoreFile]:
        """A store as it is now, for whoever only reads it, whether a broker has it or not."""
        path = Path(os.path.realpath(path))
        with said(path), closing(reader(path)) as connection:
            connection.execute("BEGIN")  # so that all that is read is of one time
            file = cls(path, None, connection)
            file._check()
            yield file

    # --- reading ------------------------------------------------------------------------------------

    def _check(self) -> None:
        connection = self._connection
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        if {name for (name,) in tables} != {"kv", "log", "meta"}:
            raise StoreError(
                f"{self.path}: not a store of Roost; name another file, or move this one away"
            )
        rows = connection.execute("SELECT name, value, crc FROM meta")
        meta = {name: (value, crc) for name, value, crc in rows}
        version, crc = meta.get("version", (None, None))
        if crc == meta_crc("version", version) and not (
            type(version) is int and FORMAT_VERSION_MIN <= version <= FORMAT_VERSION
        ):
            raise StoreError(
                f"{self.path}: a store of format {version}, and this Roost reads formats"
                f" {FORMAT_VERSION_MIN} to {FORMAT_VERSION}; start the Roost that wrote it, or move it and"
                " the files beside it away to start with nothing"
            )
        names = ["version", "store_id", "records", "log_from"]
        for name in names + [BACKUP_AT] * (BACKUP_AT in meta):
            value, crc = meta.get(name, (None, None))
            if crc != meta_crc(name, value):
                raise damaged(self.path, f"{name} of the table meta is wrong")
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise damaged(self.path, f"SQLite finds: {' '.join(found.split())}")
        self.version = version
        self.backup_at = meta[BACKUP_AT][0] if BACKUP_AT in meta else None
        self.store_id = str(meta["store_id"][0])
        self.marked = read_mark(beside(self.path, MARK), self.store_id)
        self._records = meta["records"][0]
        self._log_from = self._next_id = meta["log_from"][0]

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """The folded state: keys and records, in the order in which the keys were first written."""
        count = 0
        with said(self.path):
            for key, record, crc in self._connection.execute(
                "SELECT key, value, crc FROM kv ORDER BY rowid"
            ):
                count += 1
                if not type(key) is type(record) is bytes or crc != row_crc(key, record):
                    raise damaged(self.path, f"the checksum of row {count} of kv is wrong")
                yield key, record
        if count != self._records:
            raise damaged(self.path, f"kv has {count:,} rows and should have {self._records:,}")

    def records(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The records of these keys, all of which are in kv."""
        found: dict[bytes, bytes] = {}
        for chunk in _chunks(keys):
            rows = self._connection.execute(
                f"SELECT key, value, crc FROM kv WHERE key IN ({_marks(len(chunk), '?')})", chunk
            ).fetchall()
            for key, record, crc in rows:
                if not type(key) is type(record) is bytes or crc != row_crc(key, record):
                    raise damaged(self.path, "the checksum of a row of kv is wrong")
                found[key] = record
        missing = sum(key not in found for key in keys)
        if missing:
            raise damaged(self.path, f"{missing:,} records that should be in kv are not there")
        return found

    def logged(self) -> Iterator[Iterable[Packed]]:
        """What was written since, a commit at a time."""
        with said(self.path):
            for id_, crc, body in self._connection.execute(
                "SELECT id, crc, body FROM log ORDER BY id"
            ):
                if id_ != self._next_id:
                    raise damaged(
                        self.path, f"row {self._next_id} of the log is missing; {id_} comes next"
                    )
                if type(body) is not bytes or crc != body_crc(id_, body):
                    raise damaged(self.path, f"the checksum of row {id_} of the log is wrong")
                try:
                    writes = unpack_body(body)
                except ValueError as error:
                    raise damaged(
                        self.path, f"row {id_} of the log is unreadable: {error}"
                    ) from error
                self._next_id += 1
                self.log_bytes += ROW_BYTES + len(body)
                yield writes

    @property
    def last_id(self) -> int:
        """The number of the last commit, once all has been read."""
        return self._next_id - 1

    def accepted(self) -> None:
        """It is good, and of the age it should be: it is the store from here on."""
        if self.version < FORMAT_VERSION:
            with said(self.path):
                self._cursor.execute(
                    "UPDATE meta SET value = ?, crc = ? WHERE name = 'version'",
                    (FORMAT_VERSION, meta_crc("version", FORMAT_VERSION)),
                )
            self.version = FORMAT_VERSION
        self._mark = Mark(beside(self.path, MARK), self.store_id)
        self.mark(safe=True)
        self.check_place()  # from here on they are those that they should be

    def check_place(self) -> None:
        """StoreError if the files that are written to are not those that the next start would find."""
        for suffix in ("", "-wal"):
            path = beside(self.path, suffix)
            try:
                found = os.stat(path)
            except FileNotFoundError:
                if suffix not in self._places:
                    continue  # nothing has been written yet
                what = "is not there any more"
            else:
                place = (found.st_dev, found.st_ino)
                if self._places.setdefault(suffix, place) == place:
                    continue
                what = "is another file now"
            raise StoreError(
                f"{path} {what}: it was deleted, moved or replaced under the broker, and what is accepted"
                " would be lost; put it back, or stop the broker and restore a backup"
            )

    # --- writing: each is done whole or not at all, and may be tried again ----------------------------

    def append(self, body: bytes) -> None:
        """Commit a row of the log; once this returns, it is safe."""
        id_ = self._next_id
        self._rollback()
        self._cursor.execute("INSERT INTO log VALUES (?, ?, ?)", (id_, body_crc(id_, body), body))
        self._next_id = id_ + 1
        self.log_bytes += ROW_BYTES + len(body)
        if self._mark is not None:
            self._mark.committed(len(body))

    def fold(self, fold: Fold) -> None:
        """Bring kv up to date, and empty the log; once this returns, it is safe."""
        self._rollback()
        execute = self._cursor.execute
        execute("BEGIN IMMEDIATE")
        # First, so that their pages are used again.
        execute("DELETE FROM log")
        for keys in _chunks(fold.gone):
            execute(f"DELETE FROM kv WHERE key IN ({_marks(len(keys), '?')})", keys)
            if self._cursor.rowcount != len(keys):
                missing = len(keys) - self._cursor.rowcount
                raise damaged(self.path, f"{missing:,} records that should be in kv are not there")
        insert = "INSERT INTO kv(key, value, crc) VALUES"
        update = "ON CONFLICT(key) DO UPDATE SET value = excluded.value, crc = excluded.crc"
        for rows, conflict in ((fold.changed, update), (fold.fresh, "")):
            for chunk in _chunks(rows.items()):
                cells = [
                    cell for key, record in chunk for cell in (key, record, row_crc(key, record))
                ]
                execute(f"{insert} {_marks(len(chunk), '(?, ?, ?)')} {conflict}", cells)
        for name, value in (("records", fold.records), ("log_from", self._next_id + 1)):
            execute(
                "UPDATE meta SET value = ?, crc = ? WHERE name = ?",
                (value, meta_crc(name, value), name),
            )
        execute("COMMIT")
        self._next_id += 1
        self.log_bytes = 0

    def begin_life(self) -> None:
        """It is a store of its own from here on: no backup, and none that a mark knows of."""
        self._rollback()
        self._cursor.execute("BEGIN IMMEDIATE")
        self._cursor.execute("DELETE FROM meta WHERE name = ?", (BACKUP_AT,))
        self.store_id, self.backup_at = secrets.token_hex(16), None
        self._cursor.execute(
            "UPDATE meta SET value = ?, crc = ? WHERE name = 'store_id'",
            (self.store_id, meta_crc("store_id", self.store_id)),
        )
        self._cursor.execute("COMMIT")

    def checkpoint(self) -> None:
        """Bring pages from the write-ahead log to their places, so that it begins anew."""
        self._rollback()
        self.mark(safe=True)
        self._cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def mark_is_due(self, *, idle: bool) -> bool:
        return self._mark is not None and self._mark.is_due(self.last_id, idle=idle)

    def mark(self, *, safe: bool = False) -> None:
        """Write down how far it has come; see `store_mark`."""
        if self._mark is not None:
            with suppress(OSError):  # then it says too little, which does no harm
                self._mark.write(self.last_id, safe=safe)

    def _rollback(self) -> None:
        """What an attempt that failed may have left."""
        if self._connection.in_transaction:
            self._cursor.execute("ROLLBACK")

    def close(self) -> None:
        # What fails here has been tried before, and what is safe stays so.
        with suppress(sqlite3.Error):
            self._rollback()
        try:
            self.check_place()
            usable = self._mark is not None
        except (StoreError, OSError):
            usable = False
        if usable:
            self.mark(safe=True)
            with suppress(sqlite3.Error):
                self._connection.close()
        else:
            with suppress(sqlite3.Error):
                _close_as_it_is(self.path, self._connection)
        if self._mark is not None:
            self._mark.close()
        if self._lock is not None:
            self._lock.release()


# --- what is wrong, in words ------------------------------------------------------------------------


def damaged(path: Path, what: str) -> StoreError:
    return StoreError(f"{path}: the store is damaged: {what}; {ADVICE}")


def in_words(error: BaseException) -> str:
    """What SQLite or the system says."""
    if isinstance(error, StoreError):
        return str(error)
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    return f"{str(error) or 'no more is known'} ({name})"


# What SQLite says when it is not the content of the file that is wrong.
_CIRCUMSTANCES = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_AUTH,
    )
)


@contextmanager
def said(path: Path) -> Iterator[None]:
    """What SQLite and the system say about the file, as a StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise _in_use(path, "another process") from error
        if code in _CIRCUMSTANCES:
            raise _unusable(path, in_words(error)) from error
        raise damaged(path, in_words(error)) from error
    except UnicodeDecodeError as error:
        # From Python's own part in it, for instance when SQLite's message quotes what is damaged.
        raise damaged(path, in_words(error)) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _in_use(path: Path, by: str) -> StoreError:
    return StoreError(
        f"{path}: in use by {by}; a store has one broker: stop it, or name another file"
    )


def _unusable(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path}: can't be used as a store: {what}; expected a file, or room for a new one, in a folder"
        " that the broker may write to"
    )


# --- opening ----------------------------------------------------------------------------------------


class Lock:
    """The right to be the only one who writes to a store; gone with the process, however that ends.

    It is a lock on a file beside it, which says who has it, and one on the store itself, because the other
    can be deleted. Neither is one of SQLite's: others may read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[int] = []
        self.place = (0, 0)  # which file the store is
        with said(path):
            self._files.append(
                os.open(beside(path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            )
        lock = self._files[0]
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            pid = os.read(lock, 20).decode("ascii", "replace").strip()
            self.release()
            raise _in_use(path, f"process {pid}" if pid else "another process") from None
        except OSError as error:
            self.release()
            raise _unusable(path, error.strerror or str(error)) from error

    def take_file(self) -> None:
        """The store is there: lock it, too."""
        # It stays open as long as SQLite has the file: to close it would take SQLite's locks away.
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._files.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(self._path, "another process") from None
        found = os.fstat(file)
        self.place = (found.st_dev, found.st_ino)

    def release(self) -> None:
        for file in reversed(self._files):
            os.close(file)
        self._files.clear()


def _prepare(path: Path) -> None:
    """Make the file if there is none; else look at what SQLite doesn't."""
    if not path.exists():
        for left in (beside(path, "-wal"), beside(path, MARK)):
            if left.exists() and left.stat().st_size:
                raise damaged(path, f"it is missing, but {left.name} is there")
        _create(path)
    # It is never empty: it comes into its place with everything in it.
    elif not path.stat().st_size:
        raise damaged(path, "it is empty")
    else:
        check_wal(path)


def check_wal(path: Path) -> None:
    """What SQLite would pass over. Nobody may have the store open."""
    wal = beside(path, "-wal")
    if wal.exists() and (what := wal_damage(wal.read_bytes())):
        raise damaged(path, f"{wal.name}: {what}")


def _create(path: Path) -> None:
    new = beside(path, ".new")
    for left in (new, beside(new, "-wal")):
        left.unlink(missing_ok=True)
    # Other people's events are in it.
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(new, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_SCHEMA)
        meta = {
            "version": FORMAT_VERSION,
            "store_id": secrets.token_hex(16),
            "records": 0,
            "log_from": 1,
        }
        for name, value in meta.items():
            row = (name, value, meta_crc(name, value))
            connection.execute("INSERT INTO meta VALUES (?, ?, ?)", row)
    finally:
        connection.close()  # which brings all to its place in the file
    new.rename(path)
    sync_folder(path.parent)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fspath(path))}?mode=rw",
        uri=True,
        isolation_level=None,
        # Somebody may be looking at it just now, with a tool or for a backup.
        timeout=OPENING_S,
        # Those of a fold are large, and of any length.
        cached_statements=16,
        # Opened and closed by one thread, used by another in between.
        check_same_thread=False,
    )
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise _unusable(path, f"SQLite chose the journal mode {mode!r} over 'wal'")
        # Whether somebody else writes to it, with a tool.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read, whoever writes meanwhile."""
    return sqlite3.connect(
        f"file:{quote(os.fspath(path))}?mode=ro",
        uri=True,
        isolation_level=None,
        timeout=OPENING_S,
        check_same_thread=False,
    )


def _close_as_it_is(path: Path, connection: sqlite3.Connection) -> None:
    """Close it, and bring nothing to its place: what is refused is somebody else's to look at."""
    with suppress(sqlite3.Error), closing(reader(path)) as other:
        # SQLite tidies up behind the last one only, and one that reads can't.
        other.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        connection.close()
    connection.close()


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def sync_folder(folder: Path) -> None:
    """What was made, renamed or removed in it is so after a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def meta_crc(name: str, value: object) -> int:
    return zlib.crc32(f"{name}={value!r}".encode())


def _marks(count: int, mark: str) -> str:
    return ", ".join([mark] * count)


Item = TypeVar("Item")


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while chunk := list(islice(rest, ROWS_A_STATEMENT)):
        yield chunk
