"""Refusals that are not the last word: whoever has a session comes back, whoever wants one waits its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from roost.broker.hops import Session
from roost.broker.messages import AttachRefused, Ping, Refused, Settle
from roost.broker.requests import Requests
from roost.client import ConnectError, SessionOver, connect
from roost.client import line as lines
from roost.runtime.tables import LimitsTable
from roost.wire import PREFACE, encode
from tests.client.support import config, in_loop, numbers, serving, take, until, url_of

STOPPING = AttachRefused("the broker is about to stop", transient=True)


class Refuser:
    """Where a broker should be, there is somebody who refuses."""

    def __init__(self, answer: AttachRefused) -> None:
        self.answer = answer
        self.refused = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PREFACE + encode(Ping(0)) + encode(self.answer))
        writer.write_eof()
        self.refused += 1
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        writer.close()


@asynccontextmanager
async def refusing(answer: AttachRefused, port: int = 0) -> AsyncIterator[tuple[Refuser, int]]:
    refuser = Refuser(answer)
    server = await asyncio.start_server(refuser.connected, "127.0.0.1", port)
    try:
        yield refuser, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@in_loop
async def test_sessions_outlast_a_broker_that_is_about_to_stop(tmp_path: Path) -> None:
    async with serving(config(data=tmp_path)) as first:
        port, url = first.port, url_of(first)
        publisher, reader = await connect(url), await connect(url)
        plain = reader.subscribe("n > 0")
        durable = reader.subscribe("n > 0", durable="archive")
        await plain.ready()
        await durable.ready()
    async with refusing(STOPPING, port) as (refuser, _):
        # All three have been refused, and again.
        await until(lambda: refuser.refused >= 9)
        assert publisher.state == reader.state == "connecting"
    async with serving(config(port=port, data=tmp_path)):
        await publisher.publish({"n": 1})
        await publisher.flush()
        assert numbers(await take(plain, 1)) == numbers(await take(durable, 1)) == [1]
        await publisher.close()
        await reader.close()


@in_loop
async def test_whoever_is_new_asks_again_for_as_long_as_it_wants() -> None:
    async with refusing(STOPPING) as (refuser, port):
        with pytest.raises(ConnectError, match=r"within 1 s: the broker is about to stop"):
            await connect(f"roost://127.0.0.1:{port}", timeout_s=1.0)
        assert 2 <= refuser.refused <= 20  # less and less often


@in_loop
async def test_whoever_is_new_is_let_in_when_there_is_room() -> None:
    limits = LimitsTable(connections_max=4)  # of which three are for sessions
    async with serving(config(limits=limits)) as server:
        there = [await connect(url_of(server)) for _ in range(3)]
        opening = asyncio.create_task(connect(url_of(server), timeout_s=20).open())
        await until(lambda: server.refusals >= 2)
        await there.pop().close()
        there.append(await opening)
        for client in there:
            await client.close()


@in_loop
async def test_a_refusal_that_is_final_ends_it_at_once() -> None:
    async with refusing(AttachRefused("never")) as (refuser, port):
        with pytest.raises(ConnectError, match="never"):
            await connect(f"roost://127.0.0.1:{port}", timeout_s=20)
        assert refuser.refused == 1


@in_loop
async def test_a_durable_session_that_is_refused_for_good_is_over() -> None:
    async with serving() as first:
        port = first.port
        client = await connect(url_of(first))
        durable = client.subscribe("n > 0", durable="archive")
        await durable.ready()
    async with refusing(AttachRefused("another process has taken it over"), port):
        with pytest.raises(SessionOver, match="another process has taken it over"):
            await durable.get(20)
        await client.close(0.1)


@in_loop
async def test_a_session_that_is_refused_for_long_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older broker that is full for now says no more than that: it is asked again for a while."""
    monkeypatch.setattr(lines, "REFUSED_S", 1.0)
    async with serving() as first:
        port = first.port
        client = await connect(url_of(first))
        events = client.subscribe("n > 0")
        await events.ready()
    async with refusing(AttachRefused("it is full"), port) as (refuser, _):
        began = asyncio.get_running_loop().time()
        with pytest.raises(SessionOver, match="it is full"):
            await events.get(20)
        assert asyncio.get_running_loop().time() - began >= 1.0
        assert refuser.refused > 1
        await client.close(0.1)


@pytest.mark.parametrize("limits", [{"idle_s": 0.2}, {"idle_s": 0.2, "keepalive_s": 0.05}])
def test_a_client_that_is_sent_away_for_being_idle_comes_back_each_time(
    limits: dict[str, float],
) -> None:
    """However often: three in a row used to be the end."""

    @in_loop
    async def test() -> None:
        async with serving(config(limits=LimitsTable(**limits))) as server:  # type: ignore[arg-type]
            client = await connect(url_of(server))
            await until(lambda: server.refusals >= 5)
            await client.publish({"n": 1})
            await client.flush()
            await client.close()

    test()


def test_who_comes_while_a_broker_stops_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_loop
    async def test() -> None:
        async with serving() as server:
            monkeypatch.setattr(server, "_stopping", True)
            with pytest.raises(ConnectError, match="the broker is about to stop"):
                await connect(url_of(server), timeout_s=0.5)
            assert server.refusals > 1
            monkeypatch.setattr(server, "_stopping", False)

    test()


@pytest.mark.parametrize("options", [{}, {"durable": "archive"}])
@in_loop
async def test_a_broker_that_cannot_tell_yet_is_asked_again(options: dict[str, Any]) -> None:
    """While too much waits for a neighbour, nobody can say what has settled: no end of a subscription."""
    settles = Requests.settles
    refused: list[str] = []

    def at_first_refuses(self: Requests, session: Session, message: Settle) -> None:
        if len(refused) < 2:
            refused.append(message.id)
            self._tell(session, Refused(message.id, "too much waits for a neighbour"))
        else:
            settles(self, session, message)

    with mock.patch.object(Requests, "settles", at_first_refuses):
        async with serving() as server, connect(url_of(server)) as client:
            subscription = client.subscribe("n > 0", **options)
            await subscription.ready()
            assert len(refused) == 2
            await client.publish({"n": 1})
            assert numbers(await take(subscription, 1)) == [1]
