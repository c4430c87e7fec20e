"""Backups: whole whenever they are made, and a broker that is restored from one misleads nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import roost
from roost.broker.commands import StoreKey
from roost.broker.messages import DATA, Delivery
from roost.broker.sessions import RESTORED
from roost.errors import UserError
from roost.runtime import backup as module
from roost.runtime.backup import back_up, restore, store_of
from roost.runtime.child_broker import ChildBroker
from roost.runtime.federation import free_ports
from roost.runtime.store import Store, StoreError
from roost.runtime.store_anew import begin_anew
from roost.wire import WireError
from tests.broker.kit import Federation
from tests.cli.support import make_roost
from tests.runtime.store_kit import PATIENCE_S, Bench, load
from tests.wire.support import quote


def delivery(session: str, number: int) -> tuple[StoreKey, Any]:
    return ("out", "session", session, DATA, number), (Delivery(quote(sequence=number), ("s",)), 0)


def event(neighbour: str, number: int) -> tuple[StoreKey, Any]:
    return ("out", "link", neighbour, DATA, number), (quote(sequence=number), 1)


RECORDS: dict[StoreKey, Any] = {
    ("incarnation",): "i1",
    ("boots",): 2,
    ("link", "B1"): (True, "j1"),
    ("session", "d"): ("c", False, True, "p1"),
    ("session", "o"): ("c", False, True, "p2"),
    ("published", "o"): ("c~o", 7),
    ("session", "n"): ("c", False, False, ""),
    ("sent", "session", "n", DATA): 1,
    ("sent", "session", "d", DATA): 2,
    **dict([delivery("d", 1), delivery("d", 2), delivery("n", 1), event("B1", 1)]),
}


def store_at(folder: Path, records: Mapping[StoreKey, Any] = RECORDS) -> Path:
    """The store of a broker that was stopped."""
    folder.mkdir()
    with Bench(store_of(folder)) as bench:
        bench.write(records)
    return bench.path


# --- making one -------------------------------------------------------------------------------------


def test_of_a_store_that_is_being_written_to(tmp_path: Path) -> None:
    """Every transaction writes two keys alike; a copy from the middle of one would have them differ."""
    store = Store.open(tmp_path / "store", on_safe=lambda _: None, fold_bytes=200_000)
    store.load()
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            value = str(number) * 300
            store.write(number, {("a", number % 50): value, ("b", number % 50): value})
            while store.backlog_bytes > 100_000 and not done.is_set():
                pass

    writing = threading.Thread(target=write)
    writing.start()
    try:
        commits: list[int] = []
        # On a busy machine several folds go by within one copy.
        while store.counters.folds < 6 or len(set(commits)) < 2:
            made = back_up(tmp_path / "store", tmp_path / "backup", replace=True)
            assert made.running
            commits.append(made.commit)
            found = load_copy(tmp_path / "backup")
            assert len(found) == made.records
            assert [found["a", n] for n in range(50) if ("a", n) in found] == [
                found["b", n] for n in range(50) if ("b", n) in found
            ]
    finally:
        done.set()
        writing.join()
        assert not store.trouble
        store.close()
    assert commits == sorted(commits)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "backup",
        "copy",
        "copy-mark",
        "copy.lock",
        "store",
        "store-mark",
        "store.lock",
    ]


def load_copy(path: Path) -> dict[StoreKey, Any]:
    copy = path.with_name("copy")
    for file in (copy, path.with_name("copy-mark")):
        file.unlink(missing_ok=True)
    copy.write_bytes(path.read_bytes())
    return load(copy)


def test_of_a_store_that_nobody_has(tmp_path: Path) -> None:
    path = store_at(tmp_path / "data")
    made = back_up(path, tmp_path / "backup")
    assert not made.running
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    assert made.bytes == (tmp_path / "backup").stat().st_size
    assert load_copy(tmp_path / "backup") == RECORDS == load(path)


def test_of_one_that_was_killed(tmp_path: Path) -> None:
    """What is in its write-ahead log only is in the backup; and if a part is missing, there is none."""
    folder = tmp_path / "killed"
    folder.mkdir()
    with Bench(tmp_path / "store") as bench:
        for number in range(4):
            bench.write({("n", number): number})
            bench.wait_safe()
        bench.wait_marked()
        for suffix in ("", "-wal", "-mark"):
            (folder / f"store{suffix}").write_bytes((tmp_path / f"store{suffix}").read_bytes())
    wal = (folder / "store-wal").read_bytes()
    (folder / "store-wal").write_bytes(wal[:-100])
    with pytest.raises(StoreError, match="older than it was, by 1 commits"):
        back_up(folder / "store", tmp_path / "backup")
    (folder / "store-wal").write_bytes(wal[:100] + b"x" + wal[101:])
    with pytest.raises(StoreError, match="store-wal: frame 1 is damaged"):
        back_up(folder / "store", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    (folder / "store-wal").write_bytes(wal)
    assert back_up(folder / "store", tmp_path / "backup").records == 4


def test_a_folder_gets_a_file_for_each_time(tmp_path: Path) -> None:
    path = store_at(tmp_path / "data")
    (tmp_path / "backups").mkdir()
    made = back_up(path, tmp_path / "backups")
    assert [str(file) for file in (tmp_path / "backups").iterdir()] == [made.path]


def test_nothing_is_left_of_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store_at(tmp_path / "data")
    (tmp_path / "backups").mkdir()

    def fails(record: bytes) -> object:
        raise WireError(f"{len(record)} bytes that say nothing")

    monkeypatch.setattr(module, "unpack_record", fails)
    with pytest.raises(StoreError, match="bytes that say nothing"):
        back_up(path, tmp_path / "backups" / "backup")
    assert not list((tmp_path / "backups").iterdir())


def test_what_is_there_is_replaced_on_demand_only(tmp_path: Path) -> None:
    path = store_at(tmp_path / "data")
    target = tmp_path / "backup"
    target.write_text("mine")
    with pytest.raises(UserError, match="it is there already; name another file"):
        back_up(path, target)
    assert target.read_text() == "mine"
    back_up(path, target, replace=True)
    for suffix in ("", "-wal", "-mark", ".lock"):
        with pytest.raises(UserError, match="it belongs to the store itself"):
            back_up(path, Path(f"{path}{suffix}"), replace=True)


def test_where_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no store"):
        back_up(store_of(tmp_path), tmp_path / "backup")
    with pytest.raises(UserError, match=r"gone/backup: can't be written: No such file"):
        back_up(store_at(tmp_path / "data"), tmp_path / "gone" / "backup")
    (tmp_path / "roost.toml").write_text("[broker]\n")
    with pytest.raises(UserError, match="data is empty; expected the folder of a store"):
        store_of(tmp_path / "roost.toml")
    (tmp_path / "roost.toml").write_text('[broker]\ndata = "data"\n')
    assert store_of(tmp_path / "roost.toml") == tmp_path / "data" / "roost.db"


# --- putting it back --------------------------------------------------------------------------------


def test_a_backup_as_the_store_of_a_new_folder(tmp_path: Path) -> None:
    old = store_at(tmp_path / "data")
    made = back_up(old, tmp_path / "backup")
    done = restore(tmp_path / "backup", store_of(tmp_path / "new" / "data"))
    assert done.made_at == made.made_at
    assert (done.kept, done.lost) == (None, None)
    assert (done.anew.durable, done.anew.outboxes, done.anew.waiting) == (2, 1, 2)
    assert (done.anew.others, done.anew.lost) == (1, 1)
    assert (done.anew.links, done.anew.sent_again) == (1, 1)
    with Bench(Path(done.store)) as bench, Bench(old) as before:
        assert bench.store.store_id != before.store.store_id
        found = dict(bench.loaded)
    for name, client in (("d", "c"), ("o", "c")):
        session = found.pop(("session", name))
        assert session[:3] == (client, False, True)
        assert session[3].startswith(RESTORED)
    gone = [("incarnation",), ("session", "n"), ("sent", "session", "n", DATA), delivery("n", 1)[0]]
    assert found == {
        key: value for key, value in RECORDS.items() if key not in gone and key[0] != "session"
    }
    folder = Path(done.store).parent
    assert sorted(path.name for path in folder.iterdir()) == [
        "roost.db",
        "roost.db-mark",
        "roost.db.lock",
    ]
    assert Path(done.store).stat().st_mode & 0o777 == 0o600


def test_in_the_place_of_one_that_is_there(tmp_path: Path) -> None:
    path = store_at(tmp_path / "data")
    back_up(path, tmp_path / "backup")
    with Bench(path) as bench:
        bench.write({delivery("d", 1)[0]: None, **dict([delivery("d", 3), event("B1", 2)])})
        bench.write({("session", "e"): ("c", False, True, "p3")})
        bench.write({("session", "m"): ("c", False, False, "")})
        last = bench.loaded | bench.state
        del last[delivery("d", 1)[0]]
    with pytest.raises(UserError, match="a store is there; name another folder, or use --force"):
        restore(tmp_path / "backup", path)
    done = restore(tmp_path / "backup", path, force=True)
    assert done.lost is not None
    assert done.lost.commits is not None
    assert done.lost.commits > 0
    lost = done.lost
    assert (lost.sessions, lost.deliveries, lost.events, lost.again) == (1, 1, 1, 1)
    assert ("session", "e") not in load(path)
    # The old one is a store, too.
    assert done.kept is not None
    assert load(Path(done.kept)) == last
    assert restore(tmp_path / "backup", path, force=True).kept not in (None, done.kept)


def test_in_the_place_of_one_that_is_damaged(tmp_path: Path) -> None:
    path = store_at(tmp_path / "data")
    back_up(path, tmp_path / "backup")
    path.write_bytes(path.read_bytes()[:9000])
    damaged = path.read_bytes()
    done = restore(tmp_path / "backup", path, force=True)
    assert done.lost is None
    assert done.kept is not None
    assert Path(done.kept).read_bytes() == damaged
    assert load(path)


def test_a_crash_in_the_middle_leaves_no_broker_that_starts_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_at(tmp_path / "data")
    back_up(path, tmp_path / "backup")
    (tmp_path / "data" / "roost.db-mark").unlink()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            restore(tmp_path / "backup", path, force=True)
    with pytest.raises(StoreError, match=r"it is missing, but roost.db-mark is there"):
        load(path)
    restore(tmp_path / "backup", path, force=True)
    assert load(path)


def test_under_a_broker_that_runs(tmp_path: Path) -> None:
    back_up(store_at(tmp_path / "data"), tmp_path / "backup")
    with Bench(tmp_path / "data" / "roost.db") as bench:
        with pytest.raises(StoreError, match="in use by process"):
            restore(tmp_path / "backup", bench.path, force=True)
        assert not bench.store.trouble


def test_what_is_no_backup(tmp_path: Path) -> None:
    path = store_at(tmp_path / "data")
    target = tmp_path / "new" / "roost.db"
    with pytest.raises(UserError, match="there is no such file"):
        restore(tmp_path / "gone", target)
    with pytest.raises(UserError, match="a store, and not a backup of one"):
        restore(path, target)
    (tmp_path / "text").write_text("[broker]\n" * 2_000)
    with pytest.raises(StoreError, match="not a database"):
        restore(tmp_path / "text", target)
    back_up(path, tmp_path / "backup")
    # Nor is what was made of one.
    restored = restore(tmp_path / "backup", tmp_path / "restored" / "roost.db").store
    with pytest.raises(UserError, match="a store, and not a backup of one"):
        restore(Path(restored), target)
    whole = (tmp_path / "backup").read_bytes()
    for offset in range(0, len(whole), 1_003):
        (tmp_path / "backup").write_bytes(whole[:offset])
        with pytest.raises((StoreError, UserError)):
            restore(tmp_path / "backup", target)
    # Wherever that stands: also in pages that are free by now.
    (tmp_path / "backup").write_bytes(whole.replace(b"text/plain", b"text/plaim"))
    with pytest.raises(StoreError, match="damaged"):
        restore(tmp_path / "backup", target)
    assert not target.exists()


def test_a_backup_that_was_changed(tmp_path: Path) -> None:
    back_up(store_at(tmp_path / "data"), tmp_path / "backup")
    with closing(sqlite3.connect(tmp_path / "backup")) as database, database:
        database.execute("UPDATE meta SET value = 7 WHERE name = 'backup_at'")
    with pytest.raises(StoreError, match="backup_at of the table meta is wrong"):
        restore(tmp_path / "backup", tmp_path / "new" / "roost.db")


# --- what a broker makes of it ------------------------------------------------------------------------


def test_all_that_a_broker_writes_can_begin_anew() -> None:
    """A broker starts with what is left, and nothing of it is about a session that is gone."""
    federation = Federation(("B1", "B2"), durable=True)
    federation.client("pub", "B1")
    federation.advertise("pub", "a > 0")
    federation.client("sub", "B2")
    federation.subscribe("sub", "a > 0 and a < 9")
    federation.settle()
    for name in ("B1", "B2"):
        records = dict(federation.stores[name])
        anew = begin_anew(records)
        assert anew.others == 1
        for key, value in anew.writes.items():
            if value is None:
                del records[key]
            else:
                records[key] = value
        gone = {key[1] for key, value in anew.writes.items() if key[0] == "session"}
        assert gone
        assert not [key for key, value in records.items() if gone & {*key[1:], *_words(value)}]
        assert not begin_anew(records).writes


def _words(value: object) -> set[object]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, tuple) else set()


class Live:
    """Two brokers that are processes, B0 with what is backed up."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self.folder = folder
        self.ports = free_ports(2)
        self._closing = closing
        self.neighbours = ({"B1": f"127.0.0.1:{self.ports[1]}"}, {"B0": ""})

    def start(self, number: int) -> ChildBroker:
        name = f"B{number}"
        (self.folder / name).mkdir(exist_ok=True)
        settings = {
            "name": name,
            "port": self.ports[number],
            "data": "data",
            "redial_min_s": 0.05,
            "redial_max_s": 0.2,
        }
        broker = ChildBroker(
            self.folder / name,
            {"broker": settings, "links": {"neighbours": self.neighbours[number]}},
        )
        self._closing.callback(broker.stop)
        return broker

    def url(self, number: int) -> str:
        return f"roost://127.0.0.1:{self.ports[number]}"


def test_live(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backed up while it runs, killed later, restored, started: it is one of the federation again."""
    run = make_roost(capsys, monkeypatch)
    with ExitStack() as closing:
        asyncio.run(play(Live(tmp_path, closing), run))


async def play(live: Live, run: Any) -> None:
    broker, _ = live.start(0), live.start(1)
    data, backup = live.folder / "B0" / "data", live.folder / "backup"
    async with roost.connect(live.url(0)) as here, roost.connect(live.url(1)) as there:

        async def publish(*numbers: int) -> None:
            for number in numbers:
                await there.publish({"n": number})
            await there.flush()

        async def arrived(subscription: Any, last: int) -> list[int]:
            """What comes up to that number; each is acknowledged."""
            got: list[int] = []
            async with asyncio.timeout(PATIENCE_S):
                while not got or got[-1] != last:
                    event = await subscription.get()
                    await event.ack()
                    got.append(event["n"])
            return got

        await there.advertise("n > 0")
        plain = here.subscribe("n > 0")
        await plain.ready()
        async with here.subscribe("n > 0", durable="d") as subscription:
            await subscription.ready()
            await publish(1, 2)
            assert await arrived(subscription, 2) == [1, 2]
        await publish(3, 4)
        async with asyncio.timeout(PATIENCE_S):
            assert [(await plain.get())["n"] for _ in range(4)] == [1, 2, 3, 4]
        made = await asyncio.to_thread(run, "backup", live.folder / "B0" / "roost.toml", backup)
        assert (made.code, made.err) == (0, "")

        # All this is lost with the store, as far as B1 knows that it arrived.
        await publish(5, 6)
        async with asyncio.timeout(PATIENCE_S):
            assert [(await plain.get())["n"] for _ in range(2)] == [5, 6]
        os.kill(broker.pid, signal.SIGKILL)
        assert broker.stop() == -signal.SIGKILL
        # And this is not: it waits at B1.
        await publish(7, 8)
        refused = await asyncio.to_thread(run, "restore", backup, data)
        assert refused.code == 2
        assert refused.err.startswith("error: ")
        done = await asyncio.to_thread(run, "restore", backup, data, "--force", "--json")
        assert (done.code, done.err) == (0, "")
        assert done.json["anew"]["durable"] == 1
        assert done.json["anew"]["waiting"] == 2
        assert done.json["anew"]["others"] == 1
        assert done.json["lost"]["deliveries"] == 2

        broker = live.start(0)
        async with here.subscribe("n > 0", durable="d") as subscription:
            got = await arrived(subscription, 8)
            assert got in ([3, 4, 7, 8], [3, 4, 6, 7, 8], [3, 4, 5, 6, 7, 8])
            await publish(9)
            assert await arrived(subscription, 9) == [9]
        # The other client is back as one that nobody knew, and what was subscribed to there is there.
        await plain.ready()
        await publish(10)
        async with asyncio.timeout(PATIENCE_S):
            while (await plain.get())["n"] != 10:
                pass
    assert not broker.complaints()


def test_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_roost(capsys, monkeypatch)
    path = store_at(tmp_path / "data")
    made = run("backup", tmp_path / "data", tmp_path / "backup")
    assert made.code == 0
    assert made.out.startswith(f"{tmp_path}/backup: {len(RECORDS)} records, ")
    again = run("backup", tmp_path / "data", tmp_path / "backup")
    assert (again.code, again.out) == (2, "")
    assert again.err.startswith(f"error: {tmp_path}/backup: it is there already")
    assert run("backup", tmp_path / "data", tmp_path / "other", "--json").json["commit"] > 0
    assert run("backup", tmp_path / "nowhere", tmp_path / "backup").code == 2
    done = run("restore", tmp_path / "backup", tmp_path / "data", "--force")
    assert done.code == 0
    for line in (
        "kept   durable sessions: 2, of which outboxes: 1; deliveries that wait for them: 2",
        "gone   other sessions, whose clients begin anew: 1; deliveries that waited for them: 1",
        "again  events that waited for 1 neighbours: 1",
        f"the store that was there is {path}.before-",
        "commits since: durable sessions: 0; deliveries for durable sessions: 0",
    ):
        assert line in done.out
    fresh = run("restore", tmp_path / "backup", tmp_path / "new")
    assert "lost   what was accepted since, unless a neighbour" in fresh.out
    path.write_bytes(b"x" * 5000)
    worse = run("restore", tmp_path / "backup", tmp_path / "data", "--force")
    assert "the store that was there can't be read" in worse.out
