"""Durable subscriptions: what is for them waits, whatever becomes of the process that reads.

The broker keeps the session under the subscription's name, for the next process that asks for it. Each has
a machine and a connection of its own, so that what is acknowledged in one holds up no other. An event
counts as handled when the application says so, in any order (`acknowledged`). What was not acknowledged comes
again to whoever reads next, in order, and nothing else does.

The session stands at the first broker of the URL, and at no other: a second one elsewhere would get the same
events once more.
"""

from __future__ import annotations

import asyncio
import secrets
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from roost.broker.events import Handled, SubscribeRequested
from roost.broker.messages import Publication
from roost.client.acknowledged import REMEMBERED, Acks, Beyond
from roost.client.arguments import check_flag, check_kind, check_seconds
from roost.client.errors import Closed, Refused
from roost.client.event import DurableEvent, ReceivedEvent
from roost.client.inbox import Inbox
from roost.client.lasting import Lasting
from roost.client.line import Dials, Line, Owner, line_config
from roost.client.subscription import Subscription
from roost.language.values import INT_MAX

if TYPE_CHECKING:
    from roost.client.client import Client
    from roost.language import Subscription as Interest

# A delivery: the event, in which life of the session, and its number there.
Delivered: TypeAlias = tuple[Publication, int, int]

# The only subscription of its session.
NAME = "events"


class DurableSession:
    """The session behind a durable subscription, as this process has it."""

    def __init__(
        self,
        *,
        name: str,
        lasting: Lasting,
        interest: Interest,
        dialler: Dials,
        buffer_max: int,
        timeout_s: float,
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self.is_closed = False
        self.reader: weakref.ref[DurableSubscription] | None = None
        self._interest = interest
        self._epoch = 0
        self._acks = Acks()
        self._where = (dialler.broker, lasting.session)
        # What this process has acknowledged of it before, and the broker does not know of.
        self._before: Beyond = {}
        self._is_due = False  # to say how far we are, at the end of this turn
        self._opening: asyncio.Lock = asyncio.Lock()
        self._is_open = False
        config = line_config(
            lasting.client,
            lasting.session,
            durable=True,
            process=secrets.token_hex(8),
            waits_for_application=True,
        )
        owner = Owner(
            handed=self._handed,
            dropped=self._dropped,
            refused=self._refused,
            attached=self._attached,
            detached=self._detached,
            failed=self._failed,
            room=lambda: self.inbox.room,
        )
        self.line = Line(config, dialler, owner)
        title = f"the durable subscription {name!r}"
        self.inbox: Inbox[Delivered] = Inbox(self.line, name, title, buffer_max, timeout_s)

    @property
    def life(self) -> int:
        """How often the broker has forgotten it since it was opened."""
        return self._epoch - 1

    @property
    def is_read(self) -> bool:
        """Whether anybody can still read it."""
        return not self.is_closed and self.reader is not None and self.reader() is not None

    async def open(self) -> None:
        """Take the session over, or begin it. Once."""
        if self._is_open:
            return
        async with self._opening:
            if self.is_closed:
                raise Closed(f"the durable subscription {self.name!r} is closed")
            if not self._is_open:
                self._before = REMEMBERED.take(self._where)
                # First what it is for: what has waited comes right behind the greeting.
                self.line.handle(SubscribeRequested(NAME, self._interest))
                try:
                    await self.line.open(self.timeout_s)
                except BaseException:
                    await self.detach()
                    raise
                self._is_open = True

    async def detach(self) -> None:
        """Leave it to the next process; what was acknowledged is said before that."""
        if not self.is_closed:
            self.is_closed = True
            self._say_reached()
            self.line.say_acks()
            reached = self._acks.reached
            before = {number: id_ for number, id_ in self._before.items() if number > reached}
            REMEMBERED.keep(self._where, {**before, **self._acks.beyond})
            self.inbox.end()
            self.inbox.clear()
            await self.line.hang_up()

    async def forget(self) -> None:
        """End it for good."""
        await self.open()
        if self.is_closed:
            raise Closed(f"the durable subscription {self.name!r} is closed")
        self.is_closed = True
        self.inbox.end()
        self.inbox.clear()
        # Nobody needs what was not acknowledged; else the broker would keep it, for nobody.
        self.line.handle(Handled(INT_MAX))
        try:
            await self.line.leave(self.timeout_s)
        finally:
            await self.line.hang_up()

    def ack(self, epoch: int, number: int) -> None:
        """The application is done with a delivery. Those of an earlier life nobody waits for."""
        if epoch == self._epoch and not self.is_closed:
            self._acks.done(number)
            if not self._is_due:
                self._is_due = True
                self.line.loop.call_soon(self._say_reached)

    def _say_reached(self) -> None:
        if self._is_due:
            self._is_due = False
            self.line.handle(Handled(self._acks.reached, self._acks.unsaid()))

    # --- what the line tells --------------------------------------------------------------------------

    def _handed(self, publication: Publication, names: Sequence[str], number: int) -> None:  # noqa: ARG002
        self._acks.handed(number, publication.id)
        if self._before and self._before.get(number) == publication.id:
            self.ack(self._epoch, number)
        else:
            self.inbox.put((publication, self._epoch, number))

    def _dropped(self, count: int) -> None:
        self.inbox.lacks(count)

    def _refused(self, request: str, reason: str) -> None:  # noqa: ARG002
        self.inbox.end(partial(Refused, f"the durable subscription {self.name!r}", reason))

    def _attached(self, resumed: bool) -> None:
        if not resumed:
            self._epoch += 1
            self._acks = Acks()

    def _detached(self, reason: str) -> None:
        """The line dials again."""

    def _failed(self) -> None:
        self.inbox.end(None if self.is_closed else self.line.failure)


class DurableSubscription(Subscription):
    """A subscription that outlives this process. `Client.subscribe(..., durable=NAME)` makes one.

    Every event is to be acknowledged when it has been dealt with: `await event.ack()`. With `auto_ack` that
    happens when the next one is asked for. Leaving `async with` only detaches; `forget` ends it for good.

    >>> import asyncio, roost
    >>> async def main():
    ...     async with roost.connect("memory://") as client:
    ...         async with client.subscribe("amount > 0", durable="billing"):
    ...             pass
    ...         for amount in (10, 20):  # nobody is reading
    ...             await client.publish({"amount": amount})
    ...         async with client.subscribe("amount > 0", durable="billing") as subscription:
    ...             first = await subscription.get()
    ...             await first.ack()
    ...             unhandled = await subscription.get()
    ...         async with client.subscribe("amount > 0", durable="billing") as subscription:
    ...             again = await subscription.get()
    ...             print(first["amount"], unhandled["amount"], again["amount"])
    ...             await subscription.forget()
    >>> asyncio.run(main())
    10 20 20
    """

    def __init__(
        self, client: Client, session: DurableSession, filter_: str, *, auto_ack: bool
    ) -> None:
        super().__init__(client, filter_, session.inbox)
        self.name = session.name
        self.auto_ack = auto_ack
        self._session = session
        session.reader = weakref.ref(self)
        self._unacknowledged: list[DurableEvent] = []  # those that auto_ack is for

    async def __anext__(self) -> DurableEvent:
        if not await self._some():
            raise StopAsyncIteration
        return self._event(self._inbox.pop())

    async def _some(self) -> bool:
        for event in self._unacknowledged:
            event._ack()
        self._unacknowledged.clear()
        await self._session.open()
        return await super()._some()

    def _event(self, item: Any) -> DurableEvent:
        publication, epoch, number = item
        event = DurableEvent(publication, self._session, epoch, number)
        if self.auto_ack:
            self._unacknowledged.append(event)
        return event

    def _bundles(self) -> bool:
        return False  # each is acknowledged by itself

    def _events(self, parts: Sequence[Any]) -> Sequence[DurableEvent]:
        return [self._event(part) for part in parts]

    async def ack(self, event: ReceivedEvent) -> None:
        """The same as `event.ack()`."""
        check_kind("event", event, (ReceivedEvent,), "an event of the subscription")
        await event.ack()

    async def ready(self, timeout_s: float | None = None, *, everywhere: bool = False) -> None:
        """As `Subscription.ready`; connects first, if need be."""
        check_seconds("timeout_s", timeout_s)
        check_flag("everywhere", everywhere)
        await self._session.open()
        within_s = self._session.timeout_s if timeout_s is None else timeout_s
        await self._session.line.settle(self._inbox, within_s, everywhere=everywhere)

    @property
    def is_new(self) -> bool:
        """Whether the broker has just begun to keep events for it: there was no session of that name.

        Of one that had been there before, what was published meanwhile is lost: the session has expired, was
        ended by an operator or a quota, or the broker has lost its store.
        """
        return self._session.line.machine.is_new

    async def close(self) -> None:
        """Detach: the session waits for whoever asks for it next, with what was not acknowledged."""
        await self._client._detach(self._session)

    async def forget(self) -> None:
        """End the session for good: the broker forgets the subscription and what waits for it."""
        try:
            await self._session.forget()
        finally:
            await self._client._detach(self._session)

    async def __aenter__(self) -> DurableSubscription:
        await self._session.open()
        return self
