"""The durable store of one broker: what it wrote and was told to be safe is there after any crash.

    load     the state that the last transaction left, or a StoreError that says why it can't be had
    write    one transaction; returns at once
    read     some records, for a broker that doesn't keep all of them in memory
    on_safe  called when everything up to that transaction is on the disk
    on_commit  called with what is about to be made safe, if somebody else is to have it, too
    close    makes safe what is not yet

**Group commit.** A thread of its own takes all transactions that have come while it was busy with the last
commit, and writes them as one: however many come, the disk confirms once. So the busier the broker, the
fewer commits an event. A commit gives up and takes back the interpreter as rarely as can be, because a busy
event loop returns it only when it waits for something.

**Folding** (see `store_format`) happens now and then, when the log has grown enough. It takes the state as
it is by then, so it makes safe what waited, too.

**Trouble.** When the disk is full or fails, nothing is called safe. What failed is tried again until it
works, everything behind it waits, and `trouble` says so. `backlog_bytes` tells how much waits: it is on
the caller to accept no more. A store that is deleted, moved or replaced while it is open is the same kind of
trouble, noticed within a second: what is written to it, no start would find.

**Age.** A store that is older than it was known to be (see `store_mark`) is refused, because it takes back
what others were promised. With `accept_older` it is taken, as one that begins anew (see `store_anew`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from roost.broker.commands import StoreKey
from roost.runtime.store_anew import begin_anew
from roost.runtime.store_file import StoreFile, beside, damaged, in_words
from roost.runtime.store_format import (
    Batch,
    StoreError,
    Unfolded,
    pack_key,
    pack_writes,
    unpack_key,
)
from roost.wire import WireError, unpack_record

__all__ = ["Store", "StoreCounters", "StoreError"]

# How much the log may hold before it is folded: what a start has to read, and what a fold may take.
FOLD_BYTES = 16_000_000
# One commit takes no more than this and one transaction: it is copied twice on its way to the disk.
BATCH_BYTES = 32_000_000
# How long to wait after an attempt that failed; doubles each time, up to the second.
RETRY_MIN_S, RETRY_MAX_S = 0.05, 2.0
# How often to look whether the files are where they were.
LOOK_S = 1.0


class StoreCounters(Struct):
    """What the store has done since it was opened, for metrics."""

    commits: int = 0  # including folds that made something safe
    committed_bytes: int = 0  # as `backlog_bytes` counts them
    committed_transactions: int = 0
    commit_s: float = 0.0  # all of them
    last_commit_s: float = 0.0
    last_commit_bytes: int = 0
    last_commit_transactions: int = 0
    folds: int = 0
    last_fold_s: float = 0.0
    failures: int = 0  # attempts that failed

    @property
    def mean_commit_s(self) -> float:
        return self.commit_s / self.commits if self.commits else 0.0

    @property
    def mean_commit_transactions(self) -> float:
        return self.committed_transactions / self.commits if self.commits else 0.0


def read_records(file: StoreFile, unfolded: Unfolded) -> dict[StoreKey, Any]:
    """All that is in a file, by its keys; and what is to be done to kv to get there."""
    records: dict[StoreKey, Any] = {}
    try:
        for key, record in file.rows():
            records[unpack_key(key)] = unpack_record(record)
            unfolded.add_kept(key, len(record))
        for writes in file.logged():
            unfolded.apply(writes)
        for key in unfolded.gone:
            del records[unpack_key(key)]
        for part in (unfolded.changed, unfolded.fresh):
            for key, record in part.items():
                records[unpack_key(key)] = unpack_record(record)
    except (ValueError, WireError) as error:
        raise damaged(file.path, f"a record is unreadable: {error}") from error
    return records


class Read(NamedTuple):
    """Somebody who waits for records: those that were not in kv when they were asked for, and the others."""

    keys: list[bytes]
    found: dict[bytes, bytes]
    in_kv: list[bytes]
    done: Callable[[list[Any]], object]


class Store:
    """A store that is open. All but what the thread does is for one thread, that of the event loop."""

    def __init__(
        self,
        file: StoreFile,
        *,
        on_safe: Callable[[int], object],
        retained_bytes_max: int | None,
        fold_bytes: int,
        retry_s: tuple[float, float],
        accept_older: bool = False,
        look_s: float = LOOK_S,
        on_commit: Callable[[int, bytes], object] | None = None,
    ) -> None:
        self.retained_bytes_max = retained_bytes_max
        self.counters = StoreCounters()
        self._file = file
        self._on_safe = on_safe
        self._on_commit = on_commit
        self._fold_bytes = fold_bytes
        self._retry_min_s, self._retry_max_s = retry_s
        self._accept_older = accept_older
        self._look_s = look_s
        self._look_at = time.monotonic()
        self._thread: threading.Thread | None = None
        # What both threads use. The lock is never held while something is read or written.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._unfolded = Unfolded()
        self._waiting: deque[Batch] = deque()
        self._reads: list[Read] = []
        self._accepted_bytes = 0
        self._safe_bytes = 0  # of those
        self._idle = False  # the thread waits for something to do
        self._closing = False
        self._closed = False
        self._failed: tuple[str, float, int] | None = None  # what, since when, attempts

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        on_safe: Callable[[int], object],
        retained_bytes_max: int | None = None,
        fold_bytes: int = FOLD_BYTES,
        retry_s: tuple[float, float] = (RETRY_MIN_S, RETRY_MAX_S),
        accept_older: bool = False,
        on_commit: Callable[[int, bytes], object] | None = None,
    ) -> Store:
        """Open the store, or make one; StoreError if another process has it, or it can't be used.

        `on_safe(token)` is called on the store's own thread: everything up to that transaction is safe. It
        must not raise. `on_commit(token, body)`, ahead of it, is too: what is written up to that transaction,
        as a row of the log has it.
        """
        return cls(
            StoreFile.open(path),
            on_safe=on_safe,
            retained_bytes_max=retained_bytes_max,
            fold_bytes=fold_bytes,
            retry_s=retry_s,
            accept_older=accept_older,
            on_commit=on_commit,
        )

    # --- for the event loop -------------------------------------------------------------------------

    def load(self) -> dict[StoreKey, Any]:
        """All records, in the order in which their keys were first written. Once, before any `write`.

        StoreError if it is damaged, or older than it was; it is closed then, and as it was.
        """
        if self._thread is not None:
            raise RuntimeError("a store is loaded once")
        try:
            records = read_records(self._file, self._unfolded)
            missing = self._file.marked - self._file.last_id
            if missing > 0:
                self._check_older(missing, records)
            self._file.accepted()
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()
        return records

    def _check_older(self, missing: int, records: dict[StoreKey, Any]) -> None:
        """The last commits are not there."""
        path = self._file.path
        if not self._accept_older:
            wal = beside(path, "-wal").name
            raise StoreError(
                f"{path}: older than it was, by {missing:,} commits: {wal} is missing, was cut off or is"
                f" not the one that belongs to it, or {path.name} was put back; bring back the files that"
                " belong together, or restore a backup; `roost broker --accept-older` goes on with what there"
                " is, as a broker that begins anew"
            )
        writes = begin_anew(records).writes
        packed = pack_writes(writes)
        batch = Batch()
        batch.add(0, packed)
        self._file.append(batch.body())
        self._unfolded.apply(packed)
        for key, value in writes.items():
            if value is None:
                del records[key]
            else:
                records[key] = value

    def write(self, token: int, writes: Mapping[StoreKey, Any]) -> None:
        """Write all of this, or none of it; None deletes. Tokens rise."""
        if self._thread is None or self._closing:
            raise RuntimeError("a store is written to after it was loaded, and before it is closed")
        packed = pack_writes(writes)
        waiting = self._waiting
        with self._lock:
            self._unfolded.apply(packed)
            if not waiting or waiting[-1].bytes >= BATCH_BYTES:
                waiting.append(Batch())
            batch = waiting[-1]
            self._accepted_bytes += batch.add(token, packed)
            batch.accepted_bytes = self._accepted_bytes
            if self._idle:
                self._idle = False
                self._changed.notify()

    def read(self, keys: Sequence[StoreKey], done: Callable[[list[Any]], object]) -> None:
        """Read the values of these keys as they are now: `done(values)`, with None for what is not there.

        It is called on the store's own thread, and must not raise. When the store closes, it may not be.
        """
        packed = [pack_key(key) for key in keys]
        with self._lock:
            found, in_kv = self._unfolded.find(packed)
            self._reads.append(Read(packed, found, in_kv, done))
            if self._idle:
                self._idle = False
                self._changed.notify()

    def close(self) -> None:
        """Make safe what is not, and let go of the file. StoreError if that could not be done."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._file.close()
        if self._waiting:
            count = sum(batch.transactions for batch in self._waiting)
            raise StoreError(
                f"{self.trouble}; closed without the last {count:,} transactions, which nobody has been"
                " told were safe"
            )

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def store_id(self) -> str:
        """Of this store only, from when it was made."""
        return self._file.store_id

    @property
    def trouble(self) -> str:
        """Why nothing becomes safe, and for how long; "" if it does."""
        failed = self._failed
        if failed is None:
            return ""
        what, since, attempts = failed
        tried = "once" if attempts == 1 else f"{attempts:,} times"
        return (
            f"{self._file.path}: can't be written for {time.monotonic() - since:.0f} s, tried {tried}:"
            f" {what}"
        )

    @property
    def backlog_bytes(self) -> int:
        """How much has been written and is not safe."""
        return self._accepted_bytes - self._safe_bytes

    @property
    def retained_bytes(self) -> int:
        """Keys and records that are in the store, with what is not safe yet."""
        return self._unfolded.retained_bytes

    @property
    def is_full(self) -> bool:
        return (
            self.retained_bytes_max is not None
            and self._unfolded.retained_bytes >= self.retained_bytes_max
        )

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            # By a fault of a callback, or of ours. Nothing will be safe any more, so at least it is said.
            self._note(error)
            raise

    def _work(self) -> None:
        # From what an earlier process left; if there is no room for that, it will show.
        self._attempt(self._file.checkpoint)
        self._failed = None
        while True:
            with self._lock:
                idle = not (self._waiting or self._reads or self._closing)
                if idle and not self._file.mark_is_due(idle=True):
                    self._idle = True
                    self._changed.wait(self._look_s)
                self._idle = False
                if self._closing and not self._waiting:
                    break
                batch = self._waiting.popleft() if self._waiting else None
                reads, self._reads = self._reads, []
            if not self._look_after(batch, idle=idle):
                return
            self._answer(reads)
            if batch is None:
                continue
            if not self._commit(batch):
                return
            if self._file.log_bytes >= self._fold_bytes and not self._fold():
                return
        if self._file.log_bytes:
            self._fold()
            self._failed = None  # if it failed: it would have been tidier, but nothing is lost

    def _look_after(self, batch: Batch | None, *, idle: bool) -> bool:
        """What has to be done now and then. False: the store closes, and the batch is not written."""
        if self._file.mark_is_due(idle=idle):
            self._file.mark()
        if time.monotonic() - self._look_at < self._look_s:
            return True
        there = self._until_done(self._file.check_place)
        self._look_at = time.monotonic()
        if not there and batch is not None:
            self._waiting.appendleft(batch)
        return there

    def _answer(self, reads: list[Read]) -> None:
        for read in reads:
            if not self._until_done(partial(self._look, read)):
                return  # the store closes
            records = [read.found.get(key) for key in read.keys]
            read.done([None if record is None else unpack_record(record) for record in records])

    def _look(self, read: Read) -> None:
        read.found.update(self._file.records(read.in_kv))

    def _commit(self, batch: Batch) -> bool:
        begun = time.monotonic()
        body = batch.body()
        if self._on_commit is not None:
            self._on_commit(batch.token, body)
        if not self._until_done(lambda: self._file.append(body)):
            self._waiting.appendleft(batch)
            return False
        self._safe((batch,), begun)
        return True

    def _fold(self) -> bool:
        begun = time.monotonic()
        with self._lock:
            fold = self._unfolded.fold()
            batches = tuple(self._waiting)
            self._waiting.clear()
            reads, self._reads = self._reads, []
        # What they are to find in kv may not be there afterwards.
        self._answer(reads)
        if self._on_commit is not None:
            for batch in batches:
                self._on_commit(batch.token, batch.body())
        if not self._until_done(lambda: self._file.fold(fold)):
            self._waiting.extendleft(reversed(batches))
            return False
        if batches:
            self._safe(batches, begun)
        done = self._until_done(self._file.checkpoint)
        self.counters.folds += 1
        self.counters.last_fold_s = time.monotonic() - begun
        return done

    def _safe(self, batches: tuple[Batch, ...], begun: float) -> None:
        counters, last = self.counters, batches[-1]
        counters.commits += 1
        counters.last_commit_s = time.monotonic() - begun
        counters.commit_s += counters.last_commit_s
        counters.last_commit_bytes = last.accepted_bytes - self._safe_bytes
        counters.committed_bytes += counters.last_commit_bytes
        counters.last_commit_transactions = sum(batch.transactions for batch in batches)
        counters.committed_transactions += counters.last_commit_transactions
        self._safe_bytes = last.accepted_bytes
        self._on_safe(last.token)

    def _until_done(self, step: Callable[[], None]) -> bool:
        """Do it, however often that takes. False: it failed, and the store closes."""
        delay_s = self._retry_min_s
        while not self._attempt(step):
            with self._lock:
                if self._closing:
                    return False
                self._changed.wait(delay_s)
            delay_s = min(2 * delay_s, self._retry_max_s)
        self._failed = None
        return True

    def _attempt(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:
            # Whatever it is: without this thread nothing would ever be safe again, nor anybody know why.
            self._note(error)
            return False
        return True

    def _note(self, error: BaseException) -> None:
        self.counters.failures += 1
        _, since, attempts = self._failed or ("", time.monotonic(), 0)
        self._failed = (in_words(error), since, attempts + 1)
