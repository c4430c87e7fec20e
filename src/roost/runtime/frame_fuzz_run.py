"""Hostile streams against a broker process, over real sockets, while others go on with their work.

The broker has security on. Streams log in as a user who may publish and subscribe to everything, or as a
neighbour, and come in *rounds*: a round is a seed, and so many streams at the same time. All the while two
clients that mind their own business exchange events on other connections, each of which must arrive, once
and in order. After a round:

    the broker lives, and has complained of nothing on standard error (a traceback is a complaint)
    every stream that was ended has been answered by the end of the connection
    what the broker said was frames
    every event of the two clients has arrived

And at the end, when what hostile sessions left behind is forgotten, the broker still serves somebody new, has
about the memory that it had, and stops in order. The first round that fails ends the run. Its streams are
then played one at a time to a fresh broker, to find the one.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from roost.broker.messages import AttachRefused, Delivery, Frame, Parcel, Refused
from roost.runtime.broker_process import Tables
from roost.runtime.child_broker import ChildBroker
from roost.runtime.frame_fuzz import Cast, Stream, stream
from roost.runtime.plain_peer import PlainPeer, RefusedError
from roost.runtime.security import Hardness, User, changed_users, hash_token, new_token
from roost.wire import StreamDecoder, WireError

STREAMS_A_ROUND = 48
# An answer that takes longer is none.
HANG_S = 10.0
# How long to wait for a first word, which not every stream is owed.
SILENT_S = 0.1
# For how long a stream neither reads nor leaves, if it does that.
DEAF_S = 0.2
EVENTS_A_SECOND = 100
# How long sessions of those who have left are kept, and how long it takes to be sure that they are not.
LINGER_S = 0.5
FORGOTTEN_S = 2.0
# By then the broker has loaded what it loads once, and its tables of names and the allocator's reserves have
# filled. It is measured after the first round, and in longer runs again after so many.
WARM_ROUNDS = 80
MEMORY_GROWTH_BYTES_MAX = 64_000_000
READ_BYTES = 1 << 16
# Tokens are as good as ever; only guessing them costs the broker less than it should.
QUICK = Hardness(time_cost=1, memory_kib=8)

GOOD, HOSTILE, NEIGHBOUR = "good", "mallory", "N"
PUBLISHER, SUBSCRIBER = f"{GOOD}~pub", f"{GOOD}~sub"
OTHERS = (PUBLISHER, SUBSCRIBER, f"{SUBSCRIBER}/1", f"{PUBLISHER}/a")

_quoted_or_counted = re.compile(r"'[^']*'|\d[\d,]*").sub

Progress = Callable[[int], None]


class Report(Struct, kw_only=True):
    """What came of a run."""

    seed: int
    durable: bool = False
    rounds: int = 0
    frames: int = 0
    connections: int = 0
    refused: int = 0  # connections, with a reason
    requests_refused: int = 0  # on connections that went on
    reasons: int = 0  # different ones, whatever they quote and count
    exchanged: int = 0  # events of those who mind their own business
    lost: int = 0
    slowest_s: float = 0.0  # of them
    hangs: int = 0
    memory_before_bytes: int = 0
    memory_after_bytes: int = 0
    serves: bool = False
    wall_s: float = 0.0
    violations: list[str] = []
    # Of the first round that failed, and the stream of it that fails alone.
    failed_seed: int | None = None
    failed_stream: int | None = None

    @property
    def replay(self) -> str:
        """The command that plays the round, or the stream, that failed."""
        if self.failed_seed is None:
            return ""
        words = ["roost fuzz frames", f"--seed {self.failed_seed}", "--count 1"]
        if self.failed_stream is not None:
            words.append(f"--stream {self.failed_stream}")
        if self.durable:
            words.append("--durable")
        return " ".join(words)


# --- one stream -----------------------------------------------------------------------------------


class StreamAnswer:
    """What a broker said to a stream."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()  # it has said something, or closed
        self.reason = ""
        self.requests_refused = 0
        self.hung = False
        self.unreadable = ""


async def play(hostile: Stream, host: str, port: int) -> StreamAnswer:
    """Say it, and hear the broker out, as far as the stream does."""
    loop = asyncio.get_running_loop()
    answer = StreamAnswer()
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, (host, port))
        listening = None
        if hostile.ending != "deaf":
            listening = loop.create_task(_listen(sock, answer))
        try:
            async with asyncio.timeout(HANG_S):
                with contextlib.suppress(OSError):  # it has hung up already
                    for piece in hostile.pieces:
                        await loop.sock_sendall(sock, piece)
                if listening is not None:
                    # Whoever leaves while the broker checks who they are is not heard at all.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(answer.begun.wait(), SILENT_S)
                if hostile.ending == "read" and listening is not None:
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_WR)
                    await listening
        except TimeoutError:
            answer.hung = True
        if hostile.ending == "deaf":
            await asyncio.sleep(DEAF_S)
        elif hostile.ending == "reset":
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
    return answer


async def _listen(sock: socket.socket, answer: StreamAnswer) -> None:
    """To the end of the connection."""
    loop, decoder = asyncio.get_running_loop(), StreamDecoder()
    with contextlib.suppress(OSError):
        while data := await loop.sock_recv(sock, READ_BYTES):
            try:
                parcels: Sequence[Parcel] = decoder.feed(data)
            except WireError as error:
                answer.unreadable = answer.unreadable or str(error)
                parcels = error.parcels
            if parcels:
                answer.begun.set()
            for parcel in parcels:
                if isinstance(parcel, AttachRefused):
                    answer.reason = parcel.reason
                elif isinstance(parcel, Frame) and isinstance(parcel.message, Refused):
                    answer.requests_refused += 1
    answer.begun.set()


# --- those who mind their own business ------------------------------------------------------------


class Bystanders:
    """A publisher and a subscriber, whose events all arrive."""

    def __init__(self, publisher: PlainPeer, subscriber: PlainPeer) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._sent_at: dict[int, float] = {}
        self.received = 0
        self.slowest_s = 0.0
        self.trouble = ""
        self._tasks = [
            asyncio.create_task(self._publish()),
            asyncio.create_task(self._receive()),
            asyncio.create_task(self._hear_acknowledgements()),
        ]

    @classmethod
    async def begin(
        cls, host: str, port: int, login: tuple[str, str], life: str = ""
    ) -> Bystanders:
        subscriber = await PlainPeer.connect(host, port)
        await subscriber.attach(SUBSCRIBER + life, login=login)
        subscriber.subscribe(f"{SUBSCRIBER}{life}/1", f"class = 'good' and life = '{life}'")
        await subscriber.acknowledged()
        publisher = await PlainPeer.connect(host, port)
        await publisher.attach(PUBLISHER + life, login=login)
        publisher.advertise(f"{PUBLISHER}{life}/a", f"class = 'good' and life = '{life}'")
        await publisher.acknowledged()
        return cls(publisher, subscriber)

    @property
    def published(self) -> int:
        return self._publisher.published

    async def arrived(self) -> int:
        """How many of those published so far have not arrived, after a while."""
        published, until = self.published, time.monotonic() + HANG_S
        while self.received < published and not self.trouble and time.monotonic() < until:
            await asyncio.sleep(0.005)
        return max(0, published - self.received)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._publisher.close()
        await self._subscriber.close()

    async def _publish(self) -> None:
        life = self._subscriber.client.removeprefix(SUBSCRIBER)
        while not self.trouble:
            self._sent_at[self.published + 1] = time.monotonic()
            self._publisher.publish({"class": "good", "life": life})
            await asyncio.sleep(1 / EVENTS_A_SECOND)

    async def _receive(self) -> None:
        try:
            while not self.trouble:
                publication = (await self._subscriber.next(Delivery, HANG_S)).publication
                if publication.publisher != self._publisher.client:
                    continue
                if publication.sequence != self.received + 1:
                    what = f"event {publication.sequence} came where {self.received + 1} was due"
                    self.trouble = f"the well-behaved subscriber: {what}"
                self.received = publication.sequence
                took_s = time.monotonic() - self._sent_at.pop(publication.sequence)
                self.slowest_s = max(self.slowest_s, took_s)
                self._subscriber.acknowledge()
        except (RefusedError, OSError, WireError) as error:
            self.trouble = f"the well-behaved subscriber: {error or type(error).__name__}"

    async def _hear_acknowledgements(self) -> None:
        try:
            await self._publisher.next(Refused, 1e9)
            self.trouble = "the well-behaved publisher: an event was refused"
        except (RefusedError, OSError, WireError) as error:
            self.trouble = f"the well-behaved publisher: {error or type(error).__name__}"


# --- the broker, and rounds -----------------------------------------------------------------------


class Stage:
    """A broker with those who mind their own business, to play rounds to."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        tokens = {user: new_token() for user in (GOOD, HOSTILE, NEIGHBOUR)}
        users = folder / "users.toml"
        with changed_users(users) as written:
            for user, token in tokens.items():
                written[user] = User(
                    token_hash=hash_token(token, QUICK),
                    publish="*",
                    subscribe="*",
                    link=user == NEIGHBOUR,
                )
        self.cast = Cast(HOSTILE, tokens[HOSTILE], NEIGHBOUR, tokens[NEIGHBOUR], OTHERS)
        self.login = (GOOD, tokens[GOOD])
        self._reasons: set[str] = set()
        self.broker = ChildBroker(folder, _settings(folder, users, durable=durable))

    async def __aenter__(self) -> Stage:
        self.bystanders = await Bystanders.begin(self.broker.host, self.broker.port, self.login)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.bystanders.end()
        self.broker.stop()

    async def play(self, seed: int, numbers: Sequence[int], report: Report) -> list[str]:
        """These streams of a seed at the same time; what is wrong."""
        played = [stream(seed, number, self.cast) for number in numbers]
        try:
            answers = await asyncio.gather(
                *(play(hostile, self.broker.host, self.broker.port) for hostile in played)
            )
        except OSError as error:
            return [f"the broker can't be reached: {error}", *self.complaints()]
        report.rounds += 1
        report.frames += sum(hostile.frames for hostile in played)
        report.connections += len(played)
        report.refused += sum(bool(answer.reason) for answer in answers)
        self._reasons.update(_quoted_or_counted("", a.reason) for a in answers if a.reason)
        report.reasons = len(self._reasons)
        report.requests_refused += sum(answer.requests_refused for answer in answers)
        report.hangs += sum(answer.hung for answer in answers)
        wrong = []
        for number, hostile, answer in zip(numbers, played, answers, strict=True):
            if answer.hung:
                wrong.append(f"stream {number} ({hostile.kind}) was not ended in {HANG_S:g} s")
            if answer.unreadable:
                what = f"was answered with no frames: {answer.unreadable}"
                wrong.append(f"stream {number} ({hostile.kind}) {what}")
        lost = await self.bystanders.arrived()
        report.lost += lost
        report.exchanged = self.bystanders.received
        report.slowest_s = self.bystanders.slowest_s
        if self.bystanders.trouble:
            wrong.append(self.bystanders.trouble)
        elif lost:
            wrong.append(f"{lost:,} well-behaved events have not arrived in {HANG_S:g} s")
        return [*wrong, *self.complaints()]

    def complaints(self) -> list[str]:
        code = self.broker.exit_code
        wrong = [] if code is None else [f"the broker has ended, with exit code {code}"]
        if complaints := self.broker.complaints():
            wrong.append("the broker complains:\n" + "\n".join(complaints[-20:]))
        return wrong

    async def serves(self) -> bool:
        """Whether somebody new gets what they came for."""
        life = f"~{secrets.token_hex(4)}"
        try:
            others = await Bystanders.begin(self.broker.host, self.broker.port, self.login, life)
        except (RefusedError, OSError):
            return False
        while others.published < EVENTS_A_SECOND // 10 and not others.trouble:
            await asyncio.sleep(0.01)
        lost = await others.arrived()
        await others.end()
        return not lost and not others.trouble


def _settings(folder: Path, users: Path, *, durable: bool) -> Tables:
    return {
        "broker": {
            "linger_s": LINGER_S,
            "durable_linger_s": LINGER_S,
            "data": str(folder / "data") if durable else "",
        },
        "links": {"neighbours": {NEIGHBOUR: ""}},
        # The well-behaved answer only while they exchange events.
        "limits": {"greeting_s": 2.0, "frame_s": 2.0, "stalled_s": 2.0, "keepalive_s": 60.0},
        "security": {
            "enabled": True,
            "users": str(users),
            "refusals": str(folder / "refusals"),
        },
    }


async def run(
    seed: int,
    count: int,
    *,
    only: int | None = None,
    durable: bool = False,
    progress: Progress = lambda _: None,
) -> Report:
    """Play rounds from this seed on, until there were so many frames; or one stream of the seed alone."""
    report, began = Report(seed=seed, durable=durable), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roost-fuzz-") as folder:
        async with Stage(Path(folder), durable=durable) as stage:
            await _play_rounds(stage, report, count, only, progress)
            if not report.violations:
                await _judge(stage, report)
            code = stage.broker.stop()
            if code and not report.violations:
                report.violations.append(f"the broker stops with exit code {code}")
    if report.failed_seed is not None and only is None:
        report.failed_stream = await _find(report.failed_seed, durable=durable)
    report.wall_s = time.monotonic() - began
    return report


async def _play_rounds(
    stage: Stage, report: Report, count: int, only: int | None, progress: Progress
) -> None:
    seed = report.seed
    numbers = range(STREAMS_A_ROUND) if only is None else [only]
    while report.frames < count or not report.rounds:
        report.violations = await stage.play(seed, numbers, report)
        if report.violations:
            report.failed_seed = seed
            return
        if report.rounds in (1, WARM_ROUNDS):
            report.memory_before_bytes = stage.broker.resident_bytes()
        seed += 1
        progress(report.frames)


async def _judge(stage: Stage, report: Report) -> None:
    """The end of a run in which no round has failed."""
    await asyncio.sleep(FORGOTTEN_S)
    report.violations = stage.complaints()
    if report.violations:
        return
    report.memory_after_bytes = stage.broker.resident_bytes()
    report.serves = await stage.serves()
    if not report.serves:
        report.violations.append("the broker does not serve somebody new")
    grown = report.memory_after_bytes - report.memory_before_bytes
    if grown > MEMORY_GROWTH_BYTES_MAX:
        report.violations.append(f"the broker has grown by {grown / 1e6:,.0f} MB")


async def _find(seed: int, *, durable: bool) -> int | None:
    """The first stream of a round that fails alone; None if none does."""
    with tempfile.TemporaryDirectory(prefix="roost-fuzz-") as folder:
        async with Stage(Path(folder), durable=durable) as stage:
            for number in range(STREAMS_A_ROUND):
                if await stage.play(seed, [number], Report(seed=seed)):
                    return number
    return None
