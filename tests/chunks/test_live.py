"""A live broker says the same with chunks and without."""

from __future__ import annotations

import asyncio
import random

import pytest

from roost.broker.messages import DATA, Delivery, Frame, Publication, Refused
from roost.chunks.taking import Chunks, Taken
from roost.language import Event
from roost.runtime.in_process import running
from roost.runtime.plain_peer import PlainPeer
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
