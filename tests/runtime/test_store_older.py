"""What an older Roost wrote is read to the same meaning: stores and frames of commits before this one.

The files are in `tests/data`, whose `make.py` says how they came to be. One store, and one set of frames,
stays here for each format that was ever in use.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import roost
from roost.broker.messages import (
    CONTROL,
    DATA,
    Ack,
    Advertise,
    Attach,
    Attached,
    AttachRefused,
    Delivery,
    DrainEcho,
    Dropped,
    EndSession,
    Frame,
    HandOver,
    LinkHello,
    Login,
    Marker,
    MarkerEcho,
    Migrate,
    Migrated,
    MigrationComplete,
    MigrationFailed,
    MigrationUpdate,
    Note,
    Parcel,
    Paused,
    PausePlease,
    Ping,
    Pong,
    Probe,
    Probed,
    Publication,
    Redirect,
    Refused,
    SessionEnded,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from roost.language import Event, parse_advertisement, parse_subscription
from roost.runtime.backup import back_up, restore
from roost.runtime.in_process import start_server
from roost.runtime.server import BrokerServer
from roost.runtime.store_format import FORMAT_VERSION
from roost.runtime.tables import AdminTable, BrokerTable, LinksTable, ServerConfig
from roost.wire import decode, encode
from tests.runtime.store_kit import PATIENCE_S, load

DATA_FILES = Path(__file__).parents[1] / "data"
FRAMES = ["1b62682"]


class Then(NamedTuple):
    """A store of some commit."""

    commit: str
    format: int
    incarnation: str
    records: dict[str, int]  # of each kind
    sent_again: int  # to a neighbour, if it begins anew


_SAME = {
    "incarnation": 1,
    "boots": 1,
    "drains": 1,
    "link": 1,
    "session": 5,
    "published": 1,
    "adv": 2,
    "sub": 4,
    "told": 2,
    "received": 9,
}
STORES = [
    Then("1b62682", 1, "8476f471c4c72ad8", {**_SAME, "sent": 9, "out": 12}, 2),
    # Its neighbour, which was away, was to get all that it might want.
    Then("0358811", 2, "4beecd07539fa21f", {**_SAME, "configured": 1, "sent": 7, "out": 15}, 6),
]

QUOTE = Publication(
    "P1",
    7,
    Event({"class": "STOCK", "open": 30.25, "volume": 203400, "halted": True}),
    b"\x00\x01",
    "text/plain",
    {"trace": "abc"},
    12.5,
    DATA,
)
# As 1b62682 meant them; what came later is as if nobody had said it.
PARCELS: list[Parcel] = [
    Ack(3, 70_000),
    LinkHello(1, "B0", "i1", "i2", 3, 4),
    Login("alice", "secret"),
    Attach(1, "C1", "s1", True, 3, 4, True, "p1"),
    Attached("s1", False, 3, 4),
    AttachRefused("full", "B2"),
    Ping(9),
    Pong(9),
    Frame(DATA, 5, QUOTE, 2),
    Frame(DATA, 6, Delivery(QUOTE, ("C1/main", "C1/dips")), 3),
    Frame(CONTROL, 7, Advertise("a1", parse_advertisement("class = 'STOCK'"), "P1", 3)),
    Frame(DATA, 8, Unadvertise("a1", "P1", 3)),
    Frame(CONTROL, 9, Subscribe("s1", parse_subscription("low < 20 or x present"), "S1")),
    Frame(CONTROL, 10, Unsubscribe("s1", "S1")),
    Frame(DATA, 11, Marker("m1", "P1")),
    Frame(CONTROL, 12, MarkerEcho("m1", "P1")),
    Frame(DATA, 13, EndSession("C1")),
    Frame(DATA, 14, SessionEnded("left")),
    Frame(CONTROL, 15, Redirect("B2", "d1")),
    Frame(CONTROL, 16, Refused("s1", "no")),
    Frame(DATA, 2**32, Dropped(200), 128),
    Frame(CONTROL, 17, Settle("q1", "C1")),
    Frame(CONTROL, 18, Settled("q1")),
    Frame(CONTROL, 19, MigrationUpdate("P1", ("P1/1", "P1/2"), ("B6", "B5"), "d1", 4)),
    Frame(DATA, 20, MigrationComplete("P1", ("P1/1", "P1/2"), "d1", 4)),
    Frame(CONTROL, 21, Migrate(("P1/1", "P1/2"), "d1")),
    Frame(CONTROL, 22, Migrated()),
    Frame(CONTROL, 23, MigrationFailed("gone")),
    Frame(CONTROL, 24, PausePlease("d1")),
    Frame(DATA, 25, Paused("d1")),
    Frame(DATA, 26, HandOver("d1")),
    Frame(DATA, 27, DrainEcho("m1", "P1")),
    Frame(DATA, 28, Note("grape", b"\x01\x02", "d1", behind=True)),
    Frame(CONTROL, 29, Probe(9, ("B6", "B5"))),
    Frame(CONTROL, 30, Probed(9, ("B6",), (0.5,))),
]


def bodies(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("commit", FRAMES)
def test_frames(commit: str) -> None:
    data = (DATA_FILES / f"frames-{commit}.bin").read_bytes()
    # A publication that was read knows its bytes, so those that it is compared with have to be read too.
    assert [decode(body) for body in bodies(data)] == [decode(encode(p)[4:]) for p in PARCELS]
    # And said again in words that the other one understands: there is nothing new in them to say.
    assert b"".join(encode(decode(body)) for body in bodies(data)) == data


# --- the store --------------------------------------------------------------------------------------


@pytest.fixture(params=STORES, ids=lambda then: then.commit)
def then(request: pytest.FixtureRequest) -> Then:
    found: Then = request.param
    return found


@pytest.fixture
def old_store(then: Then, tmp_path: Path) -> Path:
    """A copy of it."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "roost.db"
    shutil.copyfile(DATA_FILES / f"store-{then.commit}.db", path)
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database, database:
        (version,) = database.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
    return int(version)


def test_the_records_of_a_store(old_store: Path, then: Then) -> None:
    assert version_of(old_store) == then.format
    records = load(old_store)
    assert Counter(key[0] for key in records) == then.records
    assert version_of(old_store) == FORMAT_VERSION
    assert load(old_store) == records


def test_a_broker_goes_on_with_it(old_store: Path, then: Then) -> None:
    asyncio.run(go_on(old_store, then.incarnation))


def test_a_broker_is_restored_from_a_backup_of_it(
    old_store: Path, then: Then, tmp_path: Path
) -> None:
    back_up(old_store, tmp_path / "backup")
    done = restore(tmp_path / "backup", tmp_path / "new" / "roost.db")
    anew = done.anew
    assert (anew.durable, anew.outboxes, anew.waiting) == (3, 1, 3)
    assert (anew.others, anew.lost, anew.sent_again) == (2, 5, then.sent_again)
    asyncio.run(go_on(tmp_path / "new" / "roost.db", None))


async def go_on(path: Path, incarnation: str | None) -> None:
    """Everybody comes back and finds what there should be; and then once more, with what that left."""
    far, broker = await start("B1", {"B0": ""}, ""), None
    try:
        broker = await start("B0", {"B1": f"127.0.0.1:{far.port}"}, str(path.parent))
        machine = broker.shell.broker
        assert incarnation in (None, machine.identity.incarnation)
        durable = {name: s.client for name, s in machine.sessions.items() if s.durable}
        assert durable == {
            "durable/archive": "durable~archive",
            "durable/idle": "durable~idle",
            "outbox/orders": "outbox~orders",
        }
        subscriptions = {id_: str(e.interest) for id_, e in machine.router.subscriptions.items()}
        assert subscriptions["durable/archive/events"] == "class = 'STOCK' and volume >= 20"
        assert subscriptions["durable/idle/events"] == "class = 'NOTHING' or volume < 0"
        here, there = (f"roost://127.0.0.1:{server.port}" for server in (broker, far))
        async with roost.connect(here) as client, roost.connect(there) as other:
            await other.advertise("class = 'STOCK'")
            subscription = client.subscribe("class = 'STOCK' and volume >= 20", durable="archive")
            async with asyncio.timeout(PATIENCE_S), subscription:
                got = [await subscription.get() for _ in range(3)]
                assert [(e["symbol"], e["volume"]) for e in got] == [
                    ("C", 30),
                    ("C", 60),
                    ("C", 90),
                ]
                assert [e.payload for e in got] == [b"\x00\x01"] * 3
                assert [dict(e.headers) for e in got] == [{"trace": n} for n in ("30", "60", "90")]
                for event in got:
                    await event.ack()
                await subscription.ready()
                await other.publish({"class": "STOCK", "symbol": "D", "volume": 99})
                last = await subscription.get()
                assert last["symbol"] == "D"
                await last.ack()
            async with client.outbox("orders", advertise="class = 'ORDER'") as outbox:
                assert (outbox.last, outbox.is_new) == (3, False)
                await outbox.publish(4, {"class": "ORDER", "number": 4})
                await outbox.flush()
    finally:
        for server in (broker, far):
            if server is not None:
                await server.stop(within_s=1.0)
    records = load(path)
    assert records["published", "outbox/orders"][1] == 4
    of_archive = {key[0] for key in records if key[1:3] == ("session", "durable/archive")}
    assert of_archive.isdisjoint(("out", "run"))


async def start(name: str, neighbours: dict[str, str], data: str) -> BrokerServer:
    table: dict[str, Any] = {"name": name, "port": 0, "data": data}
    return await start_server(
        ServerConfig(
            broker=BrokerTable(**table),
            links=LinksTable(neighbours=neighbours),
            admin=AdminTable(port=-1),
        )
    )
