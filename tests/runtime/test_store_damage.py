"""A store that is damaged is refused in words; what is merely torn by a crash is not damaged.

Caught here: a row whose checksum nobody looks at, a row that is missing, a file that is taken for new because
it is empty, frames of the write-ahead log that SQLite passes over.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from roost.broker.commands import StoreKey
from roost.errors import UserError
from roost.runtime.store import StoreError
from roost.runtime.store_file import PAGE_BYTES
from roost.runtime.store_format import Batch, body_crc, pack_key, row_crc
from roost.runtime.store_wal import wal_damage
from roost.wire import pack_record
from tests.runtime.store_kit import Bench, State, copy_store, load

ADVICE = "restore it from a backup, or move it and the files beside it away"
WAL_HEADER_SIZE = 32
FRAME_SIZE = 24 + PAGE_BYTES


def folded(folder: Path) -> Path:
    """A store that was closed: three records in kv."""
    with Bench(folder / "store") as bench:
        bench.write({("kept", number): f"value {number}" * 20 for number in range(3)})
    return bench.path


def unfolded(folder: Path, *, commits: int = 4, last: str = "") -> tuple[Path, list[State]]:
    """The copy of one that was killed: two records in kv, commits in the log; and all its states."""
    (folder / "copy").mkdir()
    with Bench(folder / "store") as bench:
        bench.write({("kept", number): f"value {number}" * 20 for number in range(2)})
        bench.reopen()
        for number in range(commits):
            bench.write({("logged", number): f"logged {number}" * 20})
            bench.wait_safe()
        if last:
            bench.write({("last",): last})
            bench.wait_safe()
        bench.wait_marked()
        return copy_store(bench.path, folder / "copy"), bench.history


def into_the_file(path: Path) -> None:
    """Bring everything that is in the write-ahead log to its place, without the store's help."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def flip(path: Path, offset: int, mask: int = 0x20) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def change(path: Path, statement: str, *values: object) -> None:
    """Behind the store's back."""
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(statement, values).rowcount


def refused(path: Path, what: str) -> None:
    with pytest.raises(StoreError, match=what) as caught:
        load(path)
    assert isinstance(caught.value, UserError)
    assert str(caught.value).startswith(f"{path}: ")
    # It has let go of the file, and says the same again.
    with pytest.raises(StoreError, match=what):
        load(path)


# --- the file ---------------------------------------------------------------------------------------


def test_a_flipped_bit_in_a_record(tmp_path: Path) -> None:
    path = folded(tmp_path)
    # The pages of the log, which are free by now, have it too.
    key = pack_key(("kept", 1))
    flip(path, path.read_bytes().index(key + pack_record("value 1" * 20)) + 20)
    refused(path, f"damaged: the checksum of row 2 of kv is wrong; {ADVICE}")


def test_a_flipped_bit_in_the_log(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    into_the_file(path)
    flip(path, path.read_bytes().index(b"logged 2logged 2") + 3)
    refused(path, f"damaged: the checksum of row 5 of the log is wrong; {ADVICE}")


def test_a_flipped_bit_in_the_index(tmp_path: Path) -> None:
    """All records are read as they should be; but one could not be deleted any more."""
    path = folded(tmp_path)
    rowid = b"\x02"
    flip(path, path.read_bytes().index(pack_key(("kept", 1)) + rowid) + 3)
    refused(path, f"damaged: SQLite finds: .*; {ADVICE}")


@pytest.mark.parametrize("offset", [0, 16, 21, 47])
def test_a_flipped_bit_in_the_header(tmp_path: Path, offset: int) -> None:
    path = folded(tmp_path)
    flip(path, offset)
    refused(path, f"damaged: .*; {ADVICE}")


@pytest.mark.parametrize("pages", [1, 2, 4])
def test_a_file_that_was_cut_off(tmp_path: Path, pages: int) -> None:
    path = folded(tmp_path)
    os.truncate(path, pages * PAGE_BYTES)
    refused(path, "damaged: .*malformed|damaged: SQLite finds")


def test_a_file_that_was_emptied(tmp_path: Path) -> None:
    path = folded(tmp_path)
    os.truncate(path, 0)
    refused(path, "damaged: it is empty")


def test_a_file_that_is_missing_beside_its_write_ahead_log(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    path.unlink()
    refused(path, "damaged: it is missing, but store-wal is there")


@given(data=st.data())
def test_any_flipped_bit_is_harmless_or_found(data: st.DataObject) -> None:
    """Not all bytes mean something. But what is read is what was written, or nothing is."""
    with tempfile.TemporaryDirectory() as name:
        path, history = unfolded(Path(name))
        into_the_file(path)
        size = path.stat().st_size
        # Most of a page is empty; the beginnings and ends of pages are where things are.
        page = data.draw(st.integers(0, size // PAGE_BYTES - 1))
        place = data.draw(
            st.one_of(st.integers(0, 120), st.integers(PAGE_BYTES - 700, PAGE_BYTES - 1))
        )
        flip(path, page * PAGE_BYTES + place, 1 << data.draw(st.integers(0, 7)))
        try:
            found = load(path)
        except StoreError:
            event("found")
        else:
            event("harmless")
            assert list(found.items()) == history[-1]


# --- rows -------------------------------------------------------------------------------------------


def test_a_gap_in_the_log(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    change(path, "DELETE FROM log WHERE id = 4")
    refused(path, "damaged: row 4 of the log is missing; 5 comes next")


def test_a_log_without_its_beginning(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    change(path, "DELETE FROM log WHERE id = 3")
    refused(path, "damaged: row 3 of the log is missing; 4 comes next")


def test_a_row_of_the_log_in_the_place_of_another(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    change(
        path,
        "UPDATE log SET (crc, body) = (SELECT crc, body FROM log AS l WHERE l.id = 3) WHERE id = 4",
    )
    refused(path, "damaged: the checksum of row 4 of the log is wrong")


def test_a_row_of_the_log_that_is_none(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    change(path, "UPDATE log SET crc = ?, body = ? WHERE id = 3", body_crc(3, b"\xc1"), b"\xc1")
    refused(path, "damaged: row 3 of the log is unreadable")


def test_a_missing_record(tmp_path: Path) -> None:
    path = folded(tmp_path)
    change(path, "DELETE FROM kv WHERE rowid = 2")
    refused(path, "damaged: kv has 2 rows and should have 3")


def test_an_unreadable_record(tmp_path: Path) -> None:
    path = folded(tmp_path)
    key = pack_key(("kept", 1))
    change(
        path, "UPDATE kv SET value = ?, crc = ? WHERE key = ?", b"\xc1", row_crc(key, b"\xc1"), key
    )
    refused(path, f"damaged: a record is unreadable: .*; {ADVICE}")


def test_an_unreadable_key(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path, commits=1)
    batch = Batch()
    batch.add(1, [(b"\xc1", b"\x01")])
    body = batch.body()
    change(path, "UPDATE log SET crc = ?, body = ? WHERE id = 3", body_crc(3, body), body)
    refused(path, "damaged: a record is unreadable")


@pytest.mark.parametrize("name", ["version", "store_id", "records", "log_from"])
def test_a_wrong_meta(tmp_path: Path, name: str) -> None:
    path = folded(tmp_path)
    change(path, "UPDATE meta SET value = 7 WHERE name = ?", name)
    refused(path, f"damaged: {name} of the table meta is wrong")


def test_a_value_of_another_type(tmp_path: Path) -> None:
    path = folded(tmp_path)
    change(path, "UPDATE kv SET value = 'text' WHERE rowid = 1")
    refused(path, "damaged: the checksum of row 1 of kv is wrong")


@pytest.mark.parametrize("version", [0, 4, "x"])
def test_another_version(tmp_path: Path, version: object) -> None:
    path = folded(tmp_path)
    crc = zlib.crc32(f"version={version!r}".encode())
    change(path, "UPDATE meta SET value = ?, crc = ? WHERE name = 'version'", version, crc)
    refused(
        path,
        f"a store of format {version}, and this Roost reads formats 1 to 3; start the Roost that",
    )


def test_damage_that_shows_when_it_is_folded(tmp_path: Path) -> None:
    """An index that has lost a key would leave the record where it is, to come back later."""
    with Bench(tmp_path / "store") as bench:
        bench.write({("kept", number): 1 for number in range(3)})
        bench.reopen()
        bench.file.sqlite("DELETE FROM kv WHERE rowid = 2")
        bench.faulty = ()
        bench.store._fold_bytes = 1
        token = bench.write({("kept", 1): None})
        bench.wait_failures(2)
        assert "damaged: 1 records that should be in kv are not there" in bench.store.trouble
        assert bench.safe[-1] == token
        bench.write({("late",): 1})
        with pytest.raises(StoreError, match="without the last 1 transactions"):
            bench.store.close()


def test_damage_that_shows_when_it_is_read(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        bench.write({("kept", number): 1 for number in range(3)})
        bench.reopen()
        bench.file.sqlite("UPDATE kv SET crc = 0 WHERE rowid = 2")
        bench.file.sqlite("DELETE FROM kv WHERE rowid = 3")
        bench.read(("kept", 1))
        bench.wait_failures(1)
        assert "damaged: the checksum of a row of kv is wrong" in bench.store.trouble
    bench = Bench(tmp_path / "other")
    bench.write({("kept", 1): 1})
    bench.reopen()
    bench.file.sqlite("DELETE FROM kv")
    bench.read(("kept", 1))
    bench.wait_failures(1)
    assert "damaged: 1 records that should be in kv are not there" in bench.store.trouble
    bench.close()


# --- not a store ------------------------------------------------------------------------------------


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_text("[broker]\n" * 2_000)
    refused(path, r"damaged: file is not a database \(SQLITE_NOTADB\)")


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE kv(key)")
    refused(path, "not a store of Roost; name another file")


def test_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.mkdir()
    refused(path, "can't be used as a store: ")


def test_no_folder_to_be_in(tmp_path: Path) -> None:
    refused(tmp_path / "gone" / "store", "can't be used as a store: No such file or directory")


def test_what_is_left_of_an_attempt_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "store.new").write_text("torn")
    (tmp_path / "store.new-wal").write_text("torn")
    assert load(tmp_path / "store") == {}
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "store",
        "store-mark",
        "store.lock",
    ]


# --- the write-ahead log ----------------------------------------------------------------------------


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def mark_of(path: Path) -> Path:
    return path.with_name(path.name + "-mark")


def frames(wal: bytes) -> list[int]:
    """For each frame, whether it ends a transaction."""
    size_afterwards = struct.Struct(">4xI").unpack_from
    offsets = range(WAL_HEADER_SIZE, len(wal) - FRAME_SIZE + 1, FRAME_SIZE)
    return [bool(*size_afterwards(wal, offset)) for offset in offsets]


def test_a_flipped_bit_in_the_write_ahead_log(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    flip(wal_of(path), WAL_HEADER_SIZE + 1_000)
    refused(
        path,
        "damaged: store-wal: frame 1 is damaged; transactions committed from there on: 3 or more;"
        f" {ADVICE}",
    )


def test_a_flipped_bit_in_a_checksum_of_it(tmp_path: Path) -> None:
    """The last transaction goes on from what the one before should say."""
    path, _ = unfolded(tmp_path)
    wal = wal_of(path).read_bytes()
    begin, _ = last_transaction(wal)
    number = (begin - WAL_HEADER_SIZE) // FRAME_SIZE
    for offset in range(begin - FRAME_SIZE + 16, begin - FRAME_SIZE + 24):
        damaged = bytearray(wal)
        damaged[offset] ^= 0x20
        said = f"frame {number} is damaged; transactions committed from there on: 1 or more"
        assert wal_damage(bytes(damaged)) == said


def test_a_flipped_bit_in_its_header(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    for offset in range(WAL_HEADER_SIZE):
        flip(wal_of(path), offset)
        refused(path, f"damaged: store-wal: its header is damaged; {ADVICE}")
        flip(wal_of(path), offset)
    assert load(path)


@given(data=st.data())
def test_a_flipped_bit_anywhere_in_it(data: st.DataObject) -> None:
    """Found, wherever it is: if the log itself can't tell, because that could be torn, the mark does."""
    with tempfile.TemporaryDirectory() as name:
        path, _ = unfolded(Path(name))
        wal = wal_of(path).read_bytes()
        flip(wal_of(path), data.draw(st.integers(WAL_HEADER_SIZE, len(wal) - 1)))
        refused(path, "damaged: store-wal: frame .* is damaged|older than it was, by [1-4] commits")


@given(data=st.data())
def test_a_flipped_bit_anywhere_in_it_without_the_mark(data: st.DataObject) -> None:
    """At most the last transaction, which might have been torn, or the one before its end, is missed."""
    with tempfile.TemporaryDirectory() as name:
        path, history = unfolded(Path(name))
        mark_of(path).unlink()
        wal = wal_of(path).read_bytes()
        offset = data.draw(st.integers(WAL_HEADER_SIZE, len(wal) - 1))
        flip(wal_of(path), offset)
        frame = (offset - WAL_HEADER_SIZE) // FRAME_SIZE
        ends_after = sum(frames(wal)[frame + 1 :])
        try:
            found = list(load(path).items())
        except StoreError:
            event("found")
        else:
            event("taken for torn")
            assert ends_after < 2
            assert found in history[-3:]


Tear = Callable[[bytes, int, int], bytes]
TEARS: dict[str, Tear] = {
    "cut off": lambda wal, offset, _: wal[:offset],
    "zeros": lambda wal, offset, end: wal[:offset] + bytes(end - offset),
    "what was there before": lambda wal, offset, end: wal[:offset] + b"\xa5" * (end - offset),
}


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_write_ahead_log_that_is_torn_anywhere(tmp_path: Path, tear: Tear) -> None:
    """A crash leaves any part of the last transaction, and never damage; here it has several frames."""
    path, history = unfolded(tmp_path, last="x" * 5 * PAGE_BYTES)
    wal = wal_of(path).read_bytes()
    *_, before_last, last = [number for number, ends in enumerate(frames(wal), 1) if ends]
    assert last - before_last > 4
    database = path.read_bytes()
    begin, end = (WAL_HEADER_SIZE + number * FRAME_SIZE for number in (before_last, last))
    boundaries = range(begin, end, FRAME_SIZE)
    for offset in sorted({*boundaries, *(b + 12 for b in boundaries), *range(begin, end, 1997)}):
        start_from(path, database, tear(wal, offset, end))
        assert list(load(path).items()) == history[-2]


def test_any_frames_of_the_last_transaction_may_be_missing(tmp_path: Path) -> None:
    """A disk writes in the order that it likes, so the end may be there and the beginning not."""
    path, history = unfolded(tmp_path, last="x" * 3 * PAGE_BYTES)
    wal = wal_of(path).read_bytes()
    *_, before_last, last = [number for number, ends in enumerate(frames(wal), 1) if ends]
    database = path.read_bytes()
    count = last - before_last
    for missing in range(1, 1 << count):
        torn = bytearray(wal)
        for number in range(count):
            if missing >> number & 1:
                offset = WAL_HEADER_SIZE + (before_last + number) * FRAME_SIZE
                torn[offset : offset + FRAME_SIZE] = bytes(FRAME_SIZE)
        start_from(path, database, bytes(torn))
        assert list(load(path).items()) == history[-2]


def test_what_an_earlier_crash_cut_off_does_not_count(tmp_path: Path) -> None:
    """The log goes on over it, so its end may be behind that of a transaction that is torn in turn."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path, history = unfolded(tmp_path / "a", commits=2, last="x" * 9 * PAGE_BYTES)
    longer, _ = unfolded(tmp_path / "b", commits=2, last="y" * 4 * PAGE_BYTES)
    wal, other = wal_of(path).read_bytes(), wal_of(longer).read_bytes()
    begin, end = last_transaction(wal)
    begin_2, end_2 = last_transaction(other)
    assert begin == begin_2
    # As if both were of one log: of the first only the end is left, of the second all but its beginning.
    torn = wal[:begin] + with_salts_of(wal, other[begin:end_2]) + wal[end_2:end]
    torn = torn[: begin + 100] + bytes(100) + torn[begin + 200 :]
    start_from(path, path.read_bytes(), torn)
    assert list(load(path).items()) == history[-2]


def last_transaction(wal: bytes) -> tuple[int, int]:
    *_, before, last = [number for number, ends in enumerate(frames(wal), 1) if ends]
    return WAL_HEADER_SIZE + before * FRAME_SIZE, WAL_HEADER_SIZE + last * FRAME_SIZE


def with_salts_of(wal: bytes, some: bytes) -> bytes:
    changed = bytearray(some)
    for offset in range(0, len(some), FRAME_SIZE):
        changed[offset + 8 : offset + 16] = wal[16:24]
    return bytes(changed)


def start_from(path: Path, database: bytes, wal: bytes) -> None:
    """These are the files; of what was committed nobody else knows."""
    path.write_bytes(database)
    wal_of(path).write_bytes(wal)
    mark_of(path).unlink(missing_ok=True)


# --- what the mark knows ----------------------------------------------------------------------------


def test_a_write_ahead_log_that_is_shorter_than_it_was(tmp_path: Path) -> None:
    """Wherever it is cut off; and it is left as it is, so that what is missing can be put back."""
    path, history = unfolded(tmp_path)
    wal = wal_of(path).read_bytes()
    ends = [
        WAL_HEADER_SIZE + number * FRAME_SIZE for number, end in enumerate(frames(wal), 1) if end
    ]
    boundaries = range(WAL_HEADER_SIZE, ends[-1], FRAME_SIZE)
    for size in (0, 5, *boundaries, *(b + 12 for b in boundaries), *(b + 999 for b in boundaries)):
        missing = sum(end > size for end in ends)
        wal_of(path).write_bytes(wal[:size])
        refused(path, f"older than it was, by {missing} commits: store-wal is missing, was cut off")
        assert wal_of(path).read_bytes() == wal[:size]
    wal_of(path).write_bytes(wal)
    assert list(load(path).items()) == history[-1]


def test_a_write_ahead_log_that_is_missing(tmp_path: Path) -> None:
    path, _ = unfolded(tmp_path)
    wal_of(path).unlink()
    refused(path, "older than it was, by 4 commits: store-wal is missing")


def test_a_store_that_was_put_back(tmp_path: Path) -> None:
    """Also one that was closed in order, so that it has no write-ahead log at all."""
    path = folded(tmp_path)
    older = path.read_bytes()
    with Bench(path) as bench:
        bench.write({("late",): 1})
    path.write_bytes(older)
    refused(path, "older than it was, by 2 commits: .* or store was put back")


def test_a_fold_counts_too(tmp_path: Path) -> None:
    """What waited when it began is in it, and in no row of the log."""
    path = tmp_path / "store"
    load(path)
    empty = path.read_bytes()
    with Bench(path, fold_bytes=1) as bench:
        bench.hold()
        bench.write({("a",): 1})
        bench.wait_held()
        bench.write({("b",): 1})
        bench.write({("c",): 1})
        bench.release()
        bench.wait_safe()
        bench.wait_until(lambda: bench.store.counters.folds == 1)
        assert bench.store.counters.commits == 2
        (tmp_path / "copy").mkdir()
        copied = copy_store(path, tmp_path / "copy")
    assert list(load(copied)) == [("a",), ("b",), ("c",)]
    # One row of the log, and the fold.
    path.write_bytes(empty)
    refused(path, "older than it was, by 2 commits")


def test_an_older_store_is_taken_on_demand_and_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "store"
    kept: dict[StoreKey, Any] = {
        ("incarnation",): "i1",
        ("boots",): 3,
        ("session", "d"): ("c", False, True, "p1"),
        ("session", "n"): ("c", False, False, ""),
    }
    with Bench(path) as bench:
        bench.write(kept)
    (tmp_path / "copy").mkdir()
    older = copy_store(path, tmp_path / "copy").read_bytes()
    with Bench(path) as bench:
        bench.write({("late",): 1})
    path.write_bytes(older)
    refused(path, "older than it was")
    for _ in range(2):
        with Bench(path, accept_older=True) as bench:
            found = dict(bench.loaded)
            assert found.pop(("session", "d"))[:3] == ("c", False, True)
            assert found == {("boots",): 3}
    assert ("late",) not in load(path)


@pytest.mark.parametrize("mark", [b"", b"x" * 52, None])
def test_a_mark_that_says_nothing(tmp_path: Path, mark: bytes | None) -> None:
    """Unreadable, or missing, or of another store: it is a witness less, and no more."""
    path, _ = unfolded(tmp_path)
    if mark is None:
        with Bench(tmp_path / "other") as other:
            for number in range(20):
                other.write({("n",): number})
                other.wait_safe()
        mark = mark_of(other.path).read_bytes()
    wal_of(path).unlink()
    mark_of(path).write_bytes(mark)
    assert load(path)
    mark_of(path).unlink()
    assert load(path)


def test_a_mark_without_its_store(tmp_path: Path) -> None:
    path = folded(tmp_path)
    path.unlink()
    refused(path, "damaged: it is missing, but store-mark is there")


def test_a_mark_that_cannot_be_written_keeps_nobody_from_working(tmp_path: Path) -> None:
    with Bench(tmp_path / "store") as bench:
        mark_of(bench.path).unlink()
        mark_of(bench.path).mkdir()
        bench.write({("a",): 1})
        bench.wait_safe()
        assert not bench.store.trouble
    mark_of(bench.path).rmdir()
    assert load(bench.path) == {("a",): 1}


# --- under a broker that runs -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_files_that_go_while_they_are_open(tmp_path: Path, suffix: str, how: str) -> None:
    """Nothing is called safe from then on; if what was moved is back, it goes on."""
    bench = Bench(tmp_path / "store", look_s=0.005)
    bench.write({("a",): 1})
    bench.wait_safe()
    file = tmp_path / f"store{suffix}"
    content = file.read_bytes()
    away = tmp_path / "away"
    file.rename(away)
    if how == "deleted":
        away.unlink()
    elif how == "replaced":
        file.write_bytes(content)
    what = "is another file now" if how == "replaced" else "is not there any more"
    said = f"{file} {what}: it was deleted, moved or replaced"
    bench.wait_until(lambda: said in bench.store.trouble)
    token = bench.write({("b",): 1})
    if how == "moved":
        away.rename(file)
        bench.wait_safe()
        bench.wait_until(lambda: not bench.store.trouble)
        bench.close()
        assert load(bench.path) == {("a",): 1, ("b",): 1}
    else:
        with pytest.raises(StoreError, match="without the last 1 transactions"):
            bench.store.close()
        assert bench.safe[-1] < token
        assert how == "deleted" or file.read_bytes() == content


def test_what_was_about_to_be_written_when_the_file_went_is_said_to_be_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store", look_s=0.001)
    bench.hold()
    bench.write({("a",): 1})
    bench.wait_held()
    bench.write({("b",): 1})  # the next that is taken, right before the thread looks
    (tmp_path / "store").rename(tmp_path / "away")
    time.sleep(0.05)  # so that it is time to look
    bench.release()
    bench.wait_until(lambda: "is not there any more" in bench.store.trouble)
    with pytest.raises(StoreError, match="without the last 1 transactions"):
        bench.store.close()


def test_what_is_older_than_the_header_does_not_count(tmp_path: Path) -> None:
    """After a checkpoint the log begins anew over the old one, whose frames are still behind it."""
    (tmp_path / "copy").mkdir()
    with Bench(tmp_path / "store", fold_bytes=40_000) as bench:
        for number in range(13):
            bench.write({("logged", number): "x" * 2_000})
            bench.wait_safe()
        bench.wait_until(lambda: bench.store.counters.folds == 1)
        bench.write({("late",): 1})
        bench.wait_safe()
        copied = copy_store(bench.path, tmp_path / "copy")
        assert sum(frames(wal_of(copied).read_bytes())) > 3
        assert list(load(copied).items()) == bench.history[-1]


@given(st.binary(max_size=100))
def test_no_bytes_make_it_stumble(wal: bytes) -> None:
    assert wal_damage(wal) in ("", "its header is damaged")
