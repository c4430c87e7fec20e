"""What the tests of the store share: a store whose every step on the disk can be watched and held.

`WatchedFile` is the file of a store, in between its thread and the disk. `Bench` is a store on such a file,
the state that it should have after each transaction, and the obvious way to check that it has.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from roost.broker.commands import StoreKey
from roost.runtime.store import FOLD_BYTES, Store
from roost.runtime.store_file import StoreFile
from roost.runtime.store_format import Fold

# Longer than anything takes; a test that waits so long has failed.
PATIENCE_S = 20.0
TICK_S = 0.002

State = list[tuple[StoreKey, Any]]


class Crash(NamedTuple):
    """What a crash would leave between two steps on the disk, and what has been promised by the second."""

    after: str
    path: Path
    safe: int
    written: int


class WatchedFile(StoreFile):
    """A store's file that stops at a gate before each commit, fails on demand, and is copied at each step."""

    bench: Bench

    def append(self, body: bytes) -> None:
        self.bench.pass_gate()
        self._step("append", lambda: StoreFile.append(self, body))

    def fold(self, fold: Fold) -> None:
        self._step("fold", lambda: StoreFile.fold(self, fold))

    def checkpoint(self) -> None:
        self._step("checkpoint", lambda: StoreFile.checkpoint(self))

    def records(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        self._step("records", lambda: found.update(StoreFile.records(self, keys)))
        return found

    def _step(self, name: str, step: Callable[[], None]) -> None:
        # By the thread that writes, which therefore doesn't write meanwhile.
        self.bench.crash_before()
        try:
            if self.bench.fault is not None and name in self.bench.faulty:
                raise self.bench.fault
            step()
        except Exception:
            self.bench.crash_after(f"{name} failed")
            self.bench.failures += 1
            raise
        self.bench.crash_after(name)

    def sqlite(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()


class Bench:
    """A store at `path`, what it was told, and what it said."""

    def __init__(self, path: Path, crashes: Path | None = None, **options: Any) -> None:
        self.path = path
        self.options: dict[str, Any] = {
            "retained_bytes_max": None,
            "fold_bytes": FOLD_BYTES,
            "retry_s": (0.0005, 0.002),
            **options,
        }
        self.state: dict[StoreKey, Any] = {}
        self.history: list[State] = [[]]  # by token
        self.safe: list[int] = [0]  # tokens that were said to be safe
        self.reads: list[tuple[list[Any], list[Any]]] = []
        self.asked = 0
        self.fault: Exception | None = None
        self.faulty: tuple[str, ...] = ("append", "fold", "checkpoint")
        self.failures = 0
        self.crashes: list[Crash] = []
        self._crash_folder = crashes
        self._said = threading.Condition()
        self._held = False
        self._at_gate = False
        self.loaded = self.open()

    # --- the store ----------------------------------------------------------------------------------

    def open(self) -> dict[StoreKey, Any]:
        file = WatchedFile.open(self.path)
        assert isinstance(file, WatchedFile)
        file.bench = self
        self.file = file
        self.store = Store(file, on_safe=self._is_safe, **self.options)
        return self.store.load()

    def write(self, writes: Mapping[StoreKey, Any]) -> int:
        """One transaction; its token."""
        for key, value in writes.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.history.append(list(self.state.items()))
        token = len(self.history) - 1
        self.store.write(token, writes)
        return token

    def read(self, *keys: StoreKey) -> None:
        """Ask for these; `reads` has what should come, and what came, once it has."""
        expected = [self.state.get(key) for key in keys]
        self.asked += 1

        def done(values: list[Any]) -> None:
            with self._said:
                self.reads.append((expected, values))
                self._said.notify_all()

        self.store.read(keys, done)

    def check_reads(self) -> None:
        self.wait_until(lambda: len(self.reads) == self.asked)
        for expected, values in self.reads:
            assert values == expected

    def reopen(self) -> None:
        self.check_reads()
        self.store.close()
        assert self.safe[-1] == len(self.history) - 1
        assert list(self.open().items()) == self.history[-1]

    def close(self) -> None:
        self.release()
        self.store.close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what its thread does -----------------------------------------------------------------------

    def _is_safe(self, token: int) -> None:
        with self._said:
            self.safe.append(token)
            self._said.notify_all()

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Not everything that can be waited for is said, hence the ticks."""
        deadline = time.monotonic() + PATIENCE_S
        with self._said:
            while not self._said.wait_for(what, TICK_S):
                assert time.monotonic() < deadline

    def wait_safe(self, token: int | None = None) -> None:
        """Until that transaction, or all, are said to be safe."""
        wanted = len(self.history) - 1 if token is None else token
        self.wait_until(lambda: self.safe[-1] >= wanted)

    def wait_marked(self) -> None:
        """Until the mark says what is safe."""
        mark = self.file._mark
        assert mark is not None
        self.wait_until(lambda: mark.number == self.file.last_id)

    def wait_failures(self, more: int) -> None:
        """Until so many more attempts have failed."""
        before = self.failures
        self.wait_until(lambda: self.failures >= before + more)

    def hold(self) -> None:
        """From the next commit on, the thread stops before it writes."""
        self._held = True

    def wait_held(self) -> None:
        self.wait_until(lambda: self._at_gate)

    def release(self) -> None:
        with self._said:
            self._held = False
            self._said.notify_all()

    def pass_gate(self) -> None:
        with self._said:
            self._at_gate = True
            self._said.notify_all()
            self._said.wait_for(lambda: not self._held)
            self._at_gate = False

    # --- crashes ------------------------------------------------------------------------------------

    def crash_after(self, step: str) -> None:
        """Keep what a crash now would leave."""
        if self._crash_folder is not None and step != "records":
            folder = self._crash_folder / str(len(self.crashes))
            folder.mkdir(parents=True)
            copied = copy_store(self.path, folder)
            self.crashes.append(Crash(step, copied, self.safe[-1], len(self.history) - 1))

    def crash_before(self) -> None:
        """Since the last step nothing has changed but what is promised."""
        if self.crashes:
            self.crashes[-1] = self.crashes[-1]._replace(safe=self.safe[-1])

    def check_crashes(self) -> None:
        """After each, the state is that after some transaction, and none that was safe is missing."""
        self.crash_before()
        for crash in self.crashes:
            found = list(load(crash.path).items())
            assert found in self.history[crash.safe : crash.written + 1], crash.after


def copy_store(path: Path, folder: Path) -> Path:
    """The files as they are, without their locks: what a process leaves that is killed now."""
    for suffix in ("", "-wal", "-mark"):
        file = path.with_name(path.name + suffix)
        if file.exists():
            shutil.copyfile(file, folder / file.name)
    return folder / path.name


def load(path: Path) -> dict[StoreKey, Any]:
    """What is in a store."""
    store = Store.open(path, on_safe=lambda _: None)
    try:
        return store.load()
    finally:
        store.close()
