"""Chunks end where `handle` does: the same bytes, commands and state, however streams are cut."""

from __future__ import annotations

import random
import struct
from itertools import chain

import pytest
from msgspec import msgpack

from roost.broker.events import Congested, ConnectionClosed, Relieved
from roost.broker.hops import Hop
from roost.broker.messages import (
    DATA,
    Ack,
    Advertise,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from roost.broker.module import Module, Visit
from roost.language import Event, parse_advertisement, parse_subscription
from roost.traces.visits import VisitLog
from roost.wire import encode
from tests.chunks.twin import Twins

WORDS = ("A", "B", "C", "DD", "É", "日本語のことば", "longer-than-eight", "", "😀", "a" * 40)
NUMBERS = (
    0,
    1,
    -1,
    7,
    31,
    -32,
    -33,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    -129,
    2**31,
    2**32,
    -(2**31) - 1,
)
LARGE = (2**53, 2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1)
FLOATS = (0.0, -0.0, 0.5, 1e300, float("inf"), float("-inf"), float("nan"), 33.25)
PUBLISHER, OTHER_PUBLISHER, NEIGHBOUR = 1, 2, 3
SUBSCRIBERS = (10, 11, 12)
STANDING = (PUBLISHER, OTHER_PUBLISHER, NEIGHBOUR)


def predicate(r: random.Random) -> str:
    name = r.choice(["class", "symbol", "low", "volume", "flag", "größe"])
    word, number = r.choice(WORDS), r.choice((*NUMBERS, *LARGE[:2], 0.5, 33.25))
    return r.choice(
        [
            f"{name} = '{word}'",
            f"{name} = '{word}'",
            f"{name} > {number}",
            f"{name} <= {number}",
            f"{name} = {number}",
            f"{name} != {number}",
            f"{name} != '{word}'",
            f"{name} in ('A', 'B', 7)",
            f"{name} prefix '{word[:1]}'",
            f"{name} suffix '{word[-1:]}'",
            f"{name} contains 'D'",
            f"{name} >= 'B'",
            f"{name} present",
            f"{name} = {r.choice(('true', 'false'))}",
        ]
    )


def interest(r: random.Random, *, strange: bool) -> str:
    if not strange:
        return r.choice(
            [
                "class = 'STOCK'",
                f"class = 'STOCK' and symbol = '{r.choice(WORDS)}'",
                f"symbol = '{r.choice(WORDS)}' and low > {r.randrange(-5, 50)}",
                f"low >= {r.randrange(50)} and low <= {r.randrange(50, 90)}",
                f"class = 'STOCK' and volume < {r.randrange(1000)} and low > 3",
            ]
        )
    filters = [
        " and ".join(predicate(r) for _ in range(r.randrange(1, 4)))
        for _ in range(r.choice((1, 1, 1, 2)))
    ]
    return " or ".join(filters)


def value(r: random.Random) -> object:
    return r.choice(
        [
            r.choice(WORDS),
            r.choice(NUMBERS),
            r.choice(FLOATS),
            r.uniform(-5, 95),
            r.random() < 0.5,
            r.choice((*NUMBERS, *LARGE)),
        ]
    )


def attributes(r: random.Random) -> dict[str, object]:
    found: dict[str, object] = {"class": "STOCK" if r.random() < 0.9 else r.choice(WORDS)}
    if r.random() < 0.9:
        found["symbol"] = r.choice(WORDS)
    if r.random() < 0.9:
        found["low"] = r.uniform(0, 90)
    for _ in range(r.choice((0, 0, 1, 3, 14))):
        name = r.choice(
            [
                "volume",
                "flag",
                "größe",
                "x",
                "weird",
                "low",
                "symbol",
                "名" * 20,
                f"n{r.randrange(30)}",
            ]
        )
        found[name] = value(r)
    names = list(found)
    r.shuffle(names)
    return {name: found[name] for name in names}


def publication(r: random.Random, who: str, number: int) -> Publication:
    rest: dict[str, object] = {}
    if r.random() < 0.15:
        rest = {
            "payload": bytes(r.choice((0, 1, 300, 70_000))),
            "content_type": r.choice(("", "text/plain", "ü")),
            "headers": {f"h{i}": "ö" * i for i in range(r.choice((0, 1, 15, 17)))},
        }
    return Publication(who, number, Event(attributes(r)), published_at=r.random(), **rest)  # type: ignore[arg-type]


def other_spelling(r: random.Random, who: str, number: int, frame: int) -> bytes:
    """A publication as another encoder may write it, or as nobody should."""
    items = [
        who,
        number,
        {"class": "STOCK", "symbol": "A", "low": 5.5},
        b"",
        "",
        {},
        0.5,
        1,
    ]
    own = msgpack.encode(items)
    how = r.randrange(7)
    if how == 0:  # a name that stands twice
        pairs = ("class", "STOCK", "symbol", "A", "low", 5.5, "low", 70.5)
        own = b"\x98" + msgpack.encode(who) + msgpack.encode(number) + b"\x84"
        own += b"".join(map(msgpack.encode, pairs)) + b"\xc4\x00\xa0\x80\xcb" + bytes(8) + b"\x01"
    elif how == 1:  # a time that is a whole number
        own = msgpack.encode([*items[:6], 7, 1])
    elif how == 2:  # a number that takes more bytes than it needs
        own = own.replace(
            b"\xa3low\xcb", b"\xa1x\xd3" + (5).to_bytes(8, "big") + b"\xa3low\xcb"
        ).replace(b"\x83", b"\x84", 1)
    elif how == 3:  # of the reserved class
        own = msgpack.encode([*items[:7], 0])
    elif how == 4:  # that says that it is traced
        own = msgpack.encode([*items, True])
    head = struct.pack(">BBBBIB", 0x95, 16, 1, 0xCE, frame, r.choice((0, 0, 5, 126, 127)))
    if how == 5:  # the number of the frame in fewer bytes
        head = b"\x95\x10\x01" + msgpack.encode(frame) + b"\x00"
    return struct.pack(">I", len(head) + len(own)) + head + own


class Ear(Module):
    """Hears what passes, as most modules do."""

    name = "ear"

    def __init__(self) -> None:
        super().__init__()
        self.heard_of: list[str] = []

    def hears_every(self, source: Hop, now: float) -> int:  # noqa: ARG002
        return 7

    def routed(self, visit: Visit, now: float) -> None:
        self.heard_of.append(repr((visit, now)))


class Scribe(Module):
    """Writes it down, as recorders do."""

    name = "scribe"

    def __init__(self) -> None:
        super().__init__()
        self.log = VisitLog()
        self.tap = self.log.tap
        self.tap_many = self.log.tap_many

    def hears_every(self, source: Hop, now: float) -> int:  # noqa: ARG002
        return 0


class Play:
    """Clients and a neighbour of both brokers, and what they do."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.strange = seed % 3 == 2
        self.mild = seed % 3 == 0
        config: dict[str, object] = {
            "ack_delay_s": self.r.choice((0.0, 1.0)),
            "ack_every": self.r.choice((1, 7, 64)),
        }
        if seed % 5 == 4:
            config |= {
                "session_outbox_max": 40,
                "session_outbox_policy": "drop",
                "link_outbox_max": 60,
            }
        if seed % 7 == 6:
            config |= {"routing": "flooding"}
        watchers = [(), (Ear,), (Scribe,), (Ear, Scribe)][seed % 4]
        self.twins = twins = Twins(modules=lambda: [kind() for kind in watchers], **config)  # type: ignore[arg-type]
        self.numbers = dict.fromkeys(("p", "q", "n1", "n2"), 0)
        self.subscriptions: dict[int, list[str]] = {c: [] for c in SUBSCRIBERS}
        self.ids = 0
        twins.link(NEIGHBOUR, "N")
        for connection, name in ((PUBLISHER, "p"), (OTHER_PUBLISHER, "q")):
            twins.attach(connection, name)
            twins.tell(connection, self.advertisement(name))
        for connection in SUBSCRIBERS:
            twins.attach(connection, f"s{connection}")
            for _ in range(self.r.randrange(4)):
                self.subscribe(connection)
        twins.tell(NEIGHBOUR, Advertise("an", parse_advertisement("class present"), "", 1))
        for text in ("class = 'STOCK'", "low > 40"):
            twins.tell(NEIGHBOUR, Subscribe(f"n/{text}", parse_subscription(text), ""))

    def advertisement(self, name: str) -> Advertise:
        text = "class = 'STOCK' and symbol present and low > -100"
        if self.r.random() < 0.3:
            text = "class >= 'A' and symbol present"
        return Advertise(f"a/{name}/{self.ids}", parse_advertisement(text), "")

    def subscribe(self, connection: int) -> None:
        self.ids += 1
        id_ = f"s{connection}/{self.ids}" + "é" * self.r.choice((0, 0, 0, 20))
        subscription = parse_subscription(interest(self.r, strange=self.strange))
        self.subscriptions[connection].append(id_)
        self.twins.tell(connection, Subscribe(id_, subscription, ""))

    def stream(self, connection: int, publishers: tuple[str, ...], count: int) -> bytes:
        """What is said on a connection next."""
        r, frames = self.r, []
        for _ in range(count):
            who = r.choice(publishers)
            self.numbers[who] += 1 if self.mild or r.random() < 0.98 else r.choice((-2, 0, 3))
            number = max(0, self.numbers[who])
            if not self.mild and r.random() < 0.05:
                self.twins.sent[connection][DATA] += 1
                frame = self.twins.sent[connection][DATA]
                frames.append(other_spelling(r, who, number, frame))
                continue
            name = who if self.mild or r.random() < 0.98 else "somebody"
            frames += self.twins.frames(connection, publication(r, name, number))
            if r.random() < 0.03:
                frames.append(self.ack(connection))
        return b"".join(frames)

    def ack(self, connection: int) -> bytes:
        peer = self.twins.slow.node.peers.on[connection]
        assert peer is not None
        control, data = peer.channel.lanes
        return encode(Ack(control.sent, self.r.randint(data.acked, data.sent)))

    def step(self) -> None:
        r, twins = self.r, self.twins
        if r.random() < 0.9 and NEIGHBOUR in twins.out:
            twins.answer(NEIGHBOUR)
        what = r.random()
        subscriber = r.choice(SUBSCRIBERS)
        if what < 0.5:
            connection, publishers = r.choice(
                [(PUBLISHER, ("p",)), (OTHER_PUBLISHER, ("q",)), (NEIGHBOUR, ("n1", "n2"))]
            )
            self.cut(connection, self.stream(connection, publishers, r.choice((1, 5, 60))))
        elif what < 0.65:
            twins.reads(subscriber, self.ack(subscriber))
        elif what < 0.72:
            twins.reads(NEIGHBOUR, self.ack(NEIGHBOUR))
        elif what < 0.8:
            self.subscribe(subscriber)
        elif what < 0.86 and self.subscriptions[subscriber]:
            ids = self.subscriptions[subscriber]
            twins.tell(subscriber, Unsubscribe(ids.pop(r.randrange(len(ids))), ""))
        elif what < 0.9:
            twins.happens(r.choice((Congested, Relieved))(subscriber))
        elif what < 0.93:
            self.ids += 1
            twins.tell(PUBLISHER, self.advertisement("p"))
        elif what < 0.95:
            twins.tell(PUBLISHER, Unadvertise(f"a/p/{r.randrange(self.ids + 1)}", ""))
        elif what < 0.97:
            twins.happens(ConnectionClosed(subscriber, "away"))
            twins.same_outboxes()
            peer = twins.slow.sessions.get(f"s{subscriber}")
            resume = peer is not None
            data = peer.channel.data.acked if peer is not None else 0
            control = peer.channel.control.sent if peer is not None else 0
            sent = twins.sent[subscriber]
            twins.attach(
                subscriber,
                f"s{subscriber}",
                resume=resume,
                control_received=control,
                data_received=data,
            )
            if resume:
                twins.sent[subscriber] = sent
            else:
                self.subscriptions[subscriber] = []
        else:
            twins.now += 1.0

    def cut(self, connection: int, data: bytes) -> None:
        """A stream arrives in pieces."""
        at = 0
        while at < len(data):
            size = self.r.choice((1, 7, 100, 1000, 1 << 16, 1 << 18))
            self.twins.reads(connection, data[at : at + size])
            at += size
            if connection not in self.twins.slow.node.peers.on:
                return


def played(seed: int) -> int:
    """How many events were taken."""
    play = Play(seed)
    for _ in range(60):
        play.step()
        if any(connection not in play.twins.slow.node.peers.on for connection in STANDING):
            break
    play.twins.same_outboxes()
    for slow, fast in zip(*play.twins.modules, strict=True):
        if isinstance(slow, Ear) and isinstance(fast, Ear):
            assert fast.heard_of == slow.heard_of
        elif isinstance(slow, Scribe) and isinstance(fast, Scribe):
            assert rows_of(fast.log) == rows_of(slow.log)
    return play.twins.taken


def rows_of(log: VisitLog) -> list[tuple[object, ...]]:
    """What a log says of each visit."""
    visits = log.take()
    routes = [visits.routes[route] for route in chain.from_iterable(visits.route)]
    return [
        (visits.publishers[publisher], *rest, str(route))
        for publisher, *rest, route in zip(
            chain.from_iterable(visits.publisher),
            chain.from_iterable(visits.sequence),
            chain.from_iterable(visits.published_at),
            chain.from_iterable(visits.bytes),
            chain.from_iterable(visits.traced),
            routes,
            strict=True,
        )
    ]


@pytest.mark.parametrize("batch", range(6))
def test_chunks_end_where_handling_does(batch: int) -> None:
    taken = sum(played(seed) for seed in range(10 * batch, 10 * batch + 10))
    assert taken > 1_000, "hardly anything was taken: hardly anything was compared"


def test_no_more_publishers_are_remembered_than_may_be() -> None:
    """One too many is for the machine, which forgets another."""
    twins = Twins(watermarks_max=2)
    twins.link(NEIGHBOUR, "N")
    twins.answer(NEIGHBOUR)
    event = Event({"class": "STOCK"})
    twins.tell(NEIGHBOUR, *(Publication(name, 1, event) for name in ("n1", "n2", "n3")))
    assert (twins.taken, list(twins.fast.exchange._seen)) == (2, ["n2", "n3"])
    twins.tell(NEIGHBOUR, *(Publication(name, 2, event) for name in ("n2", "n3")))
    assert twins.taken == 4
