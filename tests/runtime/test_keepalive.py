"""Peers that are gone without a word: noticed from both ends, on links and in sessions."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from roost.broker.messages import ASKS_BACK, Attached, Ping, Settle, Settled
from roost.client import connect
from roost.client import connection as client_connection
from roost.runtime import connection as runtime_connection
from roost.runtime.child_broker import ChildBroker
from roost.runtime.keepalive import DEAD_AFTER, Keepalive, Verdict
from roost.runtime.plain_peer import PlainPeer
from roost.runtime.server import SWEEP_S, BrokerServer
from roost.runtime.tables import LimitsTable
from roost.wire import PREFACE, encode
from tests.client.support import config, in_loop, serving, until, url_of
from tests.runtime.wires import HOST, Wire, wire_to

QUICK_S = 0.1
QUICK = LimitsTable(keepalive_s=QUICK_S)
# As good as off.
SLOW = LimitsTable(keepalive_s=1_000.0)


def url_through(wire: Wire) -> str:
    return f"roost://{HOST}:{wire.port}"


def only(server: BrokerServer) -> int:
    """The number of the only connection that has greeted."""
    (id_,) = (c.id for c in server._open.values() if c.greeted)
    return id_


# --- the rule -------------------------------------------------------------------------------------


def verdicts(watch: Keepalive, times: list[float], **how: bool) -> list[str]:
    return [watch.look(t, 0.0, **how).name for t in times]


def test_silence_while_we_do_not_read_counts_against_nobody() -> None:
    watch = Keepalive(1.0, 0.0)
    steps = [n / 2 for n in range(1, 20)]
    assert verdicts(watch, steps, can_hear=False) == ["NOTHING", "ASK"] * 9 + ["NOTHING"]
    # From when we read again, it has as long as any.
    assert "DEAD" not in verdicts(watch, [10.0, 11.0, 12.0])
    assert verdicts(watch, [13.0]) == ["DEAD"]


@pytest.mark.parametrize("who", ["client", "broker"])
def test_by_default_the_dead_are_noticed_within_ten_seconds(who: str) -> None:
    """However the looks fall: the last word may have come just behind one."""
    if who == "client":
        every_s = client_connection.KEEPALIVE_S
        look_s = every_s / client_connection.LOOKS
    else:
        every_s, look_s = LimitsTable().keepalive_s, SWEEP_S
    watch = Keepalive(every_s, 0.0)
    looks = [n * look_s for n in range(1, 30)]
    noticed = next(t for t in looks if watch.look(t, 0.001) is Verdict.DEAD)
    assert noticed < 10.0


def test_whoever_was_away_itself_starts_counting_anew() -> None:
    watch = Keepalive(1.0, 0.0)
    assert verdicts(watch, [0.5, 100.0, 100.5, 101.0]) == ["NOTHING", "NOTHING", "NOTHING", "ASK"]
    assert verdicts(watch, [102.0, 103.0, 103.5]) == ["ASK", "ASK", "DEAD"]


def test_behind_a_frame_that_is_not_complete_there_may_be_a_question() -> None:
    watch = Keepalive(1.0, 0.0)
    steps = [n / 2 for n in range(1, 9)]
    said = [watch.look(t, t, can_see=False) for t in steps]  # something comes all the while
    assert said == [Verdict.NOTHING, Verdict.ASK] * 4


def test_off() -> None:
    assert verdicts(Keepalive(0.0, 0.0), [10.0, 1e6]) == ["NOTHING"] * 2


# --- sessions -------------------------------------------------------------------------------------


class Hasty(asyncio.SelectorEventLoop):
    """An event loop that waits for nothing: its clock is put on instead."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_s = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def skip(timeout_s: float | None = None) -> Any:
            self._passed_s += timeout_s or 0.0
            return select(0)

        self._selector.select = skip  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._passed_s


@pytest.mark.parametrize("asks_every_s", [0.1, 0.4, 3.0])
def test_a_client_notices_in_time_that_one_is_gone_that_has_asked_often(
    asks_every_s: float,
) -> None:
    async def noticed_after_s() -> float:
        loop = asyncio.get_running_loop()
        gone = loop.create_future()
        line, transport = mock.Mock(loop=loop), mock.Mock()
        line.intake.is_short = False
        transport.is_closing.return_value = False
        transport.get_extra_info.return_value = None
        transport.abort.side_effect = lambda: gone.set_result(loop.time())
        connection = client_connection.Connection(line, None, "B0")
        connection.connection_made(transport)
        connection.data_received(PREFACE + encode(Attached("s1", False, 0, 0)))
        for _ in range(50):
            connection.data_received(encode(Ping(0)))
            await asyncio.sleep(asks_every_s)
        heard_at = loop.time() - asks_every_s
        at: float = await gone
        connection.connection_lost(None)
        return at - heard_at

    with asyncio.Runner(loop_factory=Hasty) as runner:
        assert runner.run(noticed_after_s()) < 10.0


@pytest.mark.parametrize("ways", [("up", "down"), ("up",), ("down",)], ids="-".join)
def test_a_client_notices_that_its_broker_is_gone(ways: tuple[str, ...]) -> None:
    """The broker notices nothing, and is asked nothing."""

    @in_loop
    async def test() -> None:
        async with serving(config(limits=SLOW)) as server, wire_to(server.port) as wire:
            states: list[tuple[str, str]] = []
            client = connect(
                url_through(wire),
                keepalive_s=QUICK_S,
                on_state=lambda *state: states.append(state),
            )
            async with client, connect(url_of(server)) as other:
                subscription = client.subscribe("n > 0")
                await subscription.ready()
                wire.kill(*ways)  # type: ignore[arg-type]
                await until(lambda: wire.connections == 2)
                await other.publish({"n": 1})
                # The session goes on, over another connection.
                assert (await subscription.get(20))["n"] == 1
                await client.flush()
            assert ("connecting", f"nothing was heard for {DEAD_AFTER * QUICK_S:g} s") in states
            assert wire.connections == 2

    test()


@pytest.mark.parametrize("ways", [("up", "down"), ("up",), ("down",)], ids="-".join)
def test_a_broker_notices_that_a_client_is_gone(ways: tuple[str, ...]) -> None:
    @in_loop
    async def test() -> None:
        async with serving(config(limits=QUICK)) as server, wire_to(server.port) as wire:
            reasons: list[str] = []
            refused = mock.Mock(side_effect=lambda _, __, reason: reasons.append(reason))
            server.refused = refused  # type: ignore[method-assign]
            client = connect(url_through(wire), keepalive_s=1_000.0)
            async with client:
                id_ = only(server)
                assert client._line is not None
                connection = client._line.connection
                assert connection is not None
                wire.kill(*ways)  # type: ignore[arg-type]
                await until(lambda: id_ not in server._open)
                assert reasons == [f"nothing was heard for {DEAD_AFTER * QUICK_S:g} s"]
                connection.abort()  # who has not noticed

    test()


@in_loop
async def test_whoever_is_there_and_says_nothing_stays() -> None:
    async with serving(config(limits=QUICK)) as server, wire_to(server.port) as wire:
        async with connect(url_through(wire), keepalive_s=QUICK_S) as client:
            id_, before = only(server), dict(wire.passed)
            await until(lambda: all(wire.passed[way] > before[way] + 20 for way in before))
            assert only(server) == id_
            assert client.state == "connected"
        assert wire.connections == 1


@in_loop
async def test_a_client_that_answers_nothing() -> None:
    async with serving(config(limits=QUICK)) as server:
        peer = await PlainPeer.connect(HOST, server.port)
        peer.is_mute = True
        await peer.attach("mute")
        await peer.farewell()
        assert peer.pinged > 1
        await until(lambda: not server._open)
        assert server.refusals == 1
        await peer.close()


@in_loop
async def test_a_client_of_an_older_version_is_asked_nothing() -> None:
    async with serving(config(limits=QUICK)) as server:
        old = await PlainPeer.connect(HOST, server.port)
        new = await PlainPeer.connect(HOST, server.port)
        await old.attach("old", version=ASKS_BACK - 1)
        await new.attach("new")
        hearing = asyncio.create_task(new.farewell(60))
        await until(lambda: new.pinged > 3 * DEAD_AFTER)
        old.say(Settle("still there", ""))
        assert (await old.next(Settled)).id == "still there"
        assert old.pinged == 0
        hearing.cancel()
        await old.close()
        await new.close()


@in_loop
async def test_an_old_broker_is_asked_nothing() -> None:
    """One that has not asked itself by the time that it lets us in is an old one."""
    async with serving(config(limits=SLOW)) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime_connection, "ASKS_BACK", 1_000)  # it takes us for old, as we it
            async with connect(url_of(server), keepalive_s=QUICK_S) as client:
                assert client._line is not None
                connection = client._line.connection
                assert connection is not None
                assert connection._keepalive is None
                assert connection._timer is None


@in_loop
async def test_a_broker_that_does_not_ask_answers_all_the_same() -> None:
    async with (
        serving(config(limits=LimitsTable(keepalive_s=0))) as server,
        wire_to(server.port) as wire,
        connect(url_through(wire), keepalive_s=QUICK_S),
    ):
        before = dict(wire.passed)
        await until(lambda: all(wire.passed[way] > before[way] + 10 for way in before))
        assert wire.connections == 1


@in_loop
async def test_a_client_that_does_not_read_is_not_dead_and_takes_nobody_for_dead() -> None:
    async with serving(config(limits=QUICK)) as server, wire_to(server.port) as wire:
        slow = connect(url_through(wire), keepalive_s=QUICK_S, buffer_max=1)
        async with slow, connect(url_of(server)) as other:
            subscription = slow.subscribe("n > 0")
            await subscription.ready()
            for n in (1, 2, 3):
                await other.publish({"n": n})
            assert slow._line is not None
            connection = slow._line.connection
            assert connection is not None
            await until(lambda: not connection.transport.is_reading())
            before = dict(wire.passed)
            # Both go on saying that they are there, and the broker goes on being answered.
            await until(lambda: all(wire.passed[way] > before[way] + 20 for way in before))
            assert not connection.transport.is_reading()
            assert [(await subscription.get(20))["n"] for _ in range(3)] == [1, 2, 3]
        assert wire.connections == 1


@in_loop
async def test_a_broker_that_reads_nobody_is_not_dead_and_takes_nobody_for_dead() -> None:
    async with serving(config(limits=QUICK)) as server, wire_to(server.port) as wire:
        async with connect(url_through(wire), keepalive_s=QUICK_S) as client:
            server._choke(True)
            before = wire.passed["down"]
            await until(lambda: wire.passed["down"] > before + 20)
            server._choke(False)
            await client.publish({"n": 1})
            await client.flush()
        assert wire.connections == 1


@in_loop
async def test_a_process_that_had_no_processor_takes_nobody_for_dead() -> None:
    """Client and broker are one process here: both look far too late, and have heard nothing for long."""
    async with serving(config(limits=QUICK)) as server, wire_to(server.port) as wire:
        async with connect(url_through(wire), keepalive_s=QUICK_S) as client:
            before = dict(wire.passed)
            for _ in range(3):
                time.sleep(10 * QUICK_S)
                await asyncio.sleep(0)
            await until(lambda: all(wire.passed[way] > before[way] + 5 for way in before))
            await client.publish({"n": 1})
            await client.flush()
        assert wire.connections == 1


def test_a_broker_that_is_stopped_for_a_while(tmp_path: Path) -> None:
    broker = ChildBroker(tmp_path, {"limits": {"keepalive_s": 0.2}})

    @in_loop
    async def test() -> None:
        quiet = await PlainPeer.connect(HOST, broker.port)  # which takes nobody for dead
        await quiet.attach("quiet")
        hearing = asyncio.create_task(quiet.farewell(60))
        async with connect(f"roost://{HOST}:{broker.port}", keepalive_s=QUICK_S) as client:
            os.kill(broker.pid, signal.SIGSTOP)
            await until(lambda: client.state == "connecting")
            await asyncio.sleep(1.0)  # for as long as it takes others for dead
            pinged = quiet.pinged
            os.kill(broker.pid, signal.SIGCONT)
            await until(lambda: client.state == "connected")
            await until(lambda: quiet.pinged > pinged + 2 * DEAD_AFTER)
            assert not hearing.done()
        hearing.cancel()
        await quiet.close()

    try:
        test()
    finally:
        os.kill(broker.pid, signal.SIGCONT)
        broker.stop()


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ways", [("up", "down"), ("up",), ("down",)], ids="-".join)
@pytest.mark.parametrize("who", ["dials", "is dialled"])
def test_a_broker_notices_that_its_neighbour_is_gone(ways: tuple[str, ...], who: str) -> None:
    @in_loop
    async def test() -> None:
        one, other = (QUICK, SLOW) if who == "is dialled" else (SLOW, QUICK)
        dialled = config("B0", neighbours={"B1": ""}, limits=one)
        async with serving(dialled) as first, wire_to(first.port) as wire:
            address = f"{HOST}:{wire.port}"
            async with (
                serving(config("B1", neighbours={"B0": address}, limits=other)) as second,
                connect(url_of(first)) as publisher,
                connect(url_of(second)) as subscriber,
            ):
                subscription = subscriber.subscribe("n > 0")
                await subscription.ready()
                await publisher.advertise("n > 0")
                (far,) = (c for c in second._open.values() if c.neighbour)
                near = first._open[first.shell.machine.links["B1"].connection or 0]
                wire.kill(*ways)  # type: ignore[arg-type]
                if who == "is dialled":
                    await until(lambda: near.id not in first._open)
                    far.transport.abort()  # who has not noticed
                await until(lambda: wire.connections == 2)
                await publisher.publish({"n": 1})
                assert (await subscription.get(20))["n"] == 1
                assert wire.connections == 2

    test()


# --- greetings ------------------------------------------------------------------------------------


async def mute_server(said: bytes = b"") -> tuple[asyncio.Server, list[int]]:
    """Accepts, says this and nothing more; and how many have come."""
    came = [0]

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came[0] += 1
        writer.write(said)
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        writer.close()

    return await asyncio.start_server(connected, HOST, 0), came


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


@in_loop
async def test_a_neighbour_that_never_greets_is_dialled_again() -> None:
    mute, came = await mute_server()
    neighbours = {"B1": f"{HOST}:{port_of(mute)}"}
    limits = LimitsTable(greeting_s=0.1, keepalive_s=QUICK_S)
    async with serving(config(neighbours=neighbours, limits=limits)) as server:
        await until(lambda: came[0] >= 4)
        # Each time it waits longer: that somebody accepts is no success.
        assert server.shell.machine.links["B1"].attempts >= 3
    mute.close()


@in_loop
async def test_a_broker_that_never_greets_is_dialled_again() -> None:
    mute, came = await mute_server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_connection, "GREETING_S", 0.05)
        client = connect(f"roost://{HOST}:{port_of(mute)}", timeout_s=2.0)
        opening = asyncio.create_task(client.open())
        await until(lambda: came[0] >= 3)
        assert client._line is not None
        assert client._line._attempts >= 2
        with pytest.raises(ConnectionError, match=r"did not answer the greeting within 0\.05 s"):
            await opening
    mute.close()
