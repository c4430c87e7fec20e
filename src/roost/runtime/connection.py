"""A connection over a socket: bytes in, parcels to the shell; parcels out, bytes to the socket.

**Reading.** Each piece that arrives is one event for the machine, with all the parcels that it completes.
The machine may want no more data from a peer (`pause`): data is then held here, while acknowledgements and
control go on, because whoever waits for us may be waiting for just those. What is held has a bound, beyond
which the socket is not read at all.

**Writing.** Above a mark of bytes that the peer has not taken, the machine hears `Congested`, and below it
again `Relieved`; so what waits for a slow reader waits in the machine, under its bounds. One that reads
nothing for too long is closed.

**Strangers.** Until it has greeted, a connection is on the `doorstep`. A peer has so long to say who it is,
and to finish a frame it has begun; bytes that are no frames close the connection with a reason, and nothing
else.

**Silence.** Peers of a version that knows it are asked whether they are there when nothing comes from them
(`keepalive`), and answered when they ask; the machine sees nothing of either.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, cast

from roost.broker.events import Congested, Received, Relieved
from roost.broker.messages import (
    ASKS_BACK,
    DATA,
    Attach,
    AttachRefused,
    Frame,
    LinkHello,
    Login,
    Parcel,
    Ping,
    Pong,
)
from roost.chunks.stream import read
from roost.chunks.taking import Taken
from roost.runtime.keepalive import Keepalive, Verdict, set_options
from roost.runtime.strangers import Arrival
from roost.wire import PREFACE, StreamDecoder, WireError, encode
from roost.wire.codec import size_of

if TYPE_CHECKING:
    from roost.runtime.doorstep import Doorstep
    from roost.runtime.rates import Bucket
    from roost.runtime.server import BrokerServer

# What drivers say to each other.
ASIDE = frozenset((Ping, Pong))
# What a parcel takes as objects, besides what its bytes do.
PARCEL_BYTES = 500
# Bytes of data that are held of a peer that is paused; its acknowledgements stand behind them.
HELD_BYTES_MAX = 16_000_000
# How long a peer may take to read what was written before its connection was closed.
LAST_WORDS_S = 5.0
# Pieces that are larger, on average, go to the system as they are; smaller ones are one write together.
WORTH_NO_COPY_BYTES = 4_096
# Are you there?
ASK = encode(Ping(0))
# `writelines` of asyncio's own loop does not say that a peer has stopped reading in some releases of 3.12
# and 3.13 (3.12.1 and 3.13.0 were tried): nobody would notice, and what waits for it would have no bound.
COPIES = (3, 12) <= sys.version_info < (3, 14)


class SocketConnection(asyncio.Protocol):
    """One connection of a broker. There may be thousands: none has a dictionary of its own."""

    __slots__ = (
        "_buckets",
        "_decoder",
        "_held",
        "_held_bytes",
        "_keepalive",
        "_not_reading",
        "_paused",
        "_rests",
        "_throttled",
        "arrival",
        "bytes_out",
        "congested_since",
        "doorstep",
        "greeted",
        "heard_at",
        "id",
        "is_checking",
        "is_deaf",
        "neighbour",
        "out",
        "part_since",
        "principal",
        "server",
        "shell",
        "since",
        "spoke_at",
        "transport",
    )

    def __init__(self, server: BrokerServer, arrival: Arrival, *, neighbour: str = "") -> None:
        self.server = server
        self.shell = server.shell
        self.id = self.shell.new_id()
        self.out: list[bytes] = []
        self.bytes_out = 0  # that were written
        self.arrival = arrival
        self.neighbour = neighbour  # whom we dialled
        self.greeted = False
        # Since when the peer owes us a greeting.
        self.since = arrival.since
        self.heard_at = self.spoke_at = self.shell.loop.time()  # anything; anything of the protocol
        self.part_since: float | None = None  # a frame has begun to arrive
        self.congested_since: float | None = None
        self.principal = ""  # who it says it is
        self.transport: asyncio.Transport
        self.doorstep: Doorstep | None = None
        self.is_deaf = False  # we have hung up
        self.is_checking = False  # who it says it is
        self._keepalive: Keepalive | None = None  # with those who answer
        self._decoder = StreamDecoder(server.wire_limits)
        self._paused = False  # by the machine
        self._rests = False  # it is paused for a moment: what it sends may as well not be read
        self._throttled = False
        self._held: list[Parcel] = []
        self._held_bytes = 0
        self._not_reading = False
        self._buckets: tuple[Bucket, ...] = ()  # of what it may publish

    # --- asyncio's side -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.server.config.limits.write_buffer_bytes)
        self.arrival.cut = self.cut
        if self.neighbour:
            set_options(transport)  # else those of whoever listens are its own
        self.transport.write(PREFACE)
        self.server.connected(self)

    def data_received(self, data: bytes) -> None:
        if self.is_deaf:
            return
        self.heard_at = self.shell.loop.time()
        self.shell.bytes_in += len(data)
        if self.shell.takes_chunks and self._can_take:
            data = read(self._decoder, data, self._take_chunk, self._handle_frame)
            if self.is_deaf:
                return
            if not data:
                self.part_since = None
                return
        self._feed(data)

    def first_words(self, data: bytes) -> None:
        """What came together with its greeting: hardly publications, which have to be advertised first."""
        self.shell.bytes_in += len(data)
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Have the machine handle what these bytes complete."""
        now = self.heard_at
        try:
            parcels = self._decoder.feed(data)
        except WireError as error:
            parcels = self._without_aside(list(error.parcels))
            if parcels:
                self._take(parcels)
            self.refuse(str(error))
            return
        if self._decoder.has_part and not self._not_reading:  # else the time is ours
            if self.part_since is None or parcels:
                self.part_since = now
        else:
            self.part_since = None
        if parcels:
            if not ASIDE.isdisjoint(map(type, parcels)):
                parcels = self._without_aside(parcels)
                if not parcels:
                    return
            self.spoke_at = now
            self._take(parcels)

    def decode(self, data: bytes) -> list[Parcel]:
        """What these bytes complete, of what comes ahead of a greeting."""
        self.heard_at = self.shell.loop.time()
        return self._decoder.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_deaf = True
        self.server.disconnected(self)
        self.shell.closed(self, str(error) if error else "the other end has closed it")

    def pause_writing(self) -> None:
        self.congested_since = self.shell.loop.time()
        self.shell.handle(Congested(self.id))

    def resume_writing(self) -> None:
        self.congested_since = None
        self.shell.handle(Relieved(self.id))

    # --- reading ------------------------------------------------------------------------------------

    @property
    def _can_take(self) -> bool:
        """Whether what arrives goes to the machine at once."""
        return self.greeted and not (self._paused or self._throttled or self._held)

    def _take_chunk(self, data: bytes, start: int) -> Taken:
        taken = self.shell.take_chunk(self.id, data, start)
        if taken.events:
            self.spoke_at = self.heard_at
            self.part_since = None
            if self._buckets:
                self._throttle(taken.events)
        return taken

    def _handle_frame(self, data: bytes) -> bool:
        self._feed(data)
        return self._can_take and not self.is_deaf

    def _take(self, parcels: list[Parcel]) -> None:
        if self._paused or self._throttled or self._held:  # what was held goes first
            self._hold([p for p in parcels if _is_data(p)])
            self._pass_on([p for p in parcels if not _is_data(p)])
        else:
            self._pass_on(parcels)

    def _pass_on(self, parcels: list[Parcel]) -> None:
        if not parcels:
            return
        if self._buckets:
            self._throttle(sum(map(_is_data, parcels)))
        self.shell.handle(Received(self.id, parcels))

    def _hold(self, parcels: list[Parcel]) -> None:
        self._held.extend(parcels)
        self._held_bytes += sum(map(size_of, parcels)) + PARCEL_BYTES * len(parcels)
        self.read_or_not()

    def read_or_not(self) -> None:
        """Read the socket, unless something speaks against it."""
        not_reading = not self.is_deaf and (
            self._throttled
            or self._rests
            or self.server.choked
            or self._held_bytes > HELD_BYTES_MAX
            or (not self.greeted and self.doorstep is not None and self.doorstep.is_full)
        )
        if not_reading != self._not_reading and not self.transport.is_closing():
            self._not_reading = not_reading
            if not_reading:
                self.transport.pause_reading()
                self.part_since = None  # the time in which we don't read is not the peer's
            else:
                self.transport.resume_reading()
                if self._decoder.has_part:
                    self.part_since = self.shell.loop.time()

    @property
    def is_read(self) -> bool:
        """Whether what arrives is read, and if it is not soon, for want of a processor."""
        return not self._not_reading and not self.is_deaf

    @property
    def held(self) -> int:
        """Parcels that somebody else has no room for."""
        return len(self._held)

    def pause(self, briefly: bool) -> None:
        self._paused, self._rests = True, briefly
        self.read_or_not()

    def resume(self) -> None:
        self._paused = self._rests = False
        # Not at once: whoever resumes is still at work.
        self.shell.loop.call_soon(self._let_go)

    def _let_go(self) -> None:
        if self._paused or self._throttled:
            return
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._pass_on(held)
        self.read_or_not()

    def _throttle(self, count: int) -> None:
        """Read on when the rates allow for so many events that have come; a burst is free."""
        now = self.shell.loop.time()
        wait_s = max(bucket.take(count, now) for bucket in self._buckets)
        if wait_s and not self._throttled:
            self._throttled = True
            self.shell.loop.call_later(wait_s, self._unthrottle)
            self.read_or_not()

    def _unthrottle(self) -> None:
        self._throttled = False
        self._let_go()  # what came with the greeting, of one who was too fast before
        self.read_or_not()

    # --- who it is ----------------------------------------------------------------------------------

    def log_in(self, login: Login) -> None:
        self.is_checking = self.arrival.is_busy = True
        self.principal = login.user
        self.server.check_login(self, login)

    def checked(self, objection: str) -> None:
        """What it says has been checked."""
        self.is_checking = self.arrival.is_busy = False
        if objection:
            self.refuse(objection)
            return
        self.since = self.shell.loop.time()  # the time it took was ours
        if self.doorstep is not None:
            self.doorstep.go_on()

    def greeted_with(self, parcel: Parcel) -> bool:
        """The first that it says that is not for us but for the machine. False: it is not to go on."""
        if self.neighbour and type(parcel) is AttachRefused:
            # It may know what to do about it: the neighbour may be of another version.
            self.shell.handle(Received(self.id, (parcel,)))
            return False
        if objection := self.server.objection_to(self, parcel):
            self.refuse(objection, transient=True)
            return False
        self.greeted = True
        self.server.places.greeted(self.neighbour)
        self._buckets = self.server.buckets_of(self, parcel)
        self.spoke_at = self.heard_at
        if isinstance(parcel, Attach | LinkHello) and parcel.version >= ASKS_BACK:
            self._keepalive = Keepalive(self.server.keepalive_s(parcel), self.heard_at)
            if type(parcel) is Attach:
                # A client hears no version of ours. So it knows that we answer, too.
                self.transport.write(ASK)
        self._pass_on([parcel])
        return not self.is_deaf

    # --- time ---------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Whether it has taken too long for something."""
        limits, part = self.server.config.limits, self.part_since
        if self.is_deaf:
            return
        if self.congested_since is not None and now - self.congested_since > limits.stalled_s:
            self.abort(f"it has read nothing for {limits.stalled_s:g} s")
        elif not self.greeted:
            within_s = self.server.places.greeting_s(self.neighbour)
            if not self.is_checking and now - self.since > within_s:
                self._no_greeting(f"no greeting came within {within_s:g} s")
        elif part is not None and now - part > limits.frame_s:
            self.refuse(f"a frame took longer than {limits.frame_s:g} s", transient=True)
        elif limits.idle_s and now - self.spoke_at > limits.idle_s:
            self.refuse(f"nothing was heard for {limits.idle_s:g} s", transient=True)
        elif self._keepalive is not None:
            verdict = self._keepalive.look(
                now, self.heard_at, can_hear=not self._not_reading, can_see=part is None
            )
            if verdict is Verdict.DEAD:
                self.abort(f"nothing was heard for {self._keepalive.dead_after_s:g} s")
            elif verdict is Verdict.ASK and self.congested_since is None:
                self.transport.write(ASK)

    def _no_greeting(self, reason: str) -> None:
        if self.neighbour:
            self.is_deaf = True
            self.server.turned_away(self.neighbour, reason)
            self.shell.closed(self, reason)
            self.transport.abort()
        else:
            self.refuse(reason, transient=True)

    def _without_aside(self, parcels: list[Parcel]) -> list[Parcel]:
        """Those that are for the machine; the others are for us."""
        asked = [p for p in parcels if type(p) is Ping]
        # Of many, the last will do; and one who does not read answers is not given more of them.
        if asked and self.congested_since is None and not self.transport.is_closing():
            self.transport.write(encode(Pong(asked[-1].number)))
        return [p for p in parcels if type(p) not in ASIDE]

    # --- writing ------------------------------------------------------------------------------------

    def flush(self) -> None:
        out, self.out = self.out, []
        if out and not self.is_deaf and not self.transport.is_closing():
            size = sum(map(len, out))
            self.bytes_out += size
            self.shell.bytes_out += size
            if len(out) == 1:
                self.transport.write(out[0])
            elif COPIES or size < len(out) * WORTH_NO_COPY_BYTES:
                self.transport.write(b"".join(out))
            else:
                self.transport.writelines(out)

    def close(self, _: str) -> None:
        self.flush()
        self._hang_up()

    def _hang_up(self) -> None:
        """After what was written, if the peer reads it; else without.

        To close with something unread would make the system throw away what we have written, the reason
        among it. So the rest of what the peer says is read, and not heard.
        """
        self.is_deaf = True
        self.server.hung_up(self)
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self.read_or_not()
        else:
            self.transport.close()
        within_s = min(LAST_WORDS_S, self.server.config.limits.stalled_s)
        self.shell.loop.call_later(within_s, self.transport.abort)

    def refuse(self, reason: str, *, transient: bool = False) -> None:
        """Say why, as well as can be said, and hang up. Transient: it may try again."""
        if not self.is_deaf and not self.transport.is_closing():
            self.server.refused(self.id, "connection", reason)
            self.flush()
            self.transport.write(encode(AttachRefused(reason, transient=transient)))
            self._hang_up()
        self.shell.closed(self, reason)

    def cut(self, reason: str) -> None:
        """Its place is needed: at once, whether it hears why or not."""
        if not self.is_deaf and not self.transport.is_closing():
            self.server.refused(self.id, "connection", reason)
            self.transport.write(encode(AttachRefused(reason, transient=True)))
        self.is_deaf = True
        self.shell.closed(self, reason)
        self.transport.abort()

    def abort(self, reason: str) -> None:
        """Without waiting for what was written: the peer does not read."""
        self.is_deaf = True
        self.server.refused(self.id, "connection", reason)
        self.shell.closed(self, reason)
        self.transport.abort()


def _is_data(parcel: Any) -> bool:
    return type(parcel) is Frame and parcel.priority == DATA
