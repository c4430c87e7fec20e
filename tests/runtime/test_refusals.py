"""Refusals over real sockets: what was wrong and what was expected, a line in the log, and nobody else cares.

Each test is a scenario of `peers.live`, which also asserts that two well-behaved clients exchange events
before and after it, on the same connections, and that no token stands in the log.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from roost.broker.messages import (
    DATA,
    PROTOCOL_VERSION,
    SESSION_VERSION,
    Ack,
    Advertise,
    Attach,
    Delivery,
    Frame,
    LinkHello,
    Login,
    Publication,
    Refused,
    Settle,
    Settled,
    Subscribe,
)
from roost.language import Event, parse_advertisement, parse_subscription
from roost.runtime.plain_peer import PlainPeer, RefusedError
from roost.runtime.tables import TlsTable
from roost.runtime.tls import client_context, issue, make_authority
from roost.wire import PREFACE, encode
from tests.runtime.peers import HOST, Live, live, login_of, play, token_of, user

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
KB = 1_024


def logged(at: Live, *, asked: str, reason: str, principal: str | None = "") -> None:
    """The last line of the log says this; of whom, None leaves open."""
    last = at.refusals()[-1]
    assert (last["asked"], last["address"]) == (asked, HOST)
    assert principal in (None, last["principal"])
    assert re.search(reason, last["reason"]), last


async def refused(at: Live, peer: PlainPeer, reason: str, principal: str | None = "") -> None:
    """The connection ends with this reason, and the log has it too."""
    assert re.search(reason, await peer.farewell())
    logged(at, asked="connection", reason=reason, principal=principal)


async def request_refused(
    at: Live, peer: PlainPeer, request: str, reason: str, principal: str = "eve"
) -> None:
    """A request is refused with this reason, and the connection goes on."""
    answer = await peer.next(Refused)
    assert answer.request == request
    assert re.search(reason, answer.reason), answer
    logged(at, asked=request, reason=reason, principal=principal)
    peer.say(Settle("still-there", ""))
    assert (await peer.next(Settled)).id == "still-there"


# --- bytes ----------------------------------------------------------------------------------------


@live(
    limits={"frame_bytes_max": 64 * KB, "publication_bytes_max": 32 * KB, "payload_bytes_max": KB}
)
async def test_a_frame_that_is_too_long(at: Live) -> None:
    peer = await at.attached("eve")
    peer.write(struct.pack(">I", 64 * KB + 1) + b"x")
    reason = "frame at byte .*: declares 65,537 bytes; at most 65,536 are allowed"
    await refused(at, peer, reason, "eve")


@live(
    limits={"frame_bytes_max": 64 * KB, "publication_bytes_max": 32 * KB, "payload_bytes_max": KB}
)
async def test_a_payload_that_is_too_long(at: Live) -> None:
    peer = await at.attached("eve")
    peer.publish({"class": "eve"}, bytes(KB + 1))
    await refused(at, peer, r"Publication\.payload: expected `bytes` of length <= 1024", "eve")


@live(
    limits={"frame_bytes_max": 64 * KB, "publication_bytes_max": 32 * KB, "payload_bytes_max": KB}
)
async def test_an_event_that_is_too_long(at: Live) -> None:
    peer = await at.attached("eve")
    peer.publish({f"a{n}": "x" * 4_000 for n in range(10)})
    await refused(at, peer, r"Publication: 40,\d\d\d bytes; at most 32,768 are allowed", "eve")


@live()
async def test_another_version_of_the_wire(at: Live) -> None:
    peer = await at.peer(preface=PREFACE.replace(b"\x01", b"\x07"))
    await refused(at, peer, "the peer speaks version 7 of Roost's wire format; this is version 1")


@live()
async def test_another_version_of_the_protocol(at: Live) -> None:
    peer = await at.peer()
    with pytest.raises(RefusedError, match=f"protocol version 99; B0 speaks {SESSION_VERSION}"):
        await peer.attach("eve", login=login_of("eve"), version=99)
    logged(at, asked="connection", reason="protocol version 99", principal=None)


@pytest.mark.parametrize(
    ("said", "looks_like"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
        (b"PRI * HTTP/2.0\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (bytes(range(100)), ""),
    ],
)
def test_not_the_protocol_at_all(said: bytes, looks_like: str, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peer = await at.peer(preface=said)
        reason = "this is not the Roost protocol: the stream begins with .*; expected b'ROOST"
        if looks_like:
            reason = reason.replace("; expected", f", which looks like {looks_like}; expected")
        await refused(at, peer, reason)

    asyncio.run(play(scenario, tmp_path))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", r"parcel.*the body ends in the middle of a value"),
        (b"\xc0", r"parcel: expected `array`, got `None`"),
        (b"\x92\x63\x00", r"parcel\.tag: invalid value 99; expected one of 1, 2, 3"),
        (b"\x93\x06\xa3eve\x05", r"Login\.token: expected `str`, got `int`"),
        (b"\x95\x10\x01\x01\x00" + b"\x91" * 20_000, "nested too deeply; expected flat values"),
        (bytes(25_089), "declares 25,089 bytes; at most 25,088 are allowed before a greeting"),
    ],
)
def test_bytes_that_are_no_parcel(body: bytes, reason: str, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peer = await at.peer()
        peer.write(struct.pack(">I", len(body)) + body)
        await refused(at, peer, reason)

    asyncio.run(play(scenario, tmp_path))


# --- who it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        (("eve", token_of("good")), "^the user or the token is not right$"),
        (("eve", ""), "^the user or the token is not right$"),
        (("nobody", token_of("eve")), "^the user or the token is not right$"),
        (login_of("old"), "^'old' expired on 2020-01-31$"),
        (None, "^security is on, and nobody has logged in on this connection$"),
    ],
)
def test_not_who_it_says(login: tuple[str, str] | None, reason: str, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peer = await at.peer()
        with pytest.raises(RefusedError, match=reason):
            await peer.attach("eve", login=login)
        assert await peer.hear() is None
        said = login[0] if login is not None else ""
        logged(at, asked="connection", reason=reason, principal=said)

    asyncio.run(play(scenario, tmp_path))


@live()
async def test_a_token_that_is_wrongly_wrapped_is_in_no_message(at: Live) -> None:
    token = token_of("eve")
    for broken in (
        encode(Login("eve", token))[:-1] + b"\xff",  # not in UTF-8
        encode(Login(token * 100, token)),  # too long
        encode(Login("eve", token)) + encode(Login("eve", token)),
        encode(Ack(0, 0)) + encode(Login("eve", token)),
    ):
        peer = await at.peer()
        peer.write(broken)
        reason = await peer.farewell()
        assert reason
        assert "secret" not in reason
    assert len(at.refusals()) == 4


@live()
async def test_somebody_elses_name(at: Live) -> None:
    peer = await at.peer()
    reason = (
        "'eve' may not call itself 'good~sub'; expected 'eve', or a name that begins with 'eve~'"
    )
    with pytest.raises(RefusedError, match=reason):
        await peer.attach("good~sub", login=login_of("eve"))
    logged(at, asked="connection", reason=reason, principal=None)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("session", ["good~sub", "good~durable/x", "good/x", "evelyn~sub"])
def test_somebody_elses_session(session: str, resume: bool, tmp_path: Path) -> None:
    """Also one that is not there: whose name it bears, it is to have it when it comes."""

    async def scenario(at: Live) -> None:
        peer = await at.peer()
        reason = f"'eve' may not call anything '{session}'; expected a name that begins with 'eve~'"
        with pytest.raises(RefusedError, match=reason):
            await peer.attach("eve", session, login=login_of("eve"), resume=resume)
        logged(at, asked="connection", reason=reason, principal="eve")

    asyncio.run(play(scenario, tmp_path))


@live()
async def test_a_session_of_nobodys_name_is_of_who_has_it(at: Live) -> None:
    """A name without a mark belongs to no principal; so long as it is taken, it is taken."""
    await at.attached("good~other", "plain")
    for resume in (False, True):
        peer = await at.peer()
        with pytest.raises(RefusedError, match="the session is somebody else's"):
            await peer.attach("eve", "plain", login=login_of("eve"), resume=resume)
        logged(at, asked="connection", reason="somebody else's", principal="eve")


@live()
async def test_a_broker_that_is_none(at: Live) -> None:
    peer = await at.peer()
    peer.put(Login(*login_of("eve")), LinkHello(PROTOCOL_VERSION, "N", "i", "", 0, 0))
    await refused(at, peer, "N is no neighbour of B0", None)


@live()
async def test_what_nobody_may_say_before_a_greeting(at: Live) -> None:
    peer = await at.peer()
    peer.put(
        Login(*login_of("eve")), Frame(DATA, 1, Publication("eve", 1, Event({"class": "eve"})))
    )
    await refused(at, peer, "Frame came where a greeting was expected", None)


@live()
async def test_whom_the_machine_refuses_is_in_the_log(at: Live) -> None:
    peer = await at.peer()
    with pytest.raises(RefusedError):
        await peer.attach("good~sub", login=login_of("eve"))
    logged(at, asked="connection", reason="may not call itself", principal="eve")


@live()
async def test_the_log_names_addresses_without_their_ports(at: Live) -> None:
    peer = await at.peer()
    with pytest.raises(RefusedError):
        await peer.attach("eve", login=("eve", "wrong"))
    assert {line["address"] for line in at.refusals()} == {HOST}


# --- certificates ---------------------------------------------------------------------------------


class Keys:
    """An authority and what it has issued, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_authority(folder, days=36_500, now=LONG_AGO)
        issue(folder, "broker", [HOST])
        for name in ("good", "stranger"):
            issue(folder, name, [])
        issue(folder, "old", [], days=1, now=LONG_AGO)

    def table(self, name: str = "", *, required: bool = False) -> TlsTable:
        return TlsTable(
            certificate=str(self._folder / f"{name}.pem") if name else "",
            key=str(self._folder / f"{name}.key") if name else "",
            authority=str(self._folder / "authority.pem"),
            require_client_certificate=required,
        )

    def client(self, name: str = "") -> ssl.SSLContext:
        """Also with a certificate that we would refuse to use ourselves."""
        context, table = client_context(self.table()), self.table(name)
        if name:
            context.load_cert_chain(table.certificate, table.key)
        return context


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def play_tls(keys: Keys, scenario: Callable[[Live], Any], folder: Path) -> None:
    asyncio.run(
        play(
            scenario,
            folder,
            users={"good": user("good", publish="*", subscribe="*", certificates=("good",))},
            tls=keys.table("broker", required=True),
            client_tls=keys.client("good"),
        )
    )


async def handshake(at: Live, context: ssl.SSLContext) -> str:
    """What TLS tells a peer that the broker does not want; with TLS 1.3 only reading shows it."""
    try:
        peer = await at.peer(tls=context, preface=b"")
        assert await peer.hear() is None
    except (ssl.SSLError, ConnectionError) as error:
        return str(error)
    return ""


UNWANTED = pytest.mark.parametrize(
    ("name", "reason"), [("old", "certificate expired"), ("", "certificate required")]
)


@UNWANTED
def test_a_certificate_that_will_not_do(keys: Keys, name: str, reason: str, tmp_path: Path) -> None:
    """One that has expired, and none where one is required: not a word of the protocol is said."""

    async def scenario(at: Live) -> None:
        assert reason in await handshake(at, keys.client(name))
        assert len(at.server._open) == 2  # the well-behaved

    play_tls(keys, scenario, tmp_path)


@UNWANTED
def test_a_handshake_that_fails_says_why(
    keys: Keys, name: str, reason: str, tmp_path: Path
) -> None:
    async def scenario(at: Live) -> None:
        assert reason in await handshake(at, keys.client(name))
        last = at.refusals()[-1]
        assert last["asked"] == "connection"
        assert re.search("certificate has expired|did not return a certificate", last["reason"])

    play_tls(keys, scenario, tmp_path)


def test_a_certificate_of_nobody(keys: Keys, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peer = await at.peer(tls=keys.client("stranger"))
        with pytest.raises(RefusedError, match=r"nobody has logged in|stands for no user"):
            await peer.attach("eve")
        logged(at, asked="connection", reason="nobody has logged in|stands for no user")
        peer = await at.peer(tls=keys.client("stranger"))
        await peer.attach("eve", login=login_of("eve"))  # by its token it is somebody

    play_tls(keys, scenario, tmp_path)


def test_no_tls_where_there_is_tls(keys: Keys, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        reader, writer = await asyncio.open_connection(HOST, at.server.port)
        writer.write(PREFACE)
        said = await reader.read()
        assert said[:1] in (b"", b"\x15")  # nothing, or an alert of TLS
        writer.close()

    play_tls(keys, scenario, tmp_path)


# --- what it may do -------------------------------------------------------------------------------


@live()
async def test_a_filter_that_it_may_not_subscribe_to(at: Live) -> None:
    peer = await at.attached("eve")
    for number, text in enumerate(("class = 'good'", "*", "class in ('eve', 'good')", "a > 1")):
        peer.subscribe(f"s{number}", text)
        reason = "'eve' may only subscribe to what \"class = 'eve'\" covers"
        await request_refused(at, peer, f"s{number}", reason)
    peer = await at.attached("idle")
    peer.subscribe("s", "class = 'good'")
    await request_refused(at, peer, "s", "'idle' may not subscribe to anything", "idle")


@live()
async def test_a_filter_that_it_may_not_advertise(at: Live) -> None:
    peer = await at.attached("eve")
    peer.advertise("a", "class = 'good'")
    await request_refused(at, peer, "a", "'eve' may only advertise what \"class = 'eve'\" covers")
    peer = await at.attached("idle")
    peer.advertise("a", "class = 'good'")
    await request_refused(at, peer, "a", "'idle' may not publish anything", "idle")


@live()
async def test_an_event_that_it_may_not_publish(at: Live) -> None:
    peer = await at.attached("eve")
    peer.advertise("a", "class = 'eve'")
    for number in (1, 2):
        assert peer.publish({"class": "good"}) == number
        reason = "no advertisement of this client covers it"
        await request_refused(at, peer, f"eve:{number}", reason)


@live()
async def test_an_event_that_was_not_advertised(at: Live) -> None:
    peer = await at.attached("eve")
    peer.publish({"class": "eve"})
    await request_refused(at, peer, "eve:1", "no advertisement of this client covers it")


@live(broker={"routing": "flooding"})
async def test_an_event_that_it_may_not_publish_when_nobody_advertises(at: Live) -> None:
    peer = await at.attached("eve")
    peer.publish({"class": "good"})
    reason = "'eve' may only publish what matches \"class = 'eve'\""
    await request_refused(at, peer, "eve:1", reason)


@live()
async def test_an_event_in_anothers_name(at: Live) -> None:
    peer = await at.attached("eve")
    peer.advertise("a", "class = 'eve'")
    peer.say(Publication("good~pub", 10**9, Event({"class": "eve"})))
    reason = "it is in the name of 'good~pub', not of 'eve'"
    await request_refused(at, peer, "good~pub:1000000000", reason)


@live()
async def test_an_id_of_somebody_else(at: Live) -> None:
    peer = await at.attached("eve")
    for id_ in ("good~sub/1", "good~nobody-has-it-yet", "good/1", "evelyn/1", "/", "~eve/1"):
        reason = f"'eve' may not call anything '{id_}'; expected a name that begins with 'eve~'"
        peer.say(Subscribe(id_, parse_subscription("class = 'eve'"), ""))
        await request_refused(at, peer, id_, reason)
        peer.say(Advertise(id_, parse_advertisement("class = 'eve'"), ""))
        await request_refused(at, peer, id_, reason)


@live()
async def test_an_id_that_is_in_use(at: Live) -> None:
    """Its own in another session, or one that belongs to nobody."""
    for id_ in ("eve/1", "plain"):
        other = await at.attached(f"eve~{id_[0]}")
        other.subscribe(id_, "class = 'eve'")
        other.advertise(id_, "class = 'eve'")
        await other.acknowledged()
        peer = await at.attached("eve")
        peer.subscribe(id_, "class = 'eve'")
        await request_refused(at, peer, id_, f"the id '{id_}' is in use")
        peer.advertise(id_, "class = 'eve'")
        await request_refused(at, peer, id_, f"the id '{id_}' is in use")


# --- too much -------------------------------------------------------------------------------------


@live(limits={"connections_max": 4})
async def test_too_many_sessions(at: Live) -> None:
    """One of the four slots is for those who have to say first who they are."""
    peer = await at.attached("eve~1")
    with pytest.raises(RefusedError, match="there are 3 sessions already") as refusal:
        await at.attached("eve~2")
    assert refusal.value.transient
    logged(at, asked="connection", reason="there are 3 sessions already", principal="eve")
    await peer.close()
    await at.until(lambda: at.server.slots.count("session") < 3)
    await at.attached("eve~3")  # there is room again


@live(limits={"subscriptions_max": 3})
async def test_too_many_subscriptions(at: Live) -> None:
    peer = await at.attached("eve")
    for number in range(4):
        peer.subscribe(f"s{number}", f"class = 'eve' and n = {number}")
    await request_refused(at, peer, "s3", "a session has at most 3 subscriptions")


# --- too slow -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        PREFACE[:3],
        PREFACE,
        PREFACE + encode(Attach(PROTOCOL_VERSION, "eve", "eve", False, 0, 0))[:-1],
        PREFACE + encode(Login(*login_of("eve")))[:20],
    ],
    ids=["nothing", "half a preface", "a preface", "half a greeting", "half a login"],
)
def test_a_greeting_that_does_not_come(beginning: bytes, tmp_path: Path) -> None:
    async def scenario(at: Live) -> None:
        peer = await at.peer(preface=beginning)
        started = asyncio.get_running_loop().time()
        await refused(at, peer, r"^no greeting came within 0\.3 s$")
        assert 0.2 < asyncio.get_running_loop().time() - started < 2

    asyncio.run(play(scenario, tmp_path, limits={"greeting_s": 0.3}))


@live(limits={"greeting_s": 0.3})
async def test_a_greeting_that_trickles(at: Live) -> None:
    peer = await at.peer(preface=b"")
    trickle = asyncio.create_task(dribble(peer, PREFACE + encode(Login(*login_of("eve")))))
    await refused(at, peer, r"^no greeting came within 0\.3 s$")
    trickle.cancel()


@live(limits={"frame_s": 0.3})
async def test_a_frame_that_trickles(at: Live) -> None:
    peer = await at.attached("eve")
    frame = encode(Frame(DATA, 1, Publication("eve", 1, Event({"class": "eve"}))))
    trickle = asyncio.create_task(dribble(peer, frame))
    await refused(at, peer, r"^a frame took longer than 0\.3 s$", "eve")
    trickle.cancel()


async def dribble(peer: PlainPeer, data: bytes) -> None:
    for byte in data:
        peer.write(bytes((byte,)))
        await asyncio.sleep(0.05)


@live(limits={"frame_s": 0.3})
async def test_frames_that_come_in_pieces_but_in_time_are_fine(at: Live) -> None:
    peer = await at.attached("eve")
    settle = encode(Frame(0, 1, Settle("x", "")))
    for _ in range(8):
        # All the while, a frame is not complete.
        peer.write(settle[:5])
        await asyncio.sleep(0.1)
        peer.write(settle[5:])
        assert (await peer.next(Settled)).id == "x"
        number = peer.sent[0] = peer.sent[0] + 1
        settle = encode(Frame(0, number + 1, Settle("x", "")))


@live(limits={"idle_s": 0.3})
async def test_a_peer_that_says_nothing(at: Live) -> None:
    peer = await at.attached("eve")
    others = asyncio.create_task(keep_talking(at))
    await refused(at, peer, r"^nothing was heard for 0\.3 s$", "eve")
    others.cancel()


async def keep_talking(at: Live) -> None:
    """The well-behaved, for whom there is nothing to say in this scenario."""
    pair = [peer for peer in at._peers if peer.client.startswith("good~")]
    while True:
        for peer in pair:
            peer.acknowledge()
        await asyncio.sleep(0.05)


class Deaf:
    """A peer that never reads what is said to it, on a socket with little room."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    async def connect(cls, at: Live, *parcels: Any) -> Deaf:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (HOST, at.server.port))
        greeting = Attach(PROTOCOL_VERSION, "eve~deaf", "eve~deaf", False, 0, 0)
        await loop.sock_sendall(
            sock, PREFACE + b"".join(map(encode, (Login(*login_of("eve")), greeting, *parcels)))
        )
        await at.until(lambda: "eve~deaf" in at.server.shell.machine.sessions)
        return cls(sock)

    async def say(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    def close(self) -> None:
        self._sock.close()


def wants(text: str) -> Frame:
    return Frame(0, 1, Subscribe("eve~deaf/1", parse_subscription(text), ""))


async def fill(at: Live, megabytes: int) -> None:
    """Publish what the deaf one has asked for."""
    publisher = await at.attached("eve~pub")
    publisher.advertise("eve~pub/a", "class = 'eve'")
    for _ in range(megabytes * 4):
        publisher.publish({"class": "eve"}, bytes(250_000))
    await publisher.drain()
    await publisher.acknowledged()


@live(limits={"stalled_s": 0.4, "write_buffer_bytes": 64 * KB})
async def test_a_peer_that_never_reads(at: Live) -> None:
    deaf = await Deaf.connect(at, wants("class = 'eve'"))
    before = len(at.server._open)
    await fill(at, 8)
    await at.until(lambda: len(at.server._open) == before, 3)
    logged(at, asked="connection", reason=r"^it has read nothing for 0\.4 s$", principal="eve")
    session = at.server.shell.machine.sessions["eve~deaf"]
    assert session.connection is None
    assert session.channel.data.outbox  # what it has not read waits for it
    deaf.close()


@live(limits={"stalled_s": 0.4, "write_buffer_bytes": 64 * KB})
async def test_a_peer_that_reads_again_in_time(at: Live) -> None:
    peer = await at.attached("eve~slow")
    peer.subscribe("eve~slow/1", "class = 'eve'")
    await peer.acknowledged()
    await fill(at, 8)
    await asyncio.sleep(0.2)
    for _ in range(32):
        await peer.next(Delivery)
    assert at.refusals() == []


def test_a_peer_that_is_refused_and_never_reads(tmp_path: Path) -> None:
    """What waits for it is less than counts as congested, and the last word never goes out."""

    async def scenario(at: Live) -> None:
        deaf = await Deaf.connect(at, wants("class = 'eve'"))
        before = len(at.server._open)
        await fill(at, 8)
        (connection,) = (c for c in at.server._open.values() if c.transport.get_write_buffer_size())
        assert connection.congested_since is None
        await deaf.say(struct.pack(">I", 0xFFFF_FFFF))
        await at.until(lambda: bool(at.refusals()))
        try:
            await at.until(lambda: len(at.server._open) == before, 2)
        finally:
            deaf.close()

    limits = {"stalled_s": 0.4, "greeting_s": 0.4, "frame_s": 0.4, "idle_s": 60.0}
    asyncio.run(play(scenario, tmp_path, limits=limits | {"write_buffer_bytes": 64_000_000}))


# --- not their fault ------------------------------------------------------------------------------


def test_a_peer_that_is_read_no_faster_is_not_called_slow(tmp_path: Path) -> None:
    """It has sent its frames at once; that half of one has been read is due to our own limit."""

    async def scenario(at: Live) -> None:
        peer = await at.attached("eve")
        peer.advertise("eve/a", "class = 'eve'")
        await peer.acknowledged()
        frames = [
            encode(Frame(DATA, n, Publication("eve", n, Event({"class": "eve"}))))
            for n in range(1, 22)
        ]
        half = len(frames[-1]) // 2
        peer.write(b"".join(frames)[:-half])
        await asyncio.sleep(0.05)  # it is read no further now, for a second
        peer.write(frames[-1][-half:])
        peer.sent[DATA] = 21
        await peer.acknowledged()

    limits = {"publish_rate_max": 20.0, "publish_burst": 1, "frame_s": 0.3}
    asyncio.run(play(scenario, tmp_path, limits=limits))


@live()
async def test_data_that_was_held_back_stays_ahead_of_what_comes_behind_it(at: Live) -> None:
    """When reading goes on, more may come in before what was held is passed on."""
    peer = await at.attached("eve")
    peer.advertise("eve/a", "class = 'eve'")
    await peer.acknowledged()
    (connection,) = (
        at.server._open[id_]
        for id_, each in at.server.shell.machine.node.peers.on.items()
        if each is at.server.shell.machine.sessions["eve"]
    )
    frames = [
        encode(Frame(DATA, n, Publication("eve", n, Event({"class": "eve"})))) for n in (1, 2)
    ]
    connection.pause(briefly=False)
    connection.data_received(frames[0])
    connection.resume()
    connection.data_received(frames[1])
    peer.sent[DATA] = 2
    await peer.acknowledged()


@live()
async def test_one_login_at_a_time(at: Live) -> None:
    """Checking a token costs tens of milliseconds, and megabytes: nobody may have many at once."""
    users, asked = at.server._users, 0
    assert users is not None
    authenticate = users.authenticate

    def slowly(name: str, token: str) -> Any:
        nonlocal asked
        asked += 1
        time.sleep(0.1)
        return authenticate(name, token)

    with mock.patch.object(users, "authenticate", slowly):
        peer = await at.peer()
        for _ in range(5):
            peer.put(Login("eve", "wrong"))
            await asyncio.sleep(0.01)
        assert await peer.farewell() == "the user or the token is not right"
    assert asked == 1
