"""One client machine at work in an event loop: its timers, its connection, and what it wants done.

The machine (`roost.broker.client`) knows all of the protocol. A *line* is what it needs to live: it dials
when the machine wants to be connected, with delays that grow and differ, tells it what arrives (`intake`),
and passes on what is for the application to an *owner*, the client or a durable subscription. A session
that a broker has ended, or refuses, is the end of the line: `failure` says why, and everybody who waits
hears it.

Nothing here is a task of its own, except for dialling while it lasts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from roost.broker.client import Client as Machine
from roost.broker.commands import CancelTimer, Close, Command, Hand, OpenLink, Send, SetTimer, Tell
from roost.broker.config import ClientConfig
from roost.broker.events import (
    AttachRequested,
    ConnectionClosed,
    LeaveRequested,
    LinkOpened,
    LinkRefused,
    TimerFired,
)
from roost.broker.machine import Happening
from roost.broker.messages import Parcel, Publication
from roost.broker.names import Address
from roost.broker.runs import Run
from roost.client.dialling import DialError
from roost.client.errors import (
    ClientError,
    Closed,
    ConnectError,
    NotEverywhere,
    NotInTime,
    SessionOver,
    Stalled,
    Unreachable,
)
from roost.client.intake import Intake
from roost.client.running import Running, first_unaccepted
from roost.client.settling import Settling

if TYPE_CHECKING:
    from roost.client.connection import Connection
    from roost.client.inbox import Inbox

# Acknowledgements of deliveries are sent for so many, or after so long.
ACK_EVERY = 64
ACK_DELAY_S = 0.05
# How long to wait before dialling again; doubles each time in vain, up to what the dialler says.
REDIAL_S = 0.05
# A broker that hangs up on a session that goes on, and soon again, objects to something we keep saying.
OBJECTIONS_MAX = 3
OBJECTION_S = 5.0
# How long a broker may refuse to go on with a session that it had.
REFUSED_S = 60.0
# How long a connection may take to close before it is cut.
CLOSE_S = 1.0
# How long to say goodbye when something has gone wrong already.
HASTE_S = 1.0
# Moves whose pauses are remembered.
MOVES_KEPT = 1_000
# How often those who wait look whether they wait in vain.
LOOK_S = 0.5


def line_config(client: str, session: str, **more: Any) -> ClientConfig:
    """The settings of a machine, with what is the same for all lines."""
    return ClientConfig(
        client=client,
        session=session,
        ack_every=ACK_EVERY,
        ack_delay_s=ACK_DELAY_S,
        redial_s=REDIAL_S,
        **more,
    )


class Dials(Protocol):
    """Makes connections, each of which says so by `Line.opened`; see `dialling` and `memory`."""

    @property
    def broker(self) -> str: ...

    @property
    def redial_max_s(self) -> float: ...

    async def dial(self, line: Line, broker: str) -> None: ...

    def lost(self, now: float, *, answered: bool) -> None: ...


class Owner(NamedTuple):
    """Whom a line is for: what they want to be told."""

    # An event, for the subscriptions of these names, and its number.
    handed: Callable[[Publication, Sequence[str], int], None]
    # So many events were not kept for us.
    dropped: Callable[[int], None]
    # A request was not carried out: its id, and why.
    refused: Callable[[str, str], None]
    # A session goes on, or (False) has begun.
    attached: Callable[[bool], None]
    # The connection is gone, and why; the session goes on when there is another.
    detached: Callable[[str], None]
    # It is over: see `Line.failure`.
    failed: Callable[[], None]
    # A subscription is full and keeps the line from reading; again and again, as long as that is so.
    held_up: Callable[[], None] = lambda: None
    # Where events for the subscriptions of these names wait, if that is one place.
    inbox: Callable[[tuple[str, ...] | None], Inbox[Any] | None] = lambda _: None
    # How many deliveries there is room for, where the application acknowledges them.
    room: Callable[[], int] = lambda: 1


class Lookup(Machine):
    """The machine, and what the application calls things by."""

    __slots__ = ("running",)

    def __init__(self, config: ClientConfig, running: Running) -> None:
        super().__init__(config)
        self.running = running

    @property
    def is_leaving(self) -> bool:
        return self._leaving

    @property
    def seen(self) -> dict[str, int]:
        """The number of the last event of each publisher that has arrived."""
        return self._seen

    @property
    def is_plain(self) -> bool:
        """Whether an event that is published now is numbered and sent, and that is all."""
        return (
            self.outlet.state == "attached"
            and self.move is None
            and not (self._paused or self._settles_to_resume or self.kept_back or self._leaving)
        )

    @property
    def accepted(self) -> int:
        """The brokers have all events up to this sequence number."""
        if self.running.count:
            self.running.end()
        lane = self.home.channel.data
        waiting = lane._outbox
        # Mostly all that is on its way is in runs, which need not be looked into.
        if waiting and self.move is None and not self._dismissed:
            first = waiting[0]
            if type(first) is Run:
                before = first_unaccepted(first, lane.acked) - 1
                return min(before, self.numbering._accepted_max)
        return super().accepted

    def subscription_called(self, id_: str) -> str | None:
        """The application's name of a subscription with this id."""
        found = (attachment.names.get(id_) for attachment in self.attachments())
        return next((names[0] for names in found if names), None)

    def advertisement_called(self, id_: str) -> str | None:
        """The same of an advertisement."""
        ids = (item for a in self.attachments() for item in a.advertisement_ids.items())
        return next((name for name, known_id in ids if known_id == id_), None)


class Line:
    """A machine, and all it needs to live."""

    def __init__(self, config: ClientConfig, dialler: Dials, owner: Owner) -> None:
        self.loop = asyncio.get_running_loop()
        self.running = Running(self)
        self.machine = Lookup(config, self.running)
        self.failure: Callable[[], ClientError] | None = None  # makes the error anew for each
        self.settling = Settling(self)
        self.is_attached = False
        self._owner = owner
        self._dialler = dialler
        self.is_over = False
        self._is_leaving = False
        self._ids = 0
        self._dials: set[asyncio.Task[None]] = set()
        self._open: dict[int, Connection] = {}  # by id; two while the client moves
        self._connections: set[Connection] = set()  # also those that are closing
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # Of each move: how long events were kept back.
        self.pauses_s: deque[float] = deque(maxlen=MOVES_KEPT)
        self._attempts = 0  # in vain, since it was last attached
        self._why = "no answer"  # the last time that it was in vain
        self._waits = True  # for a broker that nobody has started yet
        self._attached_at: float | None = None
        self._objections = 0
        self._refused_since: float | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.intake = Intake(self, owner)

    # --- what happens -------------------------------------------------------------------------------

    def handle(self, event: Happening) -> None:
        """Something happens to the machine."""
        if not self.is_over:
            self.running.end()
            # Its clock is the one that events are stamped with.
            self._execute(self.machine.handle(event, time.time()))

    def new_id(self) -> int:
        """Of a connection; never used again, so that what comes late can't be mistaken."""
        self._ids += 1
        return self._ids

    @property
    def connection(self) -> Connection | None:
        """The one that events go to, if there is one."""
        return self._open.get(self.machine.outlet.connection or 0)

    def opened(self, connection: Connection, broker: str) -> None:
        self._connections.add(connection)
        if self.is_over:
            connection.close("goodbye")
            return
        self._open[connection.id] = connection
        self.handle(LinkOpened(broker, connection.id))

    def received(self, connection: Connection, parcels: Sequence[Parcel]) -> None:
        """Parcels have arrived, mostly deliveries."""
        if connection.id in self._open:
            self.intake.received(connection, parcels)

    def is_open(self, connection: Connection) -> bool:
        """Whether what comes from there still counts."""
        return connection.id in self._open

    def lost(self, connection: Connection, reason: str) -> None:
        self._connections.discard(connection)
        if self._open.pop(connection.id, None) is not None:
            self._why = reason
            self._dialler.lost(self.loop.time(), answered=self.is_attached)
            self.handle(ConnectionClosed(connection.id, reason))
            self.intake.lost(connection)

    # --- what the machine wants ---------------------------------------------------------------------

    def _execute(self, commands: list[Command]) -> None:
        news: list[Hand | Tell] = []
        for command in commands:
            kind = type(command)
            if kind is Send:
                connection = self._open.get(command.connection)  # type: ignore[union-attr]
                if connection is not None:
                    connection.send(command.parcel)  # type: ignore[union-attr]
            elif isinstance(command, Hand | Tell):
                news.append(command)
            else:
                self._execute_rare(command)
        # Whoever hears news may want something from the machine, which has to come after all this.
        for new in news:
            if type(new) is Hand:
                self._owner.handed(new.publication, new.subscriptions, new.number)
            else:
                self._told(new)  # type: ignore[arg-type]

    def _execute_rare(self, command: Command) -> None:
        if isinstance(command, SetTimer):
            redials = command.name.startswith("dial")
            delay_s = self._redial_delay() if redials else command.delay_s
            self._set_timer(command.name, delay_s, partial(self.handle, TimerFired(command.name)))
        elif isinstance(command, CancelTimer):
            running = self._timers.pop(command.name, None)
            if running is not None:
                running.cancel()
        elif isinstance(command, OpenLink):
            task = self.loop.create_task(self._dial(command.broker))
            self._dials.add(task)
            task.add_done_callback(self._dials.discard)
        elif isinstance(command, Close):
            connection = self._open.pop(command.connection, None)
            if connection is not None:
                self._dialler.lost(self.loop.time(), answered=self.is_attached)
                connection.close(command.reason)
                self.intake.lost(connection)

    async def _dial(self, broker: str) -> None:
        try:
            await self._dialler.dial(self, broker)
        except DialError as error:
            self._why = str(error)
            if error.nobody and not self._waits and self._attached_at is None:
                self.fail(partial(Unreachable, f"{self._dialler.broker}: {self._why}"))
            else:
                self.handle(LinkRefused(broker, self._why))

    def _redial_delay(self) -> float:
        """Longer each time, and not the same for all whom a broker has lost."""
        delay_s: float = min(self._dialler.redial_max_s, REDIAL_S * 2 ** min(self._attempts, 16))
        self._attempts += 1
        return delay_s * random.uniform(0.5, 1.0)

    def _set_timer(self, name: str, delay_s: float, fire: Callable[[], None]) -> None:
        running = self._timers.get(name)
        if running is not None:
            running.cancel()
        self._timers[name] = self.loop.call_later(delay_s, fire)

    def _told(self, news: Tell) -> None:
        if news.what == "attached":
            self._attempts = 0
            self._attached_at, self._refused_since = self.loop.time(), None
            self.is_attached = True
            self.intake.pause()
            resumed = news.reason == "resumed"
            if not resumed:
                self.settling.ask_again()
            self._owner.attached(resumed)
        elif news.what == "detached":
            self.is_attached = False
            self._owner.detached(news.reason)
        elif news.what == "refused" and self.machine.state == "refused":
            self._session_refused(news.reason)
        elif news.what == "refused":
            if not self.settling.refused(news.about):
                self._owner.refused(news.about, news.reason)
        elif news.what == "dropped":
            self._owner.dropped(int(news.about))
        elif news.what == "settled":
            self.settling.settled(news.about, news.reason)
        elif news.what == "moved":
            self.pauses_s.append(float(news.reason))
        elif news.what == "ended":
            where = self._dialler.broker
            if self._is_leaving:
                self.fail(partial(Closed, f"{where}: the client has left"))
            else:
                self.fail(partial(SessionOver, where, news.reason))

    # --- refusals -----------------------------------------------------------------------------------

    def is_no_broker(self, reason: str) -> None:
        """What answers speaks in other words; if none of ours has answered so far, none will."""
        if self._attached_at is None:
            self.fail(partial(ConnectError, f"{self._dialler.broker}: {reason}"))

    def _session_refused(self, reason: str) -> None:
        """The broker doesn't want us, now or at all."""
        was_attached, self.is_attached = self.is_attached, False
        now, where = self.loop.time(), self._dialler.broker
        self._why = reason
        if self.machine.home.refused_transiently:
            # It says that it may be otherwise before long. Whoever waits for the first session has its own
            # patience (`open`).
            self._ask_again(reason)
        elif self._attached_at is None:
            self.fail(partial(ConnectError, f"{where}: {reason}"))
        elif was_attached:
            # Not the session is refused but this connection: it was idle for too long, for instance.
            self._objections = 1 if now - self._attached_at > OBJECTION_S else self._objections + 1
            if self._objections >= OBJECTIONS_MAX:
                self.fail(partial(SessionOver, where, reason))
            else:
                self._ask_again(reason)
        else:
            # An older broker may be full for now; but a durable session has been taken over.
            self._refused_since = self._refused_since or now
            if self.machine.config.durable or now - self._refused_since > REFUSED_S:
                self.fail(partial(SessionOver, where, reason))
            else:
                self._ask_again(reason)

    def _ask_again(self, reason: str) -> None:
        request = AttachRequested(Address(self._dialler.broker))
        self._set_timer("dial again", self._redial_delay(), partial(self.handle, request))
        self._owner.detached(reason)

    def fail(self, failure: Callable[[], ClientError]) -> None:
        """It is over."""
        if self.failure is None:
            self.failure = failure
            self.is_attached = False
            self._stop()
            self.settling.end()
            self._owner.failed()
            self.progressed()

    def check(self) -> None:
        """Raise what has happened to the line."""
        if self.failure is not None:
            raise self.failure()

    # --- waiting ------------------------------------------------------------------------------------

    def progressed(self) -> None:
        """Something has come: those who wait look whether it is what they wait for."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def until(
        self, is_so: Callable[[], bool], timeout_s: float | None, what: Callable[[], str]
    ) -> None:
        """Wait until something is so. NotInTime says `what` is not; other errors, why it can't be."""
        since = self.loop.time()
        deadline = None if timeout_s is None else since + timeout_s
        while not is_so():
            self.check()
            now = self.loop.time()
            if deadline is not None and now >= deadline:
                raise NotInTime(f"{self._dialler.broker}: {what()} after {timeout_s:g} s")
            self._check_stalled(now, since)
            waiter = self.loop.create_future()
            self._waiters.append(waiter)
            look_s = LOOK_S if deadline is None else min(LOOK_S, deadline - now)
            await asyncio.wait((waiter,), timeout=look_s)
            if not waiter.done():
                waiter.cancel()
                self._waiters.remove(waiter)
        self.check()

    async def settle(self, inbox: Inbox[Any], timeout_s: float, *, everywhere: bool) -> None:
        """Until a subscription is in place; with `everywhere`, NotEverywhere if somebody is away."""
        asked = self.settling.ask()
        await self.until(
            lambda: asked.done() or inbox.failure is not None,
            timeout_s,
            lambda: f"{inbox.title} is not in place{self._why_unheard()}",
        )
        if inbox.failure is not None:
            raise inbox.failure()
        missing = asked.result()
        if everywhere and missing:
            raise NotEverywhere(inbox.title, missing)

    def _why_unheard(self) -> str:
        """Of an answer that has not come: it stands behind events that there is no room for."""
        for inbox in self.intake.full:
            unread = f"{len(inbox):,} events for {inbox.title} that nobody has read"
            return f" (or it is, and the answer stands behind {unread})"
        return ""

    # --- reading, or not ----------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """The broker is to notice that nobody reads."""
        for connection in self._open.values():
            connection.pause_reading()

    def resume_reading(self) -> None:
        """Somebody does again."""
        for connection in self._open.values():
            connection.resume_reading()

    def _check_stalled(self, now: float, since: float) -> None:
        """Whether somebody who waits since then waits in vain."""
        for inbox in self.intake.full:
            if now - max(inbox.read_at, since) > inbox.stalled_s:
                raise Stalled(
                    f"{self._dialler.broker}: acknowledgements wait behind {len(inbox):,} events for"
                    f" {inbox.title}, which nobody has read for {inbox.stalled_s:g} s"
                )

    # --- beginning and end --------------------------------------------------------------------------

    async def open(self, timeout_s: float, *, waits: bool = True) -> None:
        """Until there is a session; ConnectError if that does not work out in time.

        Unless it `waits`, ConnectError at once where nobody listens.
        """
        self._waits = waits
        self.handle(AttachRequested(Address(self._dialler.broker)))
        try:
            await self.until(lambda: self.is_attached, timeout_s, lambda: "there is no session")
        except NotInTime:
            doubts = "".join(connection.doubt for connection in self._open.values())
            what = f"can't connect within {timeout_s:g} s: {self._why}{doubts}"
            raise Unreachable(f"{self._dialler.broker}: {what}") from None

    async def leave(self, timeout_s: float) -> None:
        """End the session in order, behind all that was said; NotInTime if the broker does not answer."""
        self.intake.give_up_full()
        self._is_leaving = True
        self.handle(LeaveRequested())
        with suppress(Closed):  # that is what we wait for
            await self.until(lambda: False, timeout_s, lambda: "the broker did not say goodbye")

    def say_acks(self) -> None:
        """Tell the broker at once what otherwise waits for more."""
        for name in [name for name in self._timers if name.startswith("acks")]:
            self.handle(TimerFired(name))

    async def hang_up(self) -> None:
        """Nothing happens any more, and nothing is left behind. Without `leave` the session goes on."""
        self._stop()
        if self.failure is None:
            self.failure = partial(Closed, f"{self._dialler.broker}: the client is closed")
        if self._dials:
            await asyncio.wait(self._dials)
        if self._connections:
            lost = [connection.lost for connection in self._connections]
            await asyncio.wait(lost, timeout=CLOSE_S)
            for connection in self._connections:
                connection.abort()
        self.settling.end()
        self.progressed()

    def _stop(self) -> None:
        self.running.end()
        for connection in self._open.values():
            connection.close("goodbye")
        self._open.clear()
        self.intake.end()
        self.is_over = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._dials:
            task.cancel()
