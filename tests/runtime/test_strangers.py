"""Those who have not said who they are cost little, and stop nobody.

Most tests are scenarios of `peers.live`: two well-behaved clients exchange events before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from roost.broker.messages import (
    PROTOCOL_VERSION,
    Attach,
    Attached,
    AttachRefused,
    LinkHello,
    Login,
    Ping,
    Pong,
    Settle,
    Settled,
)
from roost.broker.permissions import Permission
from roost.runtime import broker_process, descriptors, doorstep, logins, security
from roost.runtime.child_broker import ChildBroker
from roost.runtime.logins import BUSY, Lane
from roost.runtime.plain_peer import PlainPeer, RefusedError
from roost.runtime.security import NOT_RIGHT, User, changed_users, digest_token
from roost.runtime.strangers import Arrival, Slots
from roost.runtime.tables import TlsTable
from roost.runtime.tasks import Tasks
from roost.runtime.tls import client_context, issue, make_authority
from roost.wire import PREFACE, encode
from tests.runtime.peers import HOST, Live, live, login_of, play, token_of, user
from tests.runtime.test_refusals import keep_talking

ELSEWHERE = "127.0.0.2"


async def peer_from(at: Live, address: str = ELSEWHERE) -> PlainPeer:
    """One who connects from another address."""
    streams = await asyncio.open_connection(HOST, at.server.port, local_addr=(address, 0))
    peer = PlainPeer(*streams)
    at._peers.append(peer)
    peer.write(PREFACE)
    return peer


async def silent(at: Live, count: int) -> list[PlainPeer]:
    return [await at.peer(preface=b"") for _ in range(count)]


async def refusal_of(peer: PlainPeer) -> AttachRefused:
    """The one that ends the connection."""
    found = None
    async with asyncio.timeout(20):
        while (parcel := await peer.hear()) is not None:
            found = parcel
    assert isinstance(found, AttachRefused)
    return found


# --- pings ----------------------------------------------------------------------------------------


@live(limits={"greeting_s": 1.0})
async def test_whoever_only_pings_has_to_go(at: Live) -> None:
    peer = await at.peer()
    peer.put(Ping(7))
    assert await peer.hear() == Pong(7)  # clients take the time of it, and go again
    assert (await refusal_of(peer)).reason == "no greeting came within 1 s"


@live()
async def test_pings_ahead_of_a_greeting_are_few(at: Live) -> None:
    peer = await at.peer()
    peer.put(*map(Ping, range(1_000)))
    heard = [await peer.hear() for _ in range(doorstep.PINGS_MAX)]
    assert heard == [Pong(n) for n in range(doorstep.PINGS_MAX)]
    assert (await refusal_of(peer)).reason == "there were 16 pings, and no greeting"


@live()
async def test_a_ping_and_a_login_are_no_greeting(at: Live) -> None:
    peer = await at.peer()
    peer.put(Ping(1), Login(*login_of("eve")), Ping(2))
    assert [await peer.hear(), await peer.hear()] == [Pong(1), Pong(2)]
    assert at.server.slots.count("stranger") == 1
    await peer.attach("eve")
    assert at.server.slots.count("stranger") == 0


# --- what is held ---------------------------------------------------------------------------------


class Gate:
    """Logins are checked one at a time, when they are let; and in which order."""

    def __init__(self, at: Live) -> None:
        assert at.server._users is not None
        self._authenticate = at.server._users.authenticate
        self._let = threading.Semaphore(0)
        self._users = at.server._users
        self.asked: list[str] = []

    def _slowly(self, name: str, token: str) -> Permission | str:
        self.asked.append(name)
        assert self._let.acquire(timeout=20)
        return self._authenticate(name, token)

    def let(self, count: int = 1) -> None:
        self._let.release(count)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        with mock.patch.object(self._users, "authenticate", self._slowly):
            try:
                yield
            finally:
                self.let(10_000)


@live()
async def test_what_stands_behind_a_login_is_held_by_its_size_and_no_more_is_read(at: Live) -> None:
    gate, count = Gate(at), 1_000
    with gate.closed():
        peer = await peer_from(at)
        peer.put(Login(*login_of("eve")), Attach(PROTOCOL_VERSION, "eve", "eve", False, 0, 0))
        for n in range(count):
            peer.say(Settle(f"{n}", "x" * 1_000))
        (connection,) = (c for c in at.server._open.values() if c.arrival.address == ELSEWHERE)
        await at.until(lambda: not connection.transport.is_reading())
        step = connection.doorstep
        assert step is not None
        assert 0 < len(step._held) <= doorstep.HELD_BYTES_MAX + doorstep.READ_BYTES
        gate.let()
        await peer.next(Attached)
        for n in range(count):
            assert (await peer.next(Settled)).id == str(n)


@live()
async def test_a_stranger_cannot_have_a_long_frame_kept(at: Live) -> None:
    peer = await at.peer()
    peer.write((1 << 20).to_bytes(4, "big") + bytes(1_000))
    refusal = await refusal_of(peer)
    assert (
        "declares 1,048,576 bytes; at most 25,088 are allowed before a greeting" in refusal.reason
    )


@live()
async def test_who_was_refused_and_goes_on_is_read_no_further(at: Live) -> None:
    peer = await peer_from(at)
    peer.put(Login("nobody", "wrong"))
    peer.write(bytes(16_000_000))
    # Without that, it would be read for as long as those may take who want to know why.
    await at.until(lambda: all(c.arrival.address != ELSEWHERE for c in at.server._open.values()))
    with pytest.raises(ConnectionError):
        await peer.drain()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_greeting_in_pieces_and_what_stands_behind_it(cut: int, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        said = PREFACE + encode(Login(*login_of("eve")))
        said += encode(Attach(PROTOCOL_VERSION, "eve", "eve", False, 0, 0))
        peer = await at.peer(preface=b"")
        for start in range(0, len(said), cut):
            peer.write(said[start : start + cut])
            await peer.drain()
            await asyncio.sleep(0)
        for n in range(3):
            peer.say(Settle(f"{n}", ""))
        assert [(await peer.next(Settled)).id for _ in range(3)] == ["0", "1", "2"]

    asyncio.run(play(scenario, tmp_path))


# --- logins ---------------------------------------------------------------------------------------


def random_users() -> dict[str, User]:
    names = ("good", "eve", "idle", "old", "N")
    granted = {
        name: {"publish": f"class = '{name}'", "subscribe": f"class = '{name}'"}
        for name in ("good", "eve")
    }
    return {
        name: User(token_digest=digest_token(token_of(name)), **granted.get(name, {}))  # type: ignore[arg-type]
        for name in names
    }


def test_a_flood_of_wrong_tokens_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The tokens are those that `roost users` makes: no argon2 is asked about any."""

    async def scenario(at: Live) -> None:
        peers = [await at.peer() for _ in range(400)]
        for number, peer in enumerate(peers):
            name = "eve" if number % 2 else f"nobody-{number}"
            peer.put(Login(name, "wrong"), Attach(PROTOCOL_VERSION, name, name, False, 0, 0))
        await at.attached("eve")
        refusals = [await refusal_of(peer) for peer in peers]
        assert {(r.reason, r.transient) for r in refusals} == {(NOT_RIGHT, False)}

    with mock.patch.object(security, "_is_right", mock.Mock(side_effect=AssertionError)):
        asyncio.run(play(scenario, tmp_path, users=random_users()))


@live()
async def test_logins_that_take_time_wait_in_turn_and_the_rest_are_to_come_again(at: Live) -> None:
    gate, asked = Gate(at), Login("nobody", "wrong")
    with gate.closed():
        flood = [await at.peer() for _ in range(100)]
        for peer in flood:
            peer.put(asked)
        # Those whose turn would not come for long are told so at once.
        ends = [asyncio.create_task(refusal_of(peer)) for peer in flood]
        in_turn = 1 + logins.WAITING_AN_ADDRESS
        await at.until(lambda: sum(end.done() for end in ends) >= len(flood) - in_turn)
        refusals = [end.result() for end in ends if end.done()]
        assert {(r.reason, r.transient) for r in refusals} == {(BUSY, True)}
        eve, neighbour = await peer_from(at), await at.peer()
        eve.put(Login(*login_of("eve")))
        neighbour.put(Login(*login_of("N")))
        known = at.server._open.values()
        await at.until(lambda: {"eve", "N"} <= {c.principal for c in known if c.is_checking})
        gate.let(4)
        await at.until(lambda: len(gate.asked) == 5)
    await asyncio.gather(*ends)
    # The neighbour goes first; then addresses take turns.
    assert gate.asked[0] == "nobody"
    assert gate.asked[1] == "N"
    assert "eve" in gate.asked[2:4]


@live()
async def test_who_has_hung_up_is_not_checked(at: Live) -> None:
    gate = Gate(at)
    with gate.closed():
        flood = [await at.peer() for _ in range(10)]
        for peer in flood:
            peer.put(Login("nobody", "wrong"))
        assert at.server._logins is not None
        lane = at.server._logins._others
        await at.until(lambda: len(lane) == 9)
        for peer in flood:
            await peer.close()
        await at.until(lambda: len(lane) == 0)
        gate.let(2)
        await at.attached("eve~1")
    assert gate.asked == ["nobody", "eve"]


def test_a_lane_is_fair_to_addresses() -> None:
    lane = Lane()
    connections = [mock.Mock(name=f"c{n}") for n in range(6)]
    for n, address in enumerate("aaabbc"):
        assert lane.add(address, (connections[n], Login(address, str(n))))
    lane.forget("b", connections[4])
    order = []
    while (waiting := lane.next()) is not None:
        order.append(waiting[1].token)
    assert order == ["0", "3", "5", "1", "2"]
    assert len(lane) == 0


# --- slots ----------------------------------------------------------------------------------------


def arrivals(slots: Slots, address: str, count: int) -> list[Arrival]:
    found = [Arrival(address, 0.0) for _ in range(count)]
    for arrival in found:
        slots.put(arrival, "stranger")
    return found


def test_who_makes_room() -> None:
    slots, cut = Slots(20), []
    few, many = arrivals(slots, "few", 2), arrivals(slots, "many", 18)
    names = {id(a): f"few{n}" for n, a in enumerate(few)}
    names |= {id(a): f"many{n}" for n, a in enumerate(many)}
    for arrival in few + many:
        arrival.cut = lambda _, arrival=arrival: cut.append(names[id(arrival)])  # type: ignore[misc]
    many[0].is_busy = True
    slots.put(many[3], "leaving")
    assert [slots.make_room() for _ in range(1)] == [True]
    slots.put(Arrival("few", 0.0), "stranger")
    assert slots.make_room()
    # Who is leaving first, then the longest of the address that has most, if nothing is owed to it.
    assert cut == ["many3", "many1"]
    assert slots.taken == 19


def test_sessions_leave_room_for_others() -> None:
    slots = Slots(100)
    assert slots.reserve == 16
    attach = Attach(PROTOCOL_VERSION, "c", "c", False, 0, 0)
    for arrival in arrivals(slots, "a", 84):
        assert slots.objection_to(attach, administers=False) == ""
        slots.put(arrival, "session")
    assert "there are 84 sessions already" in slots.objection_to(attach, administers=False)
    assert slots.objection_to(attach, administers=True) == ""
    assert slots.objection_to(LinkHello(4, "N", "i", "", 0, 0), administers=False) == ""


@live(limits={"connections_max": 12, "greeting_s": 60.0})
async def test_strangers_that_fill_all_slots_make_room(at: Live) -> None:
    flood = await silent(at, 40)
    peer = await peer_from(at)
    await peer.attach("eve", login=login_of("eve"))
    assert at.server.slots.taken <= 12
    first = await refusal_of(flood[0])
    assert first.transient
    assert "no greeting came on this one" in first.reason


@live(limits={"connections_max": 8})
async def test_neighbours_fit_when_sessions_do_not(at: Live) -> None:
    for number in range(4):
        await at.attached(f"eve~{number}")
    with pytest.raises(RefusedError, match="there are 6 sessions already") as refusal:
        await at.attached("eve~4")
    assert refusal.value.transient
    neighbour = await at.peer()
    neighbour.put(Login(*login_of("N")), LinkHello(PROTOCOL_VERSION, "N", "i", "", 0, 0))
    # It is the machine that does not know it.
    assert "N is no neighbour of B0" in (await refusal_of(neighbour)).reason


def test_strangers_who_never_begin_with_tls_fill_no_more_than_the_slots(tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "broker", [HOST])
    issue(tmp_path, "good", [])

    def table(name: str) -> TlsTable:
        return TlsTable(
            certificate=str(tmp_path / f"{name}.pem"),
            key=str(tmp_path / f"{name}.key"),
            authority=str(tmp_path / "authority.pem"),
        )

    def context(name: str) -> ssl.SSLContext:
        return client_context(table(name))

    async def scenario(at: Live) -> None:
        streams = [await asyncio.open_connection(HOST, at.server.port) for _ in range(40)]
        await at.attached("eve")
        assert at.server.slots.taken <= 12
        for _, writer in streams:
            writer.close()

    asyncio.run(
        play(
            scenario,
            tmp_path,
            users={
                "good": user(
                    "good",
                    publish="class = 'good'",
                    subscribe="class = 'good'",
                    certificates=("good",),
                )
            },
            limits={"connections_max": 12, "greeting_s": 60.0},
            tls=table("broker"),
            client_tls=context("good"),
        )
    )


# --- refusals that are not the last word ----------------------------------------------------------


@live(limits={"greeting_s": 1.0})
async def test_a_greeting_that_was_too_slow_may_be_tried_again(at: Live) -> None:
    assert (await refusal_of(await at.peer())).transient


@live(limits={"frame_s": 0.3})
async def test_a_frame_that_was_too_slow_may_be_tried_again(at: Live) -> None:
    peer = await at.attached("eve")
    peer.write(b"\x00\x00")
    assert (await refusal_of(peer)).transient


@live(limits={"idle_s": 0.5, "keepalive_s": 0.05})
async def test_answers_to_pings_are_no_activity(at: Live) -> None:
    peer = await at.attached("eve")
    others = asyncio.create_task(keep_talking(at))
    refusal = await refusal_of(peer)
    assert peer.pinged > 2
    assert (refusal.reason, refusal.transient) == ("nothing was heard for 0.5 s", True)
    others.cancel()


# --- tasks ----------------------------------------------------------------------------------------


def test_a_round_that_fails_is_followed_by_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        rounds, now, is_broken = 0, 0.0, True

        async def round_() -> None:
            nonlocal rounds
            rounds += 1
            if is_broken:
                raise OSError(24, "Too many open files")

        tasks = Tasks("B0", lambda: now)
        assert tasks.trouble() == ""
        tasks.repeat("sweeping", round_, lambda: 0.0)
        while rounds < 3:
            await asyncio.sleep(0)
        now += 1_000.0
        assert "sweeping failed: OSError: [Errno 24] Too many open files" in tasks.trouble()
        is_broken = False
        while tasks._failing:
            await asyncio.sleep(0)
        now += 1_000.0
        assert tasks.trouble() == ""
        await tasks.end()

    asyncio.run(test())
    assert "B0: sweeping failed" in capsys.readouterr().err


def test_a_task_that_fails_is_trouble_for_a_while() -> None:
    async def test() -> None:
        now = 0.0
        tasks = Tasks("B0", lambda: now)

        async def work() -> None:
            raise ValueError("no good")

        tasks.spawn("dialling", work())
        while not tasks.trouble():
            await asyncio.sleep(0)
        assert tasks.trouble() == "dialling failed: ValueError: no good"
        now = 61.0
        assert tasks.trouble() == ""

    asyncio.run(test())


@live(limits={"greeting_s": 1.0})
async def test_a_broker_that_cannot_see_how_it_fares_goes_on(at: Live) -> None:
    """Without files left, its own could not be read, and that was the end of all time limits."""
    with mock.patch.object(at.server._meter, "sample", side_effect=OSError(24, "Too many files")):
        await at.until(lambda: "Too many files" in at.server.trouble())
        assert (await refusal_of(await at.peer())).reason == "no greeting came within 1 s"
    await at.until(lambda: "sampling the load" not in at.server.tasks._failing)


# --- files ----------------------------------------------------------------------------------------


class Flood:
    """Connections that say nothing."""

    def __init__(self, port: int, count: int) -> None:
        self.sockets = []
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((HOST, port))
            self.sockets.append(sock)

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    with changed_users(folder / "users.toml") as users:
        users.update(random_users())
    return {
        "limits": {"greeting_s": 1.0},
        "admin": {"port": 0},
        "security": {
            "enabled": True,
            "users": str(folder / "users.toml"),
            "refusals": str(folder / "refusals"),
        },
    }


async def attached(port: int, name: str) -> PlainPeer:
    """When it is let in: in a flood, one may be told to come again."""
    async with asyncio.timeout(30):
        while True:
            peer = await PlainPeer.connect(HOST, port)
            try:
                await peer.attach(name, login=login_of(name))
            except (ConnectionError, RefusedError):
                await peer.close()
                await asyncio.sleep(0.05)
            else:
                return peer


async def survives(broker: ChildBroker, folder: Path, flood: Flood) -> None:
    peer = await attached(broker.port, "eve")
    peer.say(Settle("x", ""))
    assert (await peer.next(Settled)).id == "x"
    # Users are looked at, ...
    with changed_users(folder / "users.toml") as users:
        del users["eve"]
    assert await peer.farewell() == "'eve' is no user any more"
    # ... and so is the time that strangers take.
    loop = asyncio.get_running_loop()
    for sock in flood.sockets:
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                while await loop.sock_recv(sock, 1 << 16):
                    pass
    good = await attached(broker.port, "good")
    await good.close()
    await peer.close()


def test_more_connections_than_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system allows for 300: the broker has fewer slots than that."""
    command_of = broker_process.command_of

    def limited(config: Path) -> list[str]:
        return ["/bin/sh", "-c", 'ulimit -n 300 && exec "$@"', "sh", *command_of(config)]

    monkeypatch.setattr(broker_process, "command_of", limited)
    broker = ChildBroker(tmp_path, settings_of(tmp_path))
    flood = Flood(broker.port, 500)
    try:
        asyncio.run(survives(broker, tmp_path, flood))
        assert "fewer connections" in (tmp_path / "log").read_text()
        assert broker.complaints() == []
    finally:
        flood.close()
        broker.stop()


def test_no_files_left_at_all(tmp_path: Path) -> None:
    """The limit falls behind the broker's back: it can't know, and gets over it."""
    broker = ChildBroker(tmp_path, settings_of(tmp_path))
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (100, 100))
    flood = Flood(broker.port, 300)
    try:
        asyncio.run(survives(broker, tmp_path, flood))
        assert broker.alive
    finally:
        flood.close()
        broker.stop()


def test_the_limit_of_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    descriptors.raise_limit(2_000)
    assert 2_000 + descriptors.OWN_FILES < limits[-1][0] < 4_096
    assert 2_000 <= descriptors.connections_possible() <= 2_100
    descriptors.raise_limit(10_000)
    assert limits[-1] == (4_096, 4_096)
