"""Those who have not said who they are: they cost little, and stop nothing."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Iterator

from roost.broker.messages import PROTOCOL_VERSION, Attach, Login, Ping
from roost.client import ConnectError
from roost.wire import PREFACE, encode
from tests.edges.kit import HOST, BrokenPromise, Broker, Stage, case, until

MB = 1_000_000


@contextlib.contextmanager
def crowd(broker: Broker, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, all of which say this."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as closing:
        sockets = []
        for _ in range(count):
            sock = closing.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((HOST, broker.port))
            sockets.append(sock)
        for sock in sockets:
            sock.settimeout(5.0)
            # A broker may read no further, or refuse it before it is through.
            with contextlib.suppress(ConnectionError, TimeoutError):
                sock.sendall(said)
            sock.setblocking(False)
        yield sockets


def has_hung_up(sock: socket.socket) -> bool:
    """Whatever the broker said before."""
    try:
        while sock.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@case(once="STAYS: a connection that says nothing, for 20 s")
async def more_connections_than_files(stage: Stage) -> str:
    """After 1,100 connections at a soft limit of 1,024 files, time limits are kept as before."""
    broker = await stage.broker("B0", files_max=1_024, limits={"greeting_s": 1.0})
    with crowd(broker, 1_100) as sockets:
        await until(lambda: all(map(has_hung_up, sockets)), within_s=20.0)
    with crowd(broker, 1) as (one,):
        if not await until(lambda: has_hung_up(one), within_s=20.0):
            raise BrokenPromise("STAYS: a connection that says nothing, for 20 s")
    return "who says nothing has to go"


@case(once="LOCKED OUT: .*there are 20 connections already")
async def whoever_only_pings(stage: Stage) -> str:
    """Those who ask whether the broker is there, and go no further, take nobody's place."""
    broker = await stage.broker("B0", limits={"connections_max": 20})
    with crowd(broker, 30, PREFACE + encode(Ping(1))) as sockets:
        await until(lambda: sum(map(is_answered, sockets)) >= 20)
        try:
            async with stage.connect(broker):
                return "a client comes in all the same"
        except ConnectError as error:
            raise BrokenPromise(f"LOCKED OUT: {error}") from None


def is_answered(sock: socket.socket) -> bool:
    """Whatever it was."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@case(once="LOCKED OUT: a good login takes .* s")
async def six_hundred_bogus_logins(stage: Stage) -> str:
    """Whoever guesses tokens keeps nobody waiting who has one."""
    stage.add_user("alice", "--subscribe", "*")
    broker = await stage.broker("B0", limits={"greeting_s": 120.0})
    with crowd(broker, 600, PREFACE + encode(Login("alice", "wrong"))):
        begin = time.monotonic()
        with contextlib.suppress(ConnectError):
            await stage.connect(broker, "alice").open()
        took_s = time.monotonic() - begin
    # A check by argon2 takes 20 ms at least: all of them some 12 s, on a machine with nothing to do.
    if took_s > 6.0:
        raise BrokenPromise(f"LOCKED OUT: a good login takes {took_s:.0f} s")
    return f"a good login takes {took_s:.1f} s"


# As users files had it for long, and may have it still: a hash that takes its time to check.
SLOW_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1$8lh+0HJr8/3bd1eZ6nGTbg"
    "$QHImwQwC7Ul/rf5aMe0801j4IQO06mqj4cOXsSydHfw"
)


@case(once="HELD: .* MB of memory for 20 MB")
async def frames_behind_a_login(stage: Stage) -> str:
    """What strangers say while their login is checked is bounded by a few KB each, not by what they send."""
    stage.add_user("alice", "--subscribe", "*")
    with (stage.folder / "users.toml").open("a") as users:
        users.write(f'[users.bob]\ntoken_hash = "{SLOW_HASH}"\n')
    broker = await stage.broker("B0", limits={"greeting_s": 120.0})
    login = PREFACE + encode(Login("bob", "wrong"))
    with crowd(broker, 4, login) as first:
        await until(lambda: all(map(has_hung_up, first)), within_s=10.0)  # argon2 has its memory
    before = broker.memory_peak()
    frame = encode(Attach(PROTOCOL_VERSION, "bob", "bob", False, 0, 0))
    with (
        crowd(broker, 100, login),
        crowd(broker, 20, login + frame * (MB // len(frame))) as heavy,
    ):
        # Whether it has read all of that or not: it has had its turn.
        await until(lambda: all(map(has_hung_up, heavy)), within_s=30.0)
    grown = broker.memory_peak() - before
    if grown > 60 * MB:
        raise BrokenPromise(f"HELD: {grown / MB:.0f} MB of memory for 20 MB")
    return f"20 MB took {grown / MB:.0f} MB of memory"
