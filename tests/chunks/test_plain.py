"""The first pass against the same in plain Python; and what it must leave to the machine."""

from __future__ import annotations

import random

import pytest

from roost.broker.hops import Session
from roost.broker.messages import DATA, Advertise, Frame, Publication, Subscribe, Unadvertise
from roost.broker.module import Passage
from roost.chunks.taking import Left
from roost.language import Event, parse_advertisement, parse_subscription
from roost.wire import encode
from tests.chunks.plain import Read, read_plainly
from tests.chunks.test_twins import interest, publication
from tests.chunks.twin import Twins


def first_pass(twins: Twins, connection: int, data: bytes) -> tuple[int, list[Read]]:
    """What the kernel says, in the same words; the broker that it is asked of takes what was read."""
    chunks = twins.chunks
    peer = twins.fast.node.peers.on[connection]
    assert peer is not None
    found: list[Read] = []

    def hear(passage: Passage, _: float) -> None:
        for event, way in enumerate(passage.ways[number] for number in passage.way.tolist()):
            local = zip(way.local, way.matched, strict=True)
            matched = {hop.name: ids for hop, ids in local if isinstance(hop, Session)}
            links = [hop.name for hop in way.links]
            found.append(Read(passage.publication(event).encoded, way.hops, links, matched))

    # As a module that listens would hear of it.
    modules = twins.fast.modules
    modules.together = lambda *_: 0  # type: ignore[method-assign]
    modules.passed = hear  # type: ignore[method-assign,assignment]
    taken = chunks.take(connection, data, 0, 0.0)
    return taken.at, found


@pytest.mark.parametrize("seed", range(12))
def test_the_first_pass_says_what_plain_python_says(seed: int) -> None:
    r = random.Random(seed)
    twins = Twins()
    twins.attach(1, "p")
    advertised = r.choice(("class present", "class >= 'A' and symbol present", "low > 10"))
    twins.tell(1, Advertise("a", parse_advertisement(advertised), ""))
    for connection in (2, 3, 4):
        twins.attach(connection, f"s{connection}")
        for number in range(r.randrange(20)):
            text = interest(r, strange=seed % 2 == 1)
            twins.tell(
                connection, Subscribe(f"{connection}/{number}", parse_subscription(text), "")
            )
    for _ in range(20):
        start = twins.fast.sessions["p"].channel.data.received
        frames = [
            encode(Frame(DATA, start + n, publication(r, "p", start + n)))
            for n in range(1, r.choice((2, 10)))
        ]
        at, expected = read_plainly(twins.slow, 1, b"".join(frames))
        stopped, found = first_pass(twins, 1, b"".join(frames))
        # It may leave more to the machine than it has to, but is right in all that it takes.
        assert found == expected[: len(found)]
        assert stopped <= at
        if seed % 2 == 0:
            assert stopped == at
        twins.slow.sessions["p"].channel.data.received = start + len(found)
        for name in ("s2", "s3", "s4"):  # both have the same in their outboxes, or nothing
            lane = twins.fast.sessions[name].channel.data
            lane.acknowledged(lane.sent)


def plain(number: int = 1, **rest: object) -> Publication:
    return Publication("p", number, Event({"class": "A", "x": 1}), **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "frame",
    [
        Frame(DATA, 2, plain()),  # not the next
        Frame(0, 1, plain()),  # of another class
        Frame(DATA, 1, Publication("q", 1, Event({"class": "A"}))),  # somebody else's
        Frame(DATA, 1, Publication("p", 1, Event({"class": "B"}))),  # not advertised
        Frame(DATA, 1, plain(priority=0)),
        Frame(DATA, 1, plain(traced=True)),
        Frame(DATA, 1, plain(payload=bytes(2_048))),
        Frame(DATA, 1, plain(headers={f"h{n}": "" for n in range(16)})),
        Frame(DATA, 1, Publication("p", 1, Event({"class": "A", "x": 2**60}))),
        Frame(DATA, 1, plain(), hops=127),
        Frame(DATA, 1, Subscribe("s", parse_subscription("x > 0"), "")),
    ],
)
def test_what_is_not_plain_is_for_the_machine(frame: Frame) -> None:
    twins = Twins()
    twins.attach(1, "p")
    twins.tell(1, Advertise("a", parse_advertisement("class = 'A'"), ""))
    twins.tell(1, Subscribe("b", parse_subscription("class = 'A' and x > 0"), ""))
    taken = twins.chunks.take(1, encode(frame), 0, 0.0)
    assert (taken.commands, taken.at, taken.events, taken.left) == ([], 0, 0, Left.FRAME)
    twins.same_state()


def test_a_plain_one_is_taken() -> None:
    twins = Twins()
    twins.attach(1, "p")
    twins.tell(1, Advertise("a", parse_advertisement("class = 'A'"), ""))
    twins.tell(1, *(plain(number) for number in range(1, 4)))
    assert twins.taken == 3


def test_what_may_be_published_follows_the_advertisements() -> None:
    twins = Twins()
    twins.attach(1, "p")
    twins.attach(2, "s")
    twins.tell(2, Subscribe("all", parse_subscription("class present"), ""))
    said = 0

    def publish(class_: str) -> int:
        nonlocal said
        said, before = said + 1, twins.taken
        twins.tell(1, Publication("p", said, Event({"class": class_})))
        return twins.taken - before

    assert publish("A") == 0
    twins.tell(1, Advertise("a", parse_advertisement("class = 'A'"), ""))
    assert (publish("A"), publish("B")) == (1, 0)
    twins.tell(1, Advertise("b", parse_advertisement("class = 'B'"), ""))
    assert (publish("A"), publish("B")) == (1, 1)
    twins.tell(1, Unadvertise("a", ""))
    assert (publish("A"), publish("B")) == (0, 1)
    twins.tell(1, Unadvertise("b", ""))
    assert (publish("A"), publish("B")) == (0, 0)


@pytest.mark.parametrize(
    ("count", "bytes_max"), [(15, 60_000), (16, 60_000), (40, 60_000), (40, 99)]
)
def test_a_delivery_for_many_subscriptions(count: int, bytes_max: int) -> None:
    """From 16 on their array has another mark; and what takes more room than there is goes in parts."""
    twins = Twins(delivery_ids_bytes_max=bytes_max)
    twins.attach(1, "p")
    twins.attach(2, "s")
    twins.tell(1, Advertise("a", parse_advertisement("class = 'A'"), ""))
    wanted = parse_subscription("class = 'A'")
    twins.tell(2, *(Subscribe(f"é{number}", wanted, "") for number in range(count)))
    twins.tell(1, *(plain(number) for number in range(1, 4)))
    twins.same_outboxes()
    assert twins.taken == (3 if bytes_max > 99 else 0)
