"""A live broker says the same with chunks and without, and with a store also after it was killed."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
from pathlib import Path

import pytest

from roost.broker.messages import DATA, Ack, Delivery, Frame, Publication, Refused
from roost.broker.runs import Run
from roost.chunks.taking import Chunks, Taken
from roost.language import Event
from roost.runtime.child_broker import ChildBroker
from roost.runtime.in_process import running
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.store import read_records
from roost.runtime.store_file import StoreFile
from roost.runtime.store_format import Unfolded
from roost.runtime.tables import AdminTable, BrokerTable, LimitsTable, ServerConfig
from roost.wire import encode
from tests.chunks.test_twins import publication

EVENTS = 400
END = Publication("p", 10**9, Event({"class": "STOCK", "end": True, "symbol": "A", "low": 1}))


def stream(seed: int) -> list[bytes]:
    """What a publisher writes: events of all kinds, some of somebody else, cut anywhere."""
    r = random.Random(seed)
    messages = [publication(r, "p" if r.random() < 0.97 else "q", n) for n in range(1, EVENTS + 1)]
    frames = [Frame(DATA, n, message) for n, message in enumerate([*messages, END], 1)]
    data = b"".join(map(encode, frames))
    pieces, at = [], 0
    while at < len(data):
        size = r.choice((1, 50, 1_000, 20_000))
        pieces.append(data[at : at + size])
        at += size
    return pieces


async def played(*, chunks: bool, rate: int = 0) -> tuple[list[list[str]], list[str]]:
    """What each subscriber heard, and what the publisher was refused."""
    config = ServerConfig(
        broker=BrokerTable(port=0, chunks=chunks),
        admin=AdminTable(port=-1),
        limits=LimitsTable(publish_rate_max=rate, publish_burst=50),
    )
    async with running(config) as server:
        subscribers = []
        for number, text in enumerate(("class present", "symbol = 'A' or low > 50", "volume > 3")):
            peer = await PlainPeer.connect("127.0.0.1", server.port)
            await peer.attach(f"s{number}")
            peer.subscribe(f"s{number}/1", text)
            peer.subscribe(f"s{number}/2", "end = true")
            await peer.acknowledged()
            subscribers.append(peer)
        publisher = await PlainPeer.connect("127.0.0.1", server.port)
        await publisher.attach("p")
        publisher.advertise("a", "class = 'STOCK' and low > 5")
        publisher.advertise("b", "end present")
        await publisher.acknowledged()
        for piece in stream(7):
            publisher.write(piece)
            await asyncio.sleep(0)
        heard = [await _until_end(peer) for peer in subscribers]
        refused = []
        publisher.sent[DATA] = EVENTS + 1
        while True:
            parcel = await publisher.hear()
            assert parcel is not None
            if isinstance(parcel, Frame) and isinstance(parcel.message, Refused):
                refused.append(f"{parcel.message.request}: {parcel.message.reason}")
            elif getattr(parcel, "data", 0) == EVENTS + 1:
                break
        for peer in (*subscribers, publisher):
            await peer.close()
    return heard, refused


async def _until_end(peer: PlainPeer) -> list[str]:
    heard = []
    while True:
        delivery = await peer.next(Delivery)
        heard.append(repr((delivery.publication, delivery.subscriptions)))
        if delivery.publication.sequence == END.sequence:
            return heard


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    original = Chunks.take

    def noted(self: Chunks, connection: int, data: bytes, start: int, now: float) -> Taken:
        found = original(self, connection, data, start, now)
        counts.append(found.events)
        return found

    monkeypatch.setattr(Chunks, "take", noted)
    return counts


def test_subscribers_and_publishers_hear_the_same(taken: list[int]) -> None:
    plain = asyncio.run(played(chunks=False))
    assert not taken
    assert asyncio.run(played(chunks=True)) == plain
    assert sum(taken) > EVENTS / 5
    assert len(plain[0][0]) > EVENTS / 2
    assert plain[1]


def test_a_rate_holds_for_what_is_taken_together(taken: list[int]) -> None:
    assert asyncio.run(played(chunks=True, rate=2_000)) == asyncio.run(played(chunks=False))
    assert taken


# --- with a store ---------------------------------------------------------------------------------

STORED = 3_000


class Clients:
    """Clients of a broker, each with all the connections that it has had."""

    def __init__(self) -> None:
        self._all: list[PlainPeer] = []

    async def on(
        self, broker: ChildBroker, name: str, before: PlainPeer | None = None
    ) -> PlainPeer:
        """One of them connects, and goes on where it was."""
        peer = await PlainPeer.connect(broker.host, broker.port)
        self._all.append(peer)
        if before is not None:
            peer.received = before.received
        durable = name.startswith("durable")
        attached = await peer.attach(name, resume=before is not None, durable=durable, process="1")
        if before is not None:
            assert attached.resumed
            peer.sent = [attached.control_received, attached.data_received]
        return peer

    async def close(self) -> None:
        for peer in self._all:
            await peer.close()


async def hear_some(peer: PlainPeer, heard: list[int], count: int) -> None:
    """So many deliveries more, of which it acknowledges some."""
    for _ in range(count):
        delivery = await peer.next(Delivery)
        heard.append(delivery.publication.sequence)
        if len(heard) % 100 == 0:
            peer.put(Ack(peer.received[0], peer.received[1] - 50))


async def hear_all(peer: PlainPeer, heard: list[int]) -> None:
    while not heard or heard[-1] < STORED:
        await hear_some(peer, heard, 1)


async def write_some(publisher: PlainPeer, frames: list[bytes], until: int) -> None:
    first = publisher.sent[DATA]
    publisher.write(b"".join(frames[first:until]))
    await publisher.drain()
    publisher.sent[DATA] = until


async def killed_on_the_way(folder: Path) -> tuple[list[list[int]], list[int], int]:
    """What subscribers heard, who were there, and one that was away; and how many runs the store had."""
    settings = {"broker": {"data": "data", "session_memory_max": 500}}
    broker, clients = ChildBroker(folder, settings), Clients()
    frames = [
        encode(Frame(DATA, n, Publication("p", n, Event({"class": "STOCK", "low": n}))))
        for n in range(1, STORED + 1)
    ]
    try:
        names = ("durable1", "durable2", "plain")
        peers = [await clients.on(broker, name) for name in names]
        for peer in peers:
            peer.subscribe(f"{peer.client}/1", "class = 'STOCK'")
            await peer.acknowledged()
        publisher = await clients.on(broker, "p")
        publisher.advertise("a", "class = 'STOCK'")
        await publisher.acknowledged()
        away, *there = peers
        await away.close()
        heard: list[list[int]] = [[] for _ in there]
        await write_some(publisher, frames, 1_000)
        async with asyncio.TaskGroup() as group:
            for peer, numbers in zip(there, heard, strict=True):
                group.create_task(hear_some(peer, numbers, 1_000))
        # Some of this is safe when it is killed, some not; what was said, is.
        await write_some(publisher, frames, 2_000)
        await asyncio.gather(*(hear_some(p, n, 150) for p, n in zip(there, heard, strict=True)))
        broker.signal(signal.SIGKILL)
        broker.stop()
        runs = runs_in(folder / "data" / "roost.db", folder / "copy")
        broker = ChildBroker(folder, settings)
        there = [await clients.on(broker, peer.client, peer) for peer in there]
        publisher = await clients.on(broker, "p", publisher)
        assert publisher.sent[DATA] >= max(map(max, heard))
        await write_some(publisher, frames, STORED)
        await asyncio.gather(*(hear_all(p, n) for p, n in zip(there, heard, strict=True)))
        late: list[int] = []
        await hear_all(await clients.on(broker, "durable1", away), late)
    finally:
        await clients.close()
        broker.stop()
    return heard, late, runs


def runs_in(store: Path, copy: Path) -> int:
    """How many runs a store has that was left as it is."""
    shutil.copytree(store.parent, copy)
    file = StoreFile.open(copy / store.name)
    records = read_records(file, Unfolded())
    file.close()
    return sum(isinstance(record, Run) for record in records.values())


def test_what_was_said_is_there_after_it_was_killed(tmp_path: Path) -> None:
    heard, late, runs = asyncio.run(killed_on_the_way(tmp_path))
    assert runs > 0
    for numbers in (*heard, late):
        assert numbers == list(range(1, STORED + 1))
