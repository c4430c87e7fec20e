"""The store: what it says is safe is there after any crash, whole, once and in order."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.broker.commands import StoreKey
from roost.broker.messages import Delivery, Publication
from roost.runtime.store import Store, StoreError
from roost.wire import WireError
from tests.broker.kit import Federation
from tests.runtime.store_kit import PATIENCE_S, Bench, copy_store, load
from tests.wire.support import quote

TINY_FOLD = 1  # a fold after each commit


def out(number: int) -> StoreKey:
    return ("out", "link", "B2", 1, number)


# --- anything, with crashes everywhere --------------------------------------------------------------

# Few keys, so that they meet themselves again; of one word, and of several.
FEW: tuple[StoreKey, ...] = (("a",), ("b",), out(7), out(2**40))
KEYS = st.sampled_from(FEW)
VALUES = st.one_of(st.none(), st.integers(0, 9), st.sampled_from(["", "x" * 300, [], (1, "a")]))
TRANSACTIONS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)
# Mostly transactions, so that some are committed together.
STEPS = st.lists(
    st.one_of(*[TRANSACTIONS] * 5, st.just({}), st.sampled_from(["commit", "reopen"])), max_size=12
)


@given(steps=STEPS, fold_bytes=st.sampled_from([TINY_FOLD, 10_000, 30_000, 10**9]))
def test_whatever_happens_the_state_is_one_that_was_and_no_older_than_promised(
    steps: list[dict[StoreKey, Any] | str], fold_bytes: int
) -> None:
    """Against a plain dict, with a crash before and after each step that the store takes on the disk.

    It catches, among others: a commit that splits a transaction; `on_safe` ahead of the commit, or for a
    token that is not in it; a fold that forgets the log's rows, deletes them without their content, or
    counts what waits as safe without writing it; a key that keeps its place when it is deleted and put
    again, in one commit, across two, or across a fold; one that loses its place when it is changed;
    a log whose rows are replayed onto a state that has them already; a read that finds what came later.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder / "store", folder / "crashes", fold_bytes=fold_bytes)
        with bench:
            bench.hold()
            for step in steps:
                if isinstance(step, dict):
                    bench.write(step)
                    # It takes the first for itself, and what comes meanwhile together.
                    bench.wait_held()
                    bench.read(*FEW)
                    continue
                bench.release()
                bench.wait_safe()
                if step == "reopen":
                    bench.reopen()
                bench.hold()
            bench.release()
            bench.wait_safe()
            bench.check_reads()
            assert bench.store.retained_bytes == retained(bench)
            assert bench.store.backlog_bytes == 0
        assert list(load(bench.path).items()) == bench.history[-1]
        assert bench.safe == sorted(set(bench.safe))
        bench.check_crashes()


def retained(bench: Bench) -> int:
    """What the store retains, from a store to which only that was written."""
    with Bench(bench.path.with_name("other")) as other:
        other.write(bench.state)
        return other.store.retained_bytes


@pytest.mark.parametrize("fold_bytes", [TINY_FOLD, 10**9])
@pytest.mark.parametrize("together", [True, False])
def test_a_key_put_again_is_new(tmp_path: Path, together: bool, fold_bytes: int) -> None:
    with Bench(tmp_path / "store", fold_bytes=fold_bytes) as bench:
        if together:
            bench.hold()
            bench.write({("zeroth",): 0})
            bench.wait_held()
        a, b = ("a",), ("b",)
        transactions: list[dict[StoreKey, Any]] = [{a: 1, b: 1}, {a: None}, {a: 2}, {b: 2}]
        for writes in transactions:
            bench.write(writes)
            if not together:
                bench.wait_safe()
        bench.release()
        bench.wait_safe()
        bench.write({("zeroth",): None})
        bench.reopen()
        assert bench.history[-1] == [(("b",), 2), (("a",), 2)]


def test_a_crash_between_a_commit_and_the_fold(tmp_path: Path) -> None:
    """The log's row is there, and kv is from before."""
    with Bench(tmp_path / "store", tmp_path / "crashes", fold_bytes=TINY_FOLD) as bench:
        bench.write({("a",): 1, ("b",): 1})
        bench.wait_safe()
        bench.write({("a",): None, ("c",): 1})
        bench.wait_safe()
    assert [crash.after for crash in bench.crashes[-3:]] == ["append", "fold", "checkpoint"]
    assert list(load(bench.crashes[-3].path)) == [("b",), ("c",)]
    bench.check_crashes()


def test_a_fold_takes_what_waits_with_it(tmp_path: Path) -> None:
    """If it were committed once more, a would come to stand behind b."""
    with Bench(tmp_path / "store", tmp_path / "crashes", fold_bytes=TINY_FOLD) as bench:
        bench.hold()
        bench.write({("zeroth",): 0, ("a",): 0})
        bench.wait_held()
        a, b = ("a",), ("b",)
        transactions: list[dict[StoreKey, Any]] = [{a: None}, {a: 1}, {b: 1}]
        for writes in transactions:
            bench.write(writes)
        bench.release()
        bench.wait_safe()
        assert bench.safe == [0, 1, 4]
        bench.wait_until(lambda: bench.store.counters.folds == 1)
        assert bench.store.counters.commits == 2
        bench.reopen()
    steps = [crash.after for crash in bench.crashes]
    assert steps[:4] == ["checkpoint", "append", "fold", "checkpoint"]
    bench.check_crashes()


def test_a_message_that_has_arrived_by_the_fold_never_touches_kv(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({("sent",): 0})
        for number in range(10):
            bench.write({out(number): "x", ("sent",): number})
            bench.wait_safe()
            bench.write({out(number): None})
        bench.wait_safe()
        folds = bench.store.counters.folds
    assert folds == 0
    with closing(sqlite3.connect(bench.path)) as database, database:
        assert database.execute("SELECT max(rowid) FROM kv").fetchone() == (1,)
        assert database.execute("SELECT count(*) FROM log").fetchone() == (0,)


def test_a_fold_of_many_rows(tmp_path: Path) -> None:
    """More than one statement takes, of each kind."""
    keys = [("k", number) for number in range(1_777)]
    with Bench(tmp_path / "store", fold_bytes=TINY_FOLD) as bench:
        bench.write(dict.fromkeys(keys, 1))
        bench.wait_safe()
        bench.write({key: 2 if key[1] % 2 else None for key in keys[:1_600]})
        bench.reopen()
        bench.write(dict.fromkeys(keys, 3))
        bench.reopen()


# --- what it holds ----------------------------------------------------------------------------------


def test_the_records_of_a_broker(tmp_path: Path) -> None:
    federation = Federation(("B1", "B2"), durable=True)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0 and a < 9")
    federation.settle()
    federation.hold_data.add(("B1", "B2"))
    federation.publish("pub", a=1)
    federation.settle()
    written = federation.stores["B1"]
    assert {key[0] for key in written} >= {"adv", "sub", "link", "session", "out", "sent", "told"}
    with Bench(tmp_path / "store") as bench:
        bench.write(written)
        bench.reopen()


def test_events_come_back_with_their_bytes(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({out(1): (quote(), 3), out(2): (Delivery(quote(), ("s/1",)), 0)})
        bench.reopen()
    message, hops = load(bench.path)[out(1)]
    assert isinstance(message, Publication)
    assert message.encoded
    assert hops == 3


def test_a_value_is_taken_as_it_is_at_the_time(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.hold()
        value = [1]
        bench.store.write(1, {("a",): value})
        value.append(2)
    assert load(bench.path) == {("a",): [1]}


def test_a_transaction_that_has_no_bytes_leaves_nothing_behind(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        with pytest.raises(WireError):
            bench.store.write(1, {("a",): 1, ("b",): object()})
        assert bench.store.retained_bytes == bench.store.backlog_bytes == 0
        bench.write({("c",): 1})
        bench.reopen()


def test_only_the_last_of_several_writes_is_written(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.hold()
        bench.write({("zeroth",): 0})
        bench.wait_held()
        for number in range(1000):
            bench.write({("sent",): number, out(number): "x", out(number - 1): None})
        bench.release()
        bench.wait_safe()
        ids, size = bench.file.sqlite("SELECT max(id), sum(length(body)) FROM log")
        assert ids == 2
        # The deletions of keys that nobody has seen could be left out too; they cost a key each.
        assert size < 20_000


# --- reading one by one -----------------------------------------------------------------------------


def test_reading_what_is_in_kv_and_what_is_not(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({out(number): (quote(), number) for number in range(1_200)})
        bench.reopen()
        bench.write({out(1): "changed", out(2): None, out(2_000): "fresh"})
        bench.read(*map(out, range(1_300)), out(2_000), out(1))
        bench.read()
        bench.check_reads()
        assert bench.reads[0][1][1:3] == ["changed", None]


def test_a_read_finds_what_was_there_when_it_was_asked_for(tmp_path: Path) -> None:
    """Also if it is deleted, and folded, before the thread comes to it."""
    with Bench(tmp_path / "store", fold_bytes=TINY_FOLD) as bench:
        bench.write({out(1): 1, out(2): 1})
        bench.wait_safe()
        bench.wait_until(lambda: bench.store.counters.folds == 1)
        bench.hold()
        bench.write({("sent",): 1})
        bench.wait_held()
        bench.read(out(1), out(2))
        bench.write({out(1): None, out(2): 2})
        bench.read(out(1), out(2))
        bench.release()
        bench.check_reads()
        assert [values for _, values in bench.reads] == [[1, 1], [None, 2]]
        bench.wait_safe()
        assert not bench.store.trouble


def test_a_read_that_fails_is_tried_again(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({out(1): 1})
        bench.reopen()
        bench.faulty, bench.fault = ("records",), sqlite3.OperationalError("disk I/O error")
        bench.read(out(1))
        bench.wait_failures(3)
        assert "disk I/O error" in bench.store.trouble
        bench.fault = None
        bench.check_reads()
        bench.wait_until(lambda: not bench.store.trouble)


def test_a_read_that_fails_when_the_store_closes_keeps_nothing_else_from_the_disk(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "store")
    bench.write({out(1): 1})
    bench.reopen()
    bench.faulty, bench.fault = ("records",), sqlite3.OperationalError("disk I/O error")
    bench.read(out(1))
    bench.wait_failures(1)
    bench.write({out(2): 2})
    bench.store.close()
    assert not bench.reads
    assert list(load(bench.path).items()) == bench.history[-1]


# --- how it is used ---------------------------------------------------------------------------------


def test_transactions_that_come_during_a_commit_are_committed_together(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.hold()
        for number in range(50):
            bench.write({("n",): number})
            bench.wait_held()
        backlog = bench.store.backlog_bytes
        assert backlog > 50 * len(b"\x91\xa1n\x00")
        bench.release()
        bench.wait_safe()
        assert bench.safe == [0, 1, 50]
        counters = bench.store.counters
        assert (counters.commits, counters.committed_transactions) == (2, 50)
        assert counters.committed_bytes == backlog
        assert counters.last_commit_transactions == 49
        assert 0 < counters.last_commit_bytes < backlog
        assert 0 < counters.last_commit_s < counters.commit_s
        assert counters.mean_commit_s == counters.commit_s / 2
        assert counters.mean_commit_transactions == 25
        assert bench.store.backlog_bytes == 0


def test_a_long_backlog_is_committed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roost.runtime.store.BATCH_BYTES", 1_000)
    with Bench(tmp_path / "store", tmp_path / "crashes") as bench:
        bench.hold()
        for number in range(10):
            bench.write({out(number): "x" * 400, ("sent",): number})
            bench.wait_held()
        bench.release()
        bench.wait_safe()
        assert bench.safe == [0, 1, 4, 7, 10]
        bench.reopen()
    bench.check_crashes()


def test_close_makes_safe_what_waits_and_folds(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")
    bench.hold()
    for number in range(5):
        bench.write({out(number): number})
        bench.wait_held()
    bench.close()
    bench.store.close()
    assert bench.safe[-1] == 5
    assert bench.store.counters.folds == 1
    assert not (tmp_path / "store-wal").exists()
    assert list(load(bench.path).items()) == bench.history[-1]


def test_a_store_has_an_order(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", on_safe=lambda _: None)
    with pytest.raises(RuntimeError, match="loaded"):
        store.write(1, {("a",): 1})
    store.load()
    with pytest.raises(RuntimeError, match="once"):
        store.load()
    store.close()
    with pytest.raises(RuntimeError, match="closed"):
        store.write(1, {("a",): 1})


def test_a_store_that_was_not_loaded_can_be_closed(tmp_path: Path) -> None:
    for _ in range(2):
        Store.open(tmp_path / "store", on_safe=lambda _: None).close()


def test_a_store_to_which_nothing_was_written_is_left_as_it_was(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({("a",): 1})
    before = bench.path.read_bytes()
    with Bench(bench.path) as again:
        assert again.loaded == {("a",): 1}
    assert again.store.counters.folds == 0
    assert bench.path.read_bytes() == before


def test_a_store_keeps_its_id(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "one", "two"):
        with Bench(tmp_path / name) as bench:
            ids.append(bench.store.store_id)
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 32


def test_what_comes_while_it_has_nothing_to_do_does_not_wait(tmp_path: Path) -> None:
    with Bench(tmp_path / "store", look_s=10 * PATIENCE_S) as bench:
        for number in range(50):
            bench.write({("a",): number})
            bench.wait_safe()
            bench.read(("a",))
            bench.check_reads()


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """What no test can see without cutting the power."""
    with Bench(tmp_path / "store") as bench:
        assert bench.file.sqlite("PRAGMA journal_mode") == ("wal",)
        assert bench.file.sqlite("PRAGMA synchronous") == (2,)  # FULL


def test_a_new_store_is_in_its_folder_after_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    with Bench(tmp_path / "store"):
        pass
    assert tmp_path.stat().st_ino in synced


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({("a",): 1})
        bench.wait_safe()
        assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
            "store": 0o600,
            "store-mark": 0o600,
            "store-shm": 0o600,
            "store-wal": 0o600,
            "store.lock": 0o600,
        }


def test_the_retained_limit(tmp_path: Path) -> None:
    with Bench(tmp_path / "store", retained_bytes_max=1_000) as bench:
        store = bench.store
        bench.write({out(1): "x" * 900})
        assert (store.is_full, 900 < store.retained_bytes < 1_000) == (False, True)
        bench.write({out(2): "x" * 100})
        assert store.is_full
        bench.reopen()
        assert bench.store.is_full
        bench.write({out(1): None})
        assert not bench.store.is_full
        bench.write({out(2): None})
        assert bench.store.retained_bytes == 0
    with Bench(tmp_path / "store") as bench:
        bench.write({out(1): "x" * 9000})
        assert not bench.store.is_full


def test_at_the_bound_it_is_full(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({out(1): "x"})
        size = bench.store.retained_bytes
        for bound, is_full in ((size - 1, True), (size, True), (size + 1, False)):
            bench.store.retained_bytes_max = bound
            assert bench.store.is_full is is_full


def test_the_log_is_folded_when_it_is_long(tmp_path: Path) -> None:
    with Bench(tmp_path / "store", fold_bytes=100_000) as bench:
        for number in range(50):
            bench.write({out(number): "x" * 9_000, out(number - 1): None})
            bench.wait_safe()
        bench.wait_until(lambda: bench.store.counters.folds >= 3)
        # What is not needed any more is not kept: neither in kv, nor in files that only grow.
        assert bench.file.sqlite("SELECT count(*) FROM kv")[0] <= 1
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 800_000
        bench.reopen()


# --- trouble ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["append", "fold", "checkpoint"])
def test_what_fails_is_tried_again_until_it_works(tmp_path: Path, step: str) -> None:
    """It catches: something called safe that failed; a batch that is dropped, or written twice."""
    fault = sqlite3.OperationalError("disk I/O error")
    with Bench(tmp_path / "store", tmp_path / "crashes", fold_bytes=TINY_FOLD) as bench:
        bench.write({("a",): 1})
        bench.wait_safe()
        bench.wait_until(lambda: bench.store.counters.folds == 1)
        bench.faulty, bench.fault = (step,), fault
        first = bench.write({("b",): 1, ("a",): None})
        bench.wait_failures(3)
        second = bench.write({("b",): 2, ("a",): 2})
        bench.wait_failures(3)
        trouble = bench.store.trouble
        assert trouble.startswith(f"{bench.path}: can't be written for 0 s, tried ")
        assert trouble.endswith("disk I/O error (OperationalError)")
        assert bench.safe[-1] == (first - 1 if step == "append" else first)
        assert bench.store.backlog_bytes
        bench.fault = None
        bench.wait_safe(second)
        bench.wait_until(lambda: not bench.store.trouble)
        assert bench.store.counters.failures == bench.failures >= 6
        bench.reopen()
    bench.check_crashes()


@pytest.mark.parametrize("fold_bytes", [TINY_FOLD, 10**9])
def test_a_full_disk(tmp_path: Path, fold_bytes: int) -> None:
    """SQLite's own bound on the size of the file is as good as a disk's, and can be moved."""
    with Bench(tmp_path / "store", tmp_path / "crashes", fold_bytes=fold_bytes) as bench:
        bench.write({out(0): "x" * 1_000})
        bench.wait_safe()
        (pages,) = bench.file.sqlite("PRAGMA page_count")
        bench.file.sqlite(f"PRAGMA max_page_count = {pages + 4}")
        for number in range(1, 20):
            bench.write({out(number): "x" * 5_000, ("sent",): number})
        bench.wait_failures(2)
        assert "database or disk is full (SQLITE_FULL)" in bench.store.trouble
        assert bench.store.backlog_bytes > 5_000
        assert bench.safe[-1] < 20
        bench.file.sqlite("PRAGMA max_page_count = 1000000")
        bench.wait_safe()
        bench.wait_until(lambda: not bench.store.trouble)
        assert bench.store.backlog_bytes == 0
        bench.reopen()
    bench.check_crashes()


def test_closing_in_trouble_says_what_is_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")
    bench.write({("a",): 1})
    bench.wait_safe()
    bench.fault = OSError(28, "No space left on device")
    bench.write({("b",): 1})
    bench.wait_failures(1)
    bench.write({("c",): 1})
    with pytest.raises(StoreError, match=r"No space left .*without the last 2 transactions"):
        bench.store.close()
    bench.store.close()
    assert list(load(bench.path)) == [("a",)]


def test_closing_says_what_was_to_be_written_with_a_fold_that_failed(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store", fold_bytes=TINY_FOLD)
    bench.faulty, bench.fault = ("fold",), OSError(28, "No space left on device")
    bench.hold()
    bench.write({("a",): 1})
    bench.wait_held()
    bench.write({("b",): 1})  # while the first is written: it waits for the fold behind that
    bench.release()
    bench.wait_failures(1)
    with pytest.raises(StoreError, match=r"No space left .*without the last 1 transactions"):
        bench.store.close()
    assert load(bench.path) == {("a",): 1}


def test_closing_without_room_for_a_fold_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")
    bench.write({("a",): 1})
    bench.faulty, bench.fault = ("fold",), OSError(28, "No space left on device")
    bench.store.close()
    assert bench.store.trouble == ""
    assert load(bench.path) == {("a",): 1}


def test_a_callback_that_raises_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr("threading.excepthook", seen.append)

    def raises(_: int) -> None:
        raise RuntimeError("the loop is closed")

    store = Store.open(tmp_path / "store", on_safe=raises)
    store.load()
    store.write(1, {("a",): 1})
    assert store._thread is not None
    store._thread.join(PATIENCE_S)
    assert len(seen) == 1
    assert "the loop is closed (RuntimeError)" in store.trouble
    store.close()
    assert load(tmp_path / "store") == {("a",): 1}


# --- other processes --------------------------------------------------------------------------------


def start(script: str, *arguments: object, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [*before, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


# Transaction n puts out(n), and deletes the one five before it.
WRITER = """
    import os, sys
    from pathlib import Path
    from roost.runtime.store import Store

    path, fold_bytes = Path(sys.argv[1]), int(sys.argv[2])
    store = Store.open(path, on_safe=lambda n: os.write(1, b"%d\\n" % n), fold_bytes=fold_bytes)
    number = store.load().get(("sent",), 0)
    while True:
        number += 1
        key = ("out", "link", "B2", 1)
        store.write(
            number,
            {("sent",): number, (*key, number): "x" * (number % 5000), (*key, number - 5): None},
        )
        while store.backlog_bytes > 200_000:
            pass
"""


def test_killed_again_and_again(tmp_path: Path) -> None:
    """A process is killed while it writes, folds and brings pages to their places.

    It catches: a lock that outlives its process; whatever is called safe before it is in the file.
    """
    path = tmp_path / "store"
    number = 0
    for fold_bytes, lines in ((30_000, 3), (100_000, 25), (30_000, 60), (10**9, 40)):
        with start(WRITER, path, fold_bytes) as child:
            assert child.stdout is not None
            for _ in range(lines):
                assert child.stdout.readline().strip().isdigit()
            child.send_signal(signal.SIGKILL)
            # What it had said by then, the last line maybe not whole.
            said = child.stdout.read().split("\n")[:-1]
        records = load(path)
        assert records[("sent",)] >= max(map(int, said), default=number)
        number = records.pop(("sent",))
        assert list(records.items()) == [
            (out(n), "x" * (n % 5000)) for n in range(max(1, number - 4), number + 1)
        ]


OPENER = """
    import sys
    from pathlib import Path
    from roost.runtime.store import Store, StoreError
    try:
        Store.open(Path(sys.argv[1]), on_safe=print)
    except StoreError as error:
        print(error)
"""


def test_a_second_broker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    (tmp_path / "link").symlink_to(path)
    with Bench(path) as bench:
        with pytest.raises(StoreError, match=f"store: in use by process {os.getpid()}; "):
            load(path)
        with start(OPENER, path) as child:
            assert f"{path}: in use by process {os.getpid()}; " in child.communicate()[0]
        # By another name it is the same store.
        with start(OPENER, tmp_path / "link") as child:
            assert f"{path}: in use by process {os.getpid()}; " in child.communicate()[0]
        # And the store itself is locked.
        (tmp_path / "store.lock").unlink()
        with start(OPENER, path) as child:
            assert f"{path}: in use by another process; " in child.communicate()[0]
        bench.write({("a",): 1})
        bench.reopen()
    assert load(path) == {("a",): 1}


# A disk with a ballast on it that can be removed; or a bound on the size of files.
FILLER = """
    import resource, sys, threading
    from pathlib import Path
    from roost.runtime.store import Store

    folder, how = Path(sys.argv[1]), sys.argv[2]
    safe, said = [0], threading.Condition()
    def on_safe(token):
        with said:
            safe.append(token)
            said.notify()
    store = Store.open(folder / "store", on_safe=on_safe, fold_bytes=100_000, retry_s=(0.001, 0.01))
    store.load()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if how == "rlimit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    else:
        (folder / "ballast").write_bytes(bytes(6_000_000))
    number = 0
    while not store.trouble:
        number += 1
        store.write(number, {("out", number): "x" * 1000})
        while store.backlog_bytes > 50_000 and not store.trouble:
            pass
    print(store.trouble, flush=True)
    number += 1
    store.write(number, {("out", number): "x" * 1000})
    assert safe[-1] < number and store.backlog_bytes > 1000
    if how == "rlimit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    else:
        (folder / "ballast").unlink()
    with said:
        assert said.wait_for(lambda: safe[-1] == number, 20)
    assert store.counters.failures
    store.close()
    store = Store.open(folder / "store", on_safe=on_safe)
    assert list(store.load()) == [("out", n) for n in range(1, number + 1)]
    store.close()
    print("nothing is lost")
"""


def test_a_real_limit_on_files(tmp_path: Path) -> None:
    with start(FILLER, tmp_path, "rlimit") as child:
        said, _ = child.communicate()
    assert "can't be written" in said
    assert "SQLITE_IOERR" in said or "SQLITE_FULL" in said
    assert said.endswith("nothing is lost\n")


def test_a_real_full_disk(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=8m none "$0"'
    own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    possible = subprocess.run([*own, mount, tmp_path], capture_output=True, check=False)
    if possible.returncode:
        pytest.skip("no file system of one's own can be mounted here")
    before = (*own, f'{mount} && exec "$@"', str(tmp_path))
    with start(FILLER, tmp_path, "ballast", before=before) as child:
        said, _ = child.communicate()
    assert "database or disk is full (SQLITE_FULL)" in said
    assert said.endswith("nothing is lost\n")


def test_where_nothing_can_be_locked_there_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some file systems of a network."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "store"
    with pytest.raises(StoreError, match="can't be used as a store: No locks available"):
        Store.open(path, on_safe=print)
    assert not path.exists()


def test_a_copy_without_its_lock_is_a_store_of_its_own(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({("a",): 1})
        bench.wait_safe()
        (tmp_path / "copy").mkdir()
        assert load(copy_store(bench.path, tmp_path / "copy")) == {("a",): 1}


def test_whoever_reads_the_file_keeps_nobody_from_writing(tmp_path: Path) -> None:
    """Nor does the store keep it from reading, nor change what it sees; the log begins anew afterwards."""
    path = tmp_path / "store"
    with Bench(path, fold_bytes=TINY_FOLD) as bench:
        bench.write({("a",): 1})
        bench.wait_safe()
        bench.wait_until(lambda: bench.store.counters.folds == 1)
        looking = sqlite3.connect(path, isolation_level=None)
        looking.execute("BEGIN").fetchall()
        seen = looking.execute("SELECT count(*) FROM kv").fetchall()
        for number in range(5):
            bench.write({out(number): 1})
            bench.wait_safe()
        assert looking.execute("SELECT count(*) FROM kv").fetchall() == seen
        bench.reopen()
        looking.close()
        assert not bench.store.trouble


def test_whoever_writes_to_the_file_for_a_moment_does_not_keep_the_store_from_opening(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    with Bench(path) as bench:
        bench.write({("session", "a"): 1})
        bench.wait_safe()
    writing = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writing.execute("BEGIN IMMEDIATE").fetchall()
    opened = threading.Event()

    def leave() -> None:
        assert not opened.wait(0.05)
        writing.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    try:
        with Bench(path) as again:
            opened.set()
            assert again.loaded == {("session", "a"): 1}
    finally:
        leaving.join()
