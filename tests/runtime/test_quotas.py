"""Quotas of a user at a live broker: what one has too much is taken from nobody else.

The machine's part, with its figures, is in tests/broker/test_quotas.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

import pytest

from roost.broker.messages import Delivery, Frame, Refused, Settle, Settled
from roost.runtime.plain_peer import PlainPeer, RefusedError
from tests.runtime.peers import Live, live, login_of, play, user

KB = 1_000
AT_ONCE = 50
USERS = {
    "writer": user("writer", publish="class = 'news'"),
    "reader": user("reader", subscribe="class = 'news'"),
    "gone": user("gone", subscribe="class = 'news'"),
}


async def settled(peer: PlainPeer) -> None:
    peer.say(Settle("now", ""))
    await peer.next(Settled)


async def comes(at: Live, name: str, process: str) -> tuple[PlainPeer, bool]:
    """A process of a durable subscriber, and whether its session is new."""
    peer = await at.peer()
    session = f"{name}~durable/news"
    attached = await peer.attach(name, session, login=login_of(name), durable=True, process=process)
    peer.subscribe(f"{session}/events", "class = 'news'")
    await settled(peer)
    return peer, attached.is_new


async def publish(writer: PlainPeer, reader: PlainPeer, count: int, size: int) -> None:
    """So many, each of which is accepted, and read."""
    for _ in range(0, count, AT_ONCE):
        numbers = [writer.publish({"class": "news"}, bytes(size)) for _ in range(AT_ONCE)]
        for number in numbers:
            assert (await reader.next(Delivery)).publication.sequence == number
        reader.acknowledge()
    writer.say(Settle("all", ""))
    while (parcel := await writer.hear()) is not None:
        said = parcel.message if isinstance(parcel, Frame) else parcel
        assert not isinstance(said, Refused), said
        if isinstance(said, Settled):
            return
    raise AssertionError("the writer was closed")


@pytest.mark.parametrize(
    ("quotas", "store", "bound"),
    [
        ({"kept_bytes": 200 * KB}, {}, "200,000"),
        ({}, {"retained_bytes_max": 1_000 * KB}, "250,000"),  # a quarter of it
        ({"kept_bytes": 0}, {"retained_bytes_max": 1_000 * KB}, "250,000"),
        ({"kept_bytes": 300 * KB}, {"retained_bytes_max": 1_000 * KB}, "250,000"),
    ],
)
def test_an_abandoned_durable_session_ends_and_no_publisher_is_refused(
    quotas: dict[str, int], store: dict[str, int], bound: str, tmp_path: Path
) -> None:
    async def scenario(at: Live) -> None:
        machine = at.server.shell.machine
        gone, is_new = await comes(at, "gone", "1")
        assert is_new
        await gone.close()
        reader, _ = await comes(at, "reader", "1")
        writer = await at.attached("writer")
        writer.advertise("writer/a", "class = 'news'")
        await settled(writer)
        with mock.patch.object(at.server.watch, "report", wraps=at.server.watch.report) as reports:
            at.server.shell._report = reports
            await publish(writer, reader, 600, 2 * KB)  # kept, they would be more than fits
        assert "gone~durable/news" not in machine.sessions
        assert not machine.node.hosted.store_is_full
        (report,) = (each.args[0] for each in reports.call_args_list)
        assert (report.level, report.what, report.about) == (
            "warning",
            "session over",
            "gone~durable/news",
        )
        assert f"more than {bound} bytes wait for 'gone'" in report.detail
        again, is_new = await comes(at, "gone", "2")
        assert is_new  # so it knows that something is missing
        await publish(writer, reader, AT_ONCE, 1)
        assert (await again.next(Delivery)).publication.sequence == 601

    broker = {"data": str(tmp_path / "data")}
    asyncio.run(play(scenario, tmp_path, users=USERS, broker=broker, quotas=quotas, store=store))


@live(users=USERS, quotas={"sessions": 2, "subscriptions": 100, "answers": 20})
async def test_all_that_a_user_may_have(at: Live) -> None:
    first, second = await at.attached("reader~1"), await at.attached("reader~2")
    with pytest.raises(RefusedError, match="'reader' has 2 sessions here already"):
        await at.attached("reader~3")
    for number in range(101):
        first.subscribe(f"reader/{number}", f"class = 'news' and n = {number}")
    refused = await first.next(Refused)
    assert (refused.request, refused.reason) == (
        "reader/100",
        "'reader' has 100 subscriptions here already",
    )
    # What the broker reads at once is answered at once; who goes on asking does not listen.
    for _ in range(3):
        for _ in range(21):
            second.advertise("reader/a", "class = 'news'")
        await asyncio.sleep(0.1)
    assert await second.farewell() == ""
    assert "reader~2" not in at.server.shell.machine.sessions
    await at.attached("reader~3")  # there is room again
