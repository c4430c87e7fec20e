"""The client library: what an application publishes and subscribes through.

A client is one session with a broker. The protocol is the machine's (`roost.broker.client`) and its life the
line's (`line`); here is what an application needs besides:

**Publishing** costs no task and no future an event. What has not been acknowledged is bounded, in events
and in bytes: at a bound `publish` waits. New advertisements, also those that the library derives
(`advertising`), hold events back until every broker knows of them, or some time has passed, so that the
first event reaches subscribers at the other end of a federation. Order is kept.

**Subscribing** gives a handle to read from (`subscription`, `durable`), each with a bound (`inbox`).

**Refusals** come later than the request. Each is raised where somebody is: by `ready`, `advertise` or
reading, for a publication by the next `publish`, `flush` or on leaving.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, overload

from msgspec import Struct

from roost.broker.client import ClientConfig
from roost.broker.events import (
    AdvertiseRequested,
    PauseRequested,
    ResumeRequested,
    SubscribeRequested,
    UnadvertiseRequested,
    UnsubscribeRequested,
)
from roost.broker.messages import Publication
from roost.client.advertising import Derived
from roost.client.dialling import Dialler, Tls
from roost.client.durable import DurableSession, DurableSubscription
from roost.client.errors import ClientError, Closed, ConnectError, Refused
from roost.client.inbox import Inbox
from roost.client.line import ACK_DELAY_S, ACK_EVERY, REDIAL_S, Dials, Line
from roost.client.outgoing import Checked, Outgoing
from roost.client.subscription import Subscription
from roost.client.url import Target
from roost.language import (
    Advertisement,
    Filter,
    LanguageError,
    Value,
    parse_advertisement,
    parse_subscription,
)
from roost.language import Subscription as Interest
from roost.wire import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from types import TracebackType

    from roost.client.memory import MemoryBroker

log = logging.getLogger("roost.client")

State: TypeAlias = Literal["new", "connecting", "connected", "closed", "failed"]

# A publisher that never waits lets others have their turn after so many events.
TURN_EVENTS = 256
# How closely bytes that are not acknowledged are counted.
BYTES_STEP = 1 << 18
# How long to say goodbye when something has gone wrong already.
HASTE_S = 1.0


class Options(Struct, frozen=True, kw_only=True):
    """The settings of a client; see `connect`."""

    name: str = ""
    tls: Any = None
    timeout_s: float = 10.0
    settle_s: float = 5.0
    failover_s: float = 2.0
    pending_max: int = 10_000
    pending_bytes_max: int = 64_000_000
    buffer_max: int = 10_000
    limits: Limits = DEFAULT_LIMITS


class Advertised:
    """An advertisement of this client. It holds until it is withdrawn, or the client closed."""

    def __init__(self, client: Client, name: str, advertisement: Advertisement) -> None:
        self.filter = str(advertisement)
        self._client = client
        self._name = name
        self._refusal = ""

    async def withdraw(self) -> None:
        """No event like this will be published any more; what was published still arrives."""
        self._client._withdraw(self._name)

    def __repr__(self) -> str:
        return f"<Advertised {self.filter!r}>"


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
        self._memory: MemoryBroker | None = None
        self._outgoing = Outgoing(options.limits)
        self._derived: Derived | None = Derived()  # None once the application advertises itself
        self._advertised: dict[str, Advertised] = {}
        self._inboxes: dict[str, Inbox[Publication]] = {}
        self._durables: dict[str, DurableSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._names = 0
        self._holds = 0
        self._refusals: list[tuple[str, str]] = []  # the first, and ...
        self._more_refusals = 0
        self._turn = 0
        self._is_closing = False
        # Bytes published, those that are acknowledged for certain, and steps: (number, bytes up to it).
        self._bytes = 0
        self._bytes_acked = 0
        self._bytes_marked = 0
        self._marks: deque[tuple[int, int]] = deque()

    # --- beginning and end --------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """new, connecting (also after a loss), connected, closed, or failed: the session is over."""
        return self._state

    @property
    def url(self) -> str:
        """Where it connects to."""
        return self._target.url

    async def open(self) -> Self:
        """Connect; `async with` does it. ConnectError if that does not work out within `timeout_s`."""
        if self._state != "new":
            raise Closed(f"{self.name} has been opened before; expected a new client")
        dialler = self._dialler(self._target)
        config = ClientConfig(
            client=self.name,
            session=secrets.token_hex(16),
            ack_every=ACK_EVERY,
            ack_delay_s=ACK_DELAY_S,
            redial_s=REDIAL_S,
        )
        self._line = line = Line(config, dialler, self)
        self._set_state("connecting", "")
        try:
            await line.open(self._options.timeout_s)
        except BaseException:
            await self._hang_up()
            raise
        return self

    def _dialler(self, target: Target) -> Dials:
        if target.memory is None:
            return Dialler(target, self._options.tls, self._options.failover_s)
        # It brings the broker along, which takes its time to load.
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
        if self._line is None or self._is_closing:
            return
        self._is_closing = True
        line = self._line
        within_s = self._options.timeout_s if timeout_s is None else timeout_s
        trouble: ClientError | None = None
        try:
            try:
                # A session that is over has been heard of, unless something of ours went with it.
                if line.failure is None or line.machine.accepted < line.machine.published:
                    await self.flush(within_s)
            except ClientError as error:
                trouble = error
            if self._state != "failed":
                self._set_state("closed", "")
            for session in list(self._durables.values()):
                await session.detach()
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
        if self._state != "failed":
            self._set_state("closed", "")
        try:
            for session in list(self._durables.values()):
                await session.detach()
            await self._line.hang_up()
            for task in list(self._tasks):
                await asyncio.wait((task,))
        finally:
            for inbox in self._inboxes.values():
                inbox.end()
            self._inboxes.clear()
            self._durables.clear()
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
        if state != self._state:
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
        return await self._publish(self._outgoing.check(attributes, payload, content_type, headers))

    async def _publish(self, checked: Checked) -> str:
        line = self._live()
        if self._refusals:
            self._raise_refusals()
        request, shape, size = checked
        self._turn += 1
        if self._turn >= TURN_EVENTS:
            self._turn = 0
            await asyncio.sleep(0)
        if self._is_full():
            await self._room()
        if self._derived is not None:
            missing = self._derived.missing(shape)
            if missing is not None:
                self._advertise(*missing)
        line.handle(request)
        number = line.machine.published
        self._bytes += size
        if self._bytes - self._bytes_marked > BYTES_STEP:
            self._bytes_marked = self._bytes
            self._marks.append((number, self._bytes))
        return f"{self.name}:{number}"

    def _is_full(self) -> bool:
        """Whether enough is on its way."""
        line = self._line
        assert line is not None
        machine = line.machine
        lane = machine.channel.data
        connection = line.connection
        return (
            lane.sent - lane.acked + len(machine.kept_back) >= self._options.pending_max
            or (connection is not None and connection.congested)
            or self._bytes - self._bytes_acked > self._options.pending_bytes_max
        )

    async def _room(self) -> None:
        """Until what is on its way has become half of what it may be, so that not each event waits."""
        line, options = self._live(), self._options
        machine = line.machine

        def has_room() -> bool:
            self._count_bytes()
            lane = machine.channel.data
            return (
                (lane.sent - lane.acked + len(machine.kept_back)) * 2 <= options.pending_max
                and (line.connection is None or not line.connection.congested)
                and (self._bytes - self._bytes_acked) * 2 <= options.pending_bytes_max
            )

        self._count_bytes()
        while self._is_full():
            await line.until(has_room, None, lambda: "too much is on its way")
        self._live()

    def _count_bytes(self) -> None:
        assert self._line is not None
        accepted = self._line.machine.accepted
        while self._marks and self._marks[0][0] <= accepted:
            self._bytes_acked = self._marks.popleft()[1]

    async def flush(self, timeout_s: float | None = None) -> None:
        """Until the broker has acknowledged everything that was published and asked for before.

        With a durable broker that means that it is stored. Refused if something was refused; NotInTime if it
        takes too long, which leaves everything on its way.
        """
        line = self._live()
        machine, last = line.machine, line.machine.published
        await line.until(
            lambda: machine.accepted >= last and not machine.channel.control.outbox,
            timeout_s,
            lambda: f"{last - machine.accepted:,} events are not acknowledged",
        )
        if self._refusals:
            self._raise_refusals()

    @property
    def acknowledged(self) -> int:
        """How many of the events published so far the broker has: stored them, if it is durable."""
        return 0 if self._line is None else self._line.machine.accepted

    def _raise_refusals(self) -> None:
        ((request, reason),) = self._refusals
        others, self._more_refusals = self._more_refusals, 0
        self._refusals.clear()
        raise Refused(request, reason, others)

    # --- advertising --------------------------------------------------------------------------------

    async def advertise(self, filter_: str | Filter | Advertisement) -> Advertised:
        """Say what will be published; every event then has to match one of the advertisements.

        Waits until all brokers know of it, at most `settle_s`. Nothing is derived any more from what is
        published. Refused if the broker does not allow it.

        >>> import asyncio, roost
        >>> async def main():
        ...     async with roost.connect("memory://") as client:
        ...         advertised = await client.advertise("class = 'STOCK' and volume > 0")
        ...         await client.publish({"class": "STOCK", "volume": 7})
        ...         await advertised.withdraw()
        >>> asyncio.run(main())
        """
        line = self._live()
        if isinstance(filter_, str):
            advertisement = parse_advertisement(filter_)
        elif isinstance(filter_, Filter):
            advertisement = Advertisement([filter_])
        else:
            advertisement = filter_
        _check_length(advertisement, self._options.limits)
        self._derived = None
        name = self._new_name()
        advertised = self._advertised[name] = Advertised(self, name, advertisement)
        settled = self._advertise(name, advertisement)
        try:
            await line.until(
                lambda: settled.done() or bool(advertised._refusal),
                None,
                lambda: "the advertisement has not settled",
            )
        except BaseException:
            self._withdraw(name)  # nobody has it, so nobody could
            raise
        if advertised._refusal:
            raise Refused(f"the advertisement {advertised.filter!r}", advertised._refusal)
        return advertised

    def _advertise(self, name: str, advertisement: Advertisement) -> asyncio.Future[None]:
        """Advertise, and hold events back until it has settled; done when they are let go."""
        line = self._live()
        line.handle(AdvertiseRequested(name, advertisement))
        if not self._holds:
            line.handle(PauseRequested())
        self._holds += 1
        let_go: asyncio.Future[None] = line.loop.create_future()
        settled = line.settling.ask()
        late = line.loop.call_later(self._options.settle_s, self._let_go, line, let_go, False)
        settled.add_done_callback(lambda _: self._let_go(line, let_go, True))
        let_go.add_done_callback(lambda _: late.cancel())
        return let_go

    def _let_go(self, line: Line, let_go: asyncio.Future[None], settled: bool) -> None:
        if let_go.done():
            return
        let_go.set_result(None)
        if not settled:
            what = "an advertisement is not known to all brokers after"
            log.warning("%s: %s %g s; going on", self.name, what, self._options.settle_s)
        self._holds -= 1
        if not self._holds:
            line.handle(ResumeRequested())
        line.progressed()

    def _withdraw(self, name: str) -> None:
        if self._advertised.pop(name, None) is not None and self._line is not None:
            self._line.handle(UnadvertiseRequested(name))

    # --- subscribing --------------------------------------------------------------------------------

    @overload
    def subscribe(
        self, filter_: str | Filter | Interest, *, buffer_max: int | None = None
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
    ) -> Subscription:
        """Ask for the events that match a filter, and read them: `async for event in client.subscribe(...)`.

        At most `buffer_max` events wait to be read, by default as many as the client was told; then nothing
        more is read from the broker. With `durable`, a name, it outlives this process; see
        `DurableSubscription`.

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
        line = self._live()
        if isinstance(filter_, str):
            interest = parse_subscription(filter_)
        elif isinstance(filter_, Filter):
            interest = Interest([filter_])
        else:
            interest = filter_
        _check_length(interest, self._options.limits)
        bound = self._options.buffer_max if buffer_max is None else buffer_max
        if bound < 1:
            raise ValueError(f"buffer_max is {bound}; expected 1 or more")
        if durable is not None:
            return self._subscribe_durably(durable, interest, bound, auto_ack=auto_ack)
        name = self._new_name()
        title = f"the subscription to {str(interest)[:200]!r}"
        inbox = Inbox[Publication](line, name, title, bound, self._options.timeout_s)
        self._inboxes[name] = inbox
        line.handle(SubscribeRequested(name, interest))
        return Subscription(self, str(interest), inbox)

    def _subscribe_durably(
        self, name: str, interest: Interest, bound: int, *, auto_ack: bool
    ) -> DurableSubscription:
        if not name or len(name) > 256 or not name.isprintable():
            raise ValueError(f"durable is {name[:80]!r}; expected 1 to 256 visible characters")
        there = self._durables.get(name)
        if there is not None and not there.is_closed:
            raise ValueError(f"this client reads the durable subscription {name!r} already")
        target = self._target
        session = self._durables[name] = DurableSession(
            name=name,
            client_name=f"{target.user or 'durable'}~{name}",
            session=f"{target.user}~durable/{name}" if target.user else f"durable/{name}",
            interest=interest,
            dialler=self._dialler(_first(target)),
            buffer_max=bound,
            timeout_s=self._options.timeout_s,
        )
        return DurableSubscription(self, session, str(interest), auto_ack=auto_ack)

    async def _until_ready(self, inbox: Inbox[Any], timeout_s: float | None) -> None:
        within_s = self._options.timeout_s if timeout_s is None else timeout_s
        await self._live().settle(inbox, within_s)

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
        session = self._durables.get(inbox.name)
        if session is not None and session.inbox is inbox:
            assert self._line is not None
            task = self._line.loop.create_task(session.detach())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._unsubscribe(inbox)

    def _detached(self, session: DurableSession) -> None:
        if self._durables.get(session.name) is session:
            del self._durables[session.name]

    def _new_name(self) -> str:
        self._names += 1
        return str(self._names)

    # --- Owner --------------------------------------------------------------------------------------

    def handed(self, publication: Publication, names: Sequence[str], number: int) -> None:  # noqa: ARG002
        for name in names:
            inbox = self._inboxes.get(name)
            if inbox is not None:
                inbox.put(publication)

    def dropped(self, count: int) -> None:
        self.dropped_events += count
        for inbox in self._inboxes.values():
            inbox.put(count)

    def refused(self, request: str, reason: str) -> None:
        line = self._line
        assert line is not None
        name = line.machine.subscription_called(request)
        if name is not None:
            inbox = self._inboxes.pop(name)
            inbox.end(partial(Refused, inbox.title, reason))
            line.handle(UnsubscribeRequested(name))
            return
        name = line.machine.advertisement_called(request)
        if name is None:
            self._note_refusal(f"publication {request}", reason)
            return
        line.handle(UnadvertiseRequested(name))
        advertised = self._advertised.pop(name, None)
        if advertised is not None:
            advertised._refusal = reason
            return
        if self._derived is not None:
            self._derived.refused(name)
        self._note_refusal("the advertisement that follows from what was published", reason)

    def _note_refusal(self, request: str, reason: str) -> None:
        if self._refusals:
            self._more_refusals += 1
        else:
            self._refusals.append((request, reason))

    def attached(self, resumed: bool) -> None:
        self._set_state("connected", "resumed" if resumed else "")

    def detached(self, reason: str) -> None:
        self._set_state("connecting", reason)

    def failed(self) -> None:
        line = self._line
        assert line is not None and line.failure is not None
        if self._state != "closed":
            error = line.failure()
            # Before there was a session, `open` says it.
            self._set_state("closed" if isinstance(error, ConnectError) else "failed", str(error))
            for inbox in self._inboxes.values():
                inbox.end(line.failure)


def _first(target: Target) -> Target:
    """Only its first broker."""
    if len(target.addresses) < 2:
        return target
    return Target(
        url=target.url,
        addresses=target.addresses[:1],
        tls=target.tls,
        user=target.user,
        token=target.token,
    )


def _check_length(interest: Interest | Advertisement, limits: Limits) -> None:
    length, most = len(str(interest)), limits.filter_length_max
    if length > most:
        raise LanguageError(f"the filter has {length:,} characters; at most {most:,} are allowed")


__all__ = ["Advertised", "Client", "Options", "State", "Tls"]
