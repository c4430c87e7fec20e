"""How fast events may come, of a connection and of a user."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.broker.events import LinkAdded
from roost.broker.messages import (
    CONTROL,
    DATA,
    PROTOCOL_VERSION,
    Advertise,
    Attach,
    EndSession,
    Frame,
    LinkHello,
    Login,
    Publication,
    SessionEnded,
)
from roost.language import Event, parse_advertisement
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.rates import CROWD, Bucket, Rates
from tests.runtime.peers import Live, login_of, play, user

# --- buckets --------------------------------------------------------------------------------------


def test_a_burst_is_free_and_comes_back() -> None:
    bucket = Bucket(10.0, 100, now=0.0)
    assert bucket.take(100, 0.0) == 0
    assert bucket.take(20, 0.0) == 2.0
    assert bucket.take(0, 2.0) == 0
    assert bucket.take(5, 2.0) == 0.5
    assert bucket.take(101, 1_000.0) == pytest.approx(0.1)  # no more than a burst is saved


@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 50), min_size=20, max_size=100),
    st.floats(0.5, 100.0),
)
def test_those_who_share_one_are_no_faster_than_one(
    readers: int, pieces: list[int], rate: float
) -> None:
    """Each reads a piece as soon as it may; never is more read than the rate, a burst and a piece each."""
    burst = 10
    bucket, due, taken = Bucket(rate, burst, 0.0), [0.0] * readers, 0
    for piece in pieces:
        reader = min(range(readers), key=due.__getitem__)
        now = due[reader]
        due[reader] = now + bucket.take(piece, now)
        taken += piece
        assert taken <= now * rate + burst + 50 * readers + 1e-6


def test_users_whose_buckets_are_full_are_forgotten_and_no_others() -> None:
    rates = Rates(1.0, 10)
    (owing,) = rates.of("owing", 0.0)
    owing.take(CROWD * 10, 0.0)
    for number in range(CROWD * 5):
        rates.of(f"passer-by {number}", 1.0)
    assert len(rates) <= CROWD
    assert rates.of("owing", 1.0) == [owing]


def test_none_without_a_rate() -> None:
    rates = Rates(0.0, 10)
    assert rates.of("eve", 0.0) == []
    assert len(rates) == 0


# --- live -----------------------------------------------------------------------------------------

RATE, BURST = 20.0, 5
LIMITS = {"publish_burst": BURST}


async def publisher(at: Live, name: str) -> PlainPeer:
    peer = await at.attached(name)
    peer.advertise(f"{name}/a", f"class = '{name.partition('~')[0]}'")
    await peer.acknowledged()
    return peer


async def publishes(peer: PlainPeer, count: int) -> None:
    """One by one: what has come in one piece is accepted as a whole."""
    for _ in range(count):
        peer.publish({"class": peer.client.partition("~")[0]})
        await peer.acknowledged()


@pytest.mark.parametrize("rates", ["a connection", "a user", "both"])
def test_a_connection_is_read_no_faster(rates: str, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peer = await publisher(at, "eve")
        began = time.monotonic()
        await publishes(peer, BURST + 11)
        assert time.monotonic() - began >= 10 / RATE  # the last one is waited for when it has come

    limits = LIMITS | ({"publish_rate_max": RATE} if rates != "a user" else {})
    quotas = {"events_per_s": RATE} if rates != "a connection" else {}
    asyncio.run(play(scenario, tmp_path, limits=limits, quotas=quotas))


def test_a_user_is_no_faster_on_many_connections(tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peers = [await publisher(at, f"eve~{n}") for n in range(3)]
        began = time.monotonic()
        await asyncio.gather(*(publishes(peer, BURST + 5) for peer in peers))
        # Of each one event may have come that is waited for afterwards.
        assert time.monotonic() - began >= (3 * (BURST + 5) - BURST - 3) / RATE

    asyncio.run(play(scenario, tmp_path, limits=LIMITS, quotas={"events_per_s": RATE}))


def test_a_user_is_no_faster_on_new_connections(tmp_path: Path) -> None:
    """Each says all that it has to say at once, behind its greeting, and goes."""

    async def scenario(at: Live) -> None:
        began = time.monotonic()
        for n in range(10):
            peer, client = await at.peer(), f"eve~{n}"
            publication = Publication(client, 1, Event({"class": "eve"}))
            peer.put(
                Login(*login_of("eve")),
                Attach(PROTOCOL_VERSION, client, client, False, 0, 0),
                Frame(CONTROL, 1, Advertise("eve/a", parse_advertisement("class = 'eve'"), "")),
                *(Frame(DATA, k, replace(publication, sequence=k)) for k in range(1, 4)),
            )
            peer.sent = [1, 3]
            await peer.acknowledged()
            peer.say(EndSession(""))
            await peer.next(SessionEnded)
            await peer.close()
        # What came in the last piece is waited for afterwards; a farewell counts as well.
        assert time.monotonic() - began >= (10 * 4 - BURST - 4) / RATE

    asyncio.run(play(scenario, tmp_path, limits=LIMITS, quotas={"events_per_s": RATE}))


def test_others_are_as_fast_as_before_and_administrators_as_fast_as_they_can(
    tmp_path: Path,
) -> None:
    async def scenario(at: Live) -> None:
        eve = await publisher(at, "eve")
        frames = [
            Frame(DATA, n, Publication("eve", n, Event({"class": "eve"}))) for n in range(1, 301)
        ]
        eve.put(*frames)
        eve.sent[DATA] = len(frames)
        await eve.acknowledged()
        (connection,) = (c for c in at.server._open.values() if c.principal == "eve")
        boss = await publisher(at, "boss")
        await publishes(boss, 10 * BURST)
        other = await publisher(at, "other")
        await publishes(other, BURST)
        assert connection._throttled  # all the while: it owes for 14 s

    users = {
        "boss": user("boss", publish="*", administer=True),
        "other": user("other", publish="*"),
    }
    quotas = {"events_per_s": RATE}
    asyncio.run(play(scenario, tmp_path, limits=LIMITS, quotas=quotas, users=users))


def test_a_neighbour_is_not_a_user(tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        at.server.shell.handle(LinkAdded("N", dial=False))
        peer = await at.peer()
        peer.put(Login(*login_of("N")), LinkHello(PROTOCOL_VERSION, "N", "n", "", 0, 0))
        await peer.next(LinkHello)
        for n in range(1, 301):
            peer.say(Publication("x", n, Event({"class": "eve"})))
        await peer.acknowledged()
        (connection,) = (c for c in at.server._open.values() if c.principal == "N")
        assert not connection._throttled

    limits = LIMITS | {"publish_rate_max": RATE}
    asyncio.run(play(scenario, tmp_path, limits=limits, quotas={"events_per_s": RATE}))
