"""The client library: what an application publishes and subscribes through.

A client is one session with a broker. The protocol is the machine's (`roost.broker.client`) and its life
the line's (`line`). Here it begins and ends, and what the application does is passed on: publishing and
advertising to `publishing`, after a look at what was handed in (`outgoing`); subscribing gives a handle to
read from (`subscription`, `durable`), which is filled here (`inbox`). What outlives this process has a line
of its own (`durable`, `outbox`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast, overload

from roost.broker.events import SubscribeRequested, UnsubscribeRequested
from roost.broker.messages import Publication
from roost.client.arguments import (
    advertisement_of,
    check_choice,
    check_flag,
    check_kind,
    check_seconds,
    check_text,
    check_whole,
    interest_of,
)
from roost.client.columns import Columns, encoder_of, is_columns, rows_of
from roost.client.dialling import Dialler
from roost.client.durable import DurableSession, DurableSubscription
from roost.client.entry import Place
from roost.client.errors import (
    ClientError,
    Closed,
    ConnectError,
    NeverMatches,
    Overrun,
    Refused,
)
from roost.client.inbox import Inbox, WhenFull
from roost.client.lasting import home_of, lasting_outbox, lasting_subscription
from roost.client.line import HASTE_S, Dials, Line, Owner, line_config
from roost.client.options import Options
from roost.client.outbox import Outbox
from roost.client.outgoing import Checked, Outgoing
from roost.client.publishing import Advertised, Publishing
from roost.client.subscription import Subscription
from roost.client.url import Target
from roost.extras import needed_for
from roost.language import Advertisement, Filter, LanguageError, Value
from roost.language import Subscription as Interest
from roost.wire import Limits

if TYPE_CHECKING:
    from types import TracebackType

    from roost.client.memory import MemoryBroker

log = logging.getLogger("roost.client")

State: TypeAlias = Literal["new", "connecting", "connected", "closed", "failed"]


class Client:
    """A session with a broker; `roost.connect` makes one, and `async with` opens and closes it."""

    def __init__(self, target: Target, options: Options) -> None:
        self._target = target
        self._options = options
        word = "~".join(filter(None, (target.user, options.name))) or "client"
        # Events are told apart by publisher and number, so no other process may have this name.
        self.name = f"{word}~{secrets.token_hex(8)}"
        self.on_state: Callable[[State, str], None] | None = None  # told of a new state, and why
        self.dropped_events = 0  # by the broker, because they were not read in time
        self._state: State = "new"
        self._line: Line | None = None
        self._publishing: Publishing | None = None
        self._memory: MemoryBroker | None = None
        self._besides: dict[Place, Place] = {}  # see `Dialler`
        self._outgoing = Outgoing(options.limits)
        self._inboxes: dict[str, Inbox[Publication]] = {}
        self._durables: dict[Inbox[Any], DurableSession] = {}
        self._outboxes: list[Outbox] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._names = 0
        self._is_closing = False

    # --- beginning and end --------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """new, connecting (also after a loss), connected, closed, or failed: the session is over."""
        return self._state

    @property
    def url(self) -> str:
        """Where it connects to."""
        return self._target.url

    @property
    def pauses_s(self) -> Sequence[float]:
        """Of each move to another broker (the last 1,000): how long events were kept back."""
        return () if self._line is None else tuple(self._line.pauses_s)

    @property
    def unacknowledged(self) -> int:
        """How many events the broker has not acknowledged."""
        return 0 if self._publishing is None else self._publishing.unacknowledged

    async def open(self) -> Self:
        """Connect; `async with` does it. ConnectError if that does not work out within `timeout_s`."""
        if self._state != "new":
            raise Closed(f"{self.name} has been opened before; expected a new client")
        dialler = self._dialler(self._target)
        config = line_config(self.name, secrets.token_hex(16))
        owner = Owner(
            handed=self._handed,
            dropped=self._dropped,
            refused=self._refused,
            attached=self._attached,
            detached=self._detached,
            failed=self._failed,
            held_up=self._held_up,
            inbox=self._inbox,
        )
        self._line = line = Line(config, dialler, owner)
        self._publishing = Publishing(line, self._options)
        self._set_state("connecting", "")
        try:
            await line.open(self._options.timeout_s, waits=self._options.wait)
        except BaseException:
            await self._hang_up()
            raise
        return self

    def _dialler(self, target: Target) -> Dials:
        if target.memory is None:
            options = self._options
            return Dialler(
                target, options.tls, options.failover_s, options.keepalive_s, self._besides
            )
        # It brings the broker along, which takes its time to load.
        with needed_for(f"{target.url}, a broker in this process,"):
            from roost.client.memory import MemoryBroker, MemoryDialler  # noqa: PLC0415

        if self._memory is None:
            self._memory = MemoryBroker.of(target.memory)
            self._memory.acquire()
        return MemoryDialler(self._memory, target.url)

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, leave in order, and close; `async with` does it.

        What was refused and has not been raised is raised now, as is NotInTime if the broker has not
        acknowledged everything within the time. Closed it is in any case.
        """
        check_seconds("timeout_s", timeout_s)
        if self._line is None or self._publishing is None or self._is_closing:
            return
        self._is_closing = True
        line = self._line
        within_s = self._options.timeout_s if timeout_s is None else timeout_s
        trouble: ClientError | None = None
        line.intake.give_up_full()  # what we wait for may stand behind events that nobody reads
        try:
            try:
                # A session that is over has been heard of, unless something of ours went with it.
                if line.failure is None or self._publishing.unacknowledged:
                    await self._publishing.flush(within_s)
            except ClientError as error:
                trouble = error
            self._set_state("closed", "")
            for session in list(self._durables.values()):
                await session.detach()
            for outbox in self._outboxes:
                try:
                    await outbox.close(within_s)
                except ClientError as error:
                    trouble = trouble or error
            try:
                if line.is_attached:
                    await line.leave(within_s)
            except ClientError as error:
                log.info("%s left without a goodbye: %s", self.name, error)
        finally:
            await self._hang_up()
        if trouble is not None:
            raise trouble

    async def _hang_up(self) -> None:
        assert self._line is not None
        self._set_state("closed", "")
        try:
            for session in list(self._durables.values()):
                await session.detach()
            for outbox in self._outboxes:
                await outbox._detach()
            await self._line.hang_up()
            for task in list(self._tasks):
                await asyncio.wait((task,))
        finally:
            for inbox in self._inboxes.values():
                inbox.end()
            self._inboxes.clear()
            self._durables.clear()
            self._outboxes.clear()
            if self._memory is not None:
                self._memory.release()
                self._memory = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(min(HASTE_S, self._options.timeout_s))
        except ClientError as trouble:
            log.warning("%s: %s", self.name, trouble)  # what went wrong first counts

    def __await__(self) -> Generator[Any, None, Self]:
        """`client = await roost.connect(...)`, for those who close it themselves."""
        return self.open().__await__()

    def __repr__(self) -> str:
        return f"<Client {self.name} at {self.url}, {self.state}>"

    def _set_state(self, state: State, why: str) -> None:
        if state != self._state and self._state not in ("closed", "failed"):
            self._state = state
            if self.on_state is not None:
                try:
                    self.on_state(state, why)
                except Exception:
                    log.exception("%s: on_state failed", self.name)  # and is no business of ours

    def _live(self) -> Line:
        """The line, if the client can be used; else the error that says why not."""
        line = self._line
        if line is None:
            raise Closed(f"{self.name} is not open; expected `async with roost.connect(...)`")
        if self._state == "closed":
            raise Closed(f"{self.name} is closed")
        line.check()
        return line

    # --- publishing ---------------------------------------------------------------------------------

    async def publish(
        self,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        *,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Publish an event: attributes by name, and what goes along with them. Gives its id.

        It is on its way then, and will arrive even if the connection is lost in between. `flush` tells when
        the broker has it. Waits while too many are on their way. LanguageError if there can be no such event;
        Refused if an earlier one was refused, and then this one is not published.

        >>> import asyncio, roost
        >>> async def main():
        ...     async with roost.connect("memory://") as client:
        ...         await client.publish({"class": "STOCK", "volume": 400_000}, payload=b"...")
        ...         await client.flush()
        >>> asyncio.run(main())
        """
        checked = self._outgoing.check(attributes, payload, content_type, headers)
        publishing = self._publishing
        if publishing is None or self._state == "closed":
            publishing = self._live_publishing()
        return publishing.put(checked) or await publishing.publish(checked)

    async def publish_many(self, events: Iterable[Mapping[str, Value]] | Columns) -> int:
        """Publish events, in this order, which is quicker than one at a time; how many there were.

        `events` are attributes by name, each as for `publish`; or an Arrow table or record batch, whose
        rows are events and whose columns are attributes (a null is an attribute that the event does not
        have). That is quickest by far.

        All of them are looked at first: LanguageError if one can't be published, and then none is. Refused
        if an earlier event was refused: what is left of these is not published then.
        """
        if is_columns(events):
            return await self._publish_columns(cast(Columns, events))
        check_kind("events", events, (Iterable,), "events, each as for publish, or an Arrow table")
        checked = self._outgoing.check_many(cast(Iterable[Mapping[str, Value]], events))
        await self._live_publishing().publish_many(checked)
        return len(checked)

    async def _publish_columns(self, events: Columns) -> int:
        def rest(first: int) -> list[Checked]:
            return self._outgoing.check_many(rows_of(events.slice(first)))

        publishing = self._live_publishing()
        encoder = encoder_of(events, self._outgoing.size_max)
        if encoder is None:
            await publishing.publish_many(rest(0))
        else:
            await publishing.publish_columns(encoder, rest)
        return int(events.num_rows)

    def _live_publishing(self) -> Publishing:
        self._live()
        assert self._publishing is not None
        return self._publishing

    async def flush(self, timeout_s: float | None = None) -> None:
        """Until the broker has acknowledged everything that was published and asked for before.

        With a durable broker that means that it is stored. Refused if something was refused; NotInTime if it
        takes too long, which leaves everything on its way.
        """
        check_seconds("timeout_s", timeout_s)
        await self._live_publishing().flush(timeout_s)

    # --- advertising --------------------------------------------------------------------------------

    async def advertise(self, filter_: str | Filter | Advertisement) -> Advertised:
        """Say what will be published; every event then has to match one of the advertisements.

        Waits until the broker has it. Nothing is derived any more from what is
        published. Refused if the broker does not allow it.

        >>> import asyncio, roost
        >>> async def main():
        ...     async with roost.connect("memory://") as client:
        ...         advertised = await client.advertise("class = 'STOCK' and volume > 0")
        ...         await client.publish({"class": "STOCK", "volume": 7})
        ...         await advertised.withdraw()
        >>> asyncio.run(main())
        """
        return await self._live_publishing().advertise(self._advertisement("filter", filter_))

    def _advertisement(self, name: str, filter_: str | Filter | Advertisement) -> Advertisement:
        advertisement = advertisement_of(name, filter_)
        _check_length(advertisement, self._options.limits)
        return advertisement

    # --- publishing from a log ----------------------------------------------------------------------

    def outbox(
        self,
        name: str,
        *,
        advertise: str | Filter | Advertisement | None = None,
        after: int = 0,
    ) -> Outbox:
        """Publish what stands in a log, each event once, whichever process does it; see `Outbox`.

        `advertise` says what will be published; else that follows from what is. `after` is the number of the
        last event as far as the application itself knows, for a broker that knows of none.
        """
        self._live()
        check_text("name", name, optional=False)
        check_whole("after", after, 0)
        lasting = lasting_outbox(self._target, name)
        self._outboxes = [there for there in self._outboxes if not there.is_closed]
        if any(there.name == name for there in self._outboxes):
            raise ValueError(f"this client has the outbox {name!r} already")
        outbox = Outbox(
            name,
            lasting=lasting,
            dialler=self._dialler(home_of(self._target)),
            options=self._options,
            outgoing=self._outgoing,
            advertisements=(
                [] if advertise is None else [self._advertisement("advertise", advertise)]
            ),
            after=after,
        )
        self._outboxes.append(outbox)
        return outbox

    # --- subscribing --------------------------------------------------------------------------------

    @overload
    def subscribe(
        self,
        filter_: str | Filter | Interest,
        *,
        buffer_max: int | None = None,
        when_full: WhenFull = "wait",
    ) -> Subscription: ...

    @overload
    def subscribe(
        self,
        filter_: str | Filter | Interest,
        *,
        durable: str,
        auto_ack: bool = False,
        buffer_max: int | None = None,
    ) -> DurableSubscription: ...

    def subscribe(
        self,
        filter_: str | Filter | Interest,
        *,
        durable: str | None = None,
        auto_ack: bool = False,
        buffer_max: int | None = None,
        when_full: WhenFull = "wait",
    ) -> Subscription:
        """Ask for the events that match a filter, and read them: `async for event in client.subscribe(...)`.

        At most `buffer_max` events wait to be read, by default as many as the client was told. Then nothing
        more is read from the broker until half of them are gone, and nothing is lost; the other
        subscriptions of the client wait meanwhile, but if somebody waits for one of them and nobody reads
        this one for 10 s, or it is still too slow after the client's `timeout_s`, it ends with Overrun and
        they go on. With `when_full` nobody waits for it at all: it drops what comes while it is full
        (`"drop"`; EventsDropped says how many) or ends (`"end"`). With `durable`, a name, it outlives this
        process, has a connection of its own and holds up nobody; see `DurableSubscription`.

        >>> import asyncio, roost
        >>> async def main():
        ...     async with roost.connect("memory://") as client:
        ...         subscription = client.subscribe("class = 'STOCK' and volume > 300000")
        ...         await client.publish({"class": "STOCK", "volume": 400_000})
        ...         async for event in subscription:
        ...             print(event["volume"])
        ...             break
        >>> asyncio.run(main())
        400000
        """
        return self._subscribe(
            filter_, durable, auto_ack=auto_ack, buffer_max=buffer_max, when_full=when_full
        )

    def _subscribe(
        self,
        filter_: str | Filter | Interest,
        durable: str | None,
        *,
        auto_ack: bool,
        buffer_max: int | None,
        when_full: WhenFull,
    ) -> Subscription:
        line = self._live()
        check_text("durable", durable)
        check_flag("auto_ack", auto_ack)
        check_choice("when_full", when_full, ("wait", "drop", "end"))
        bound = self._options.buffer_max if buffer_max is None else buffer_max
        check_whole("buffer_max", bound, 1)
        interest = interest_of(filter_)
        _check_length(interest, self._options.limits)
        if not any(interest.filters):
            warnings.warn(f"no event can match {str(interest)[:200]!r}", NeverMatches, stacklevel=3)
        if durable is not None:
            if when_full != "wait":
                raise ValueError(f"when_full is {when_full!r}; a durable subscription waits")
            return self._subscribe_durably(durable, interest, bound, auto_ack=auto_ack)
        name = self._new_name()
        title = f"the subscription to {str(interest)[:200]!r}"
        stalled_s = self._options.timeout_s
        inbox = Inbox[Publication](line, name, title, bound, stalled_s, when_full)
        self._inboxes[name] = inbox
        line.handle(SubscribeRequested(name, interest))
        return Subscription(self, str(interest), inbox)

    def _subscribe_durably(
        self, name: str, interest: Interest, bound: int, *, auto_ack: bool
    ) -> DurableSubscription:
        lasting = lasting_subscription(self._target, name)
        if any(there.name == name and there.is_read for there in self._durables.values()):
            raise ValueError(f"this client reads the durable subscription {name!r} already")
        session = DurableSession(
            name=name,
            lasting=lasting,
            interest=interest,
            dialler=self._dialler(home_of(self._target)),
            buffer_max=bound,
            timeout_s=self._options.timeout_s,
        )
        self._durables[session.inbox] = session
        return DurableSubscription(self, session, str(interest), auto_ack=auto_ack)

    async def _until_ready(
        self, inbox: Inbox[Any], timeout_s: float | None, everywhere: bool
    ) -> None:
        within_s = self._options.timeout_s if timeout_s is None else timeout_s
        await self._live().settle(inbox, within_s, everywhere=everywhere)

    def _unsubscribe(self, inbox: Inbox[Any]) -> None:
        if self._inboxes.get(inbox.name) is inbox:
            del self._inboxes[inbox.name]
            inbox.end()
            inbox.clear()
            if self._line is not None and inbox.failure is None:
                self._line.handle(UnsubscribeRequested(inbox.name))

    def _abandoned(self, inbox: Inbox[Any]) -> None:
        """Nobody can read it any more. Called from any thread."""
        line = self._line
        if line is not None and self._state != "closed" and not line.loop.is_closed():
            line.loop.call_soon_threadsafe(self._let_lie, inbox)

    def _let_lie(self, inbox: Inbox[Any]) -> None:
        session = self._durables.get(inbox)
        if session is not None:
            assert self._line is not None
            task = self._line.loop.create_task(self._detach(session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._unsubscribe(inbox)

    async def _detach(self, session: DurableSession) -> None:
        await session.detach()
        self._durables.pop(session.inbox, None)

    def _new_name(self) -> str:
        self._names += 1
        return str(self._names)

    # --- what the line tells --------------------------------------------------------------------------

    def _inbox(self, names: tuple[str, ...] | None) -> Inbox[Any] | None:
        return self._inboxes.get(names[0]) if names is not None and len(names) == 1 else None

    def _handed(self, publication: Publication, names: Sequence[str], number: int) -> None:  # noqa: ARG002
        for name in names:
            inbox = self._inboxes.get(name)
            if inbox is not None and not inbox.put(publication):
                self._overrun(inbox, "when_full is 'end'")

    def _dropped(self, count: int) -> None:
        self.dropped_events += count
        for inbox in self._inboxes.values():
            inbox.lacks(count)

    def _held_up(self) -> None:
        """A full subscription keeps us from reading: for a while only, if somebody waits for another."""
        line = self._line
        assert line is not None
        full, now = line.intake.full, line.loop.time()
        if any(inbox.is_awaited for inbox in self._inboxes.values() if inbox not in full):
            for inbox in [inbox for inbox in full if inbox.holds_up_too_long(now)]:
                self._overrun(inbox, "others of this client have waited for it to be read")

    def _overrun(self, inbox: Inbox[Any], why: str) -> None:
        """It ends by itself; what it holds can still be read."""
        assert self._line is not None
        del self._inboxes[inbox.name]
        what = f"{inbox.title} has ended with {len(inbox):,} events that were not read: {why}"
        inbox.end(partial(Overrun, what))
        self._line.handle(UnsubscribeRequested(inbox.name))

    def _refused(self, request: str, reason: str) -> None:
        line = self._line
        assert line is not None and self._publishing is not None
        name = line.machine.subscription_called(request)
        if name is not None:
            inbox = self._inboxes.pop(name)
            inbox.end(partial(Refused, inbox.title, reason))
            line.handle(UnsubscribeRequested(name))
        else:
            self._publishing.refused(request, reason)

    def _attached(self, resumed: bool) -> None:
        self._set_state("connected", "resumed" if resumed else "")

    def _detached(self, reason: str) -> None:
        self._set_state("connecting", reason)

    def _failed(self) -> None:
        line = self._line
        assert line is not None and line.failure is not None
        if self._state != "closed":
            error = line.failure()
            # Before there was a session, `open` says it.
            self._set_state("closed" if isinstance(error, ConnectError) else "failed", str(error))
            for inbox in self._inboxes.values():
                inbox.end(line.failure)


def _check_length(interest: Interest | Advertisement, limits: Limits) -> None:
    length, most = len(str(interest)), limits.filter_length_max
    if length > most:
        raise LanguageError(f"the filter has {length:,} characters; at most {most:,} are allowed")
